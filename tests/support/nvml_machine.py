"""A machine whose GPUs a test makes up: the fake library, its state file, and the probe on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

CHILD = Path(__file__).with_name("nvml_child.py")

T = TypeVar("T")


def compile_fake(
    folder: Path, name: str = "libnvidia-ml.so.1", source: str = "nvml_fake.c"
) -> Path:
    """Build a library of the driver; returns its folder."""
    made, written = folder / name, Path(__file__).with_name(source)
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", made, written], check=True
    )
    return folder


def uuid(index: int) -> str:
    return f"GPU-{index:08d}-aaaa-bbbb-cccc-dddddddddddd"


class Machine:
    """Change it with `set` at any time; ask the probe on it with `ask`."""

    def __init__(self, folder: Path, library: Path | None) -> None:
        self._state_file = folder / "state"
        self.sysfs = folder / "sysfs"
        self._values: dict[str, str] = {}
        self._library = library
        self._child: subprocess.Popen[str] | None = None
        self.reset()

    def reset(self) -> None:
        """A machine as new, and a new probe on it."""
        self._values = {}
        shutil.rmtree(self.sysfs, ignore_errors=True)
        self.set({"driver": "550.54.15", "count": 0})
        if self._child is not None:
            self.ask("renew")

    def add_gpus(self, count: int, **fields: object) -> None:
        for index in range(count):
            self.set(
                {
                    f"{index}.uuid": uuid(index),
                    f"{index}.name": "NVIDIA H100 80GB HBM3",
                    f"{index}.bus": f"00000000:{index + 7:02X}:00.0",
                    f"{index}.total": 81559,
                }
            )
            self.set({f"{index}.{name}": value for name, value in fields.items()})
        self.set({"count": count})

    def set(self, values: dict[str, object]) -> None:
        """None removes a value. The file is replaced at once: a reader sees the old or the new."""
        for key, value in values.items():
            if value is None:
                self._values.pop(key, None)
            else:
                self._values[key] = str(value)
        new = self._state_file.with_suffix(".new")
        new.write_text("".join(f"{key}={value}\n" for key, value in self._values.items()))
        new.rename(self._state_file)

    def next_event(self, event: str) -> None:
        """Let the driver report one more event: "INDEX:XID"."""
        number = 1 + sum(key.startswith("event.") for key in self._values)
        self.set({f"event.{number}": event})

    def ask(self, method: str, *arguments: object) -> Any:
        child = self._child = self._child or self._spawn()
        assert child.stdin
        assert child.stdout
        child.stdin.write(json.dumps([method, arguments]) + "\n")
        child.stdin.flush()
        return json.loads(child.stdout.readline())

    def until(self, look: Callable[[], T], is_so: Callable[[T], bool]) -> T:
        """Ask again until it is so, for at most 60 seconds; returns the last answer."""
        deadline = time.monotonic() + 60
        while not is_so(found := look()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return found

    def close(self) -> None:
        """Returns when the probe's process has ended by itself."""
        if self._child is not None:
            self._child.communicate(timeout=60)
            assert self._child.returncode == 0

    def _spawn(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, CHILD, self.sysfs],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "LD_LIBRARY_PATH": str(self._library or ""),
                "FAKE_NVML_STATE": str(self._state_file),
            },
        )
