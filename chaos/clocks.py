"""Clocks that jump: a small library is loaded into processes and adds an offset to their time."""

from __future__ import annotations

import shutil
import struct
import subprocess
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

SOURCE = Path(__file__).with_name("clock.c")


@cache
def library() -> Path | None:
    """Return the compiled library; None where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    built = Path(mkdtemp(prefix="skep-chaos-")) / "clock.so"
    built.parent.chmod(0o755)
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", str(built), str(SOURCE), "-ldl", "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    return built


def environment(clock: Path) -> dict[str, str]:
    """Return the variables of a process whose time follows `clock`."""
    found = library()
    if found is None:
        return {}
    if not clock.exists():
        set_offset(clock, 0.0)
    return {"LD_PRELOAD": str(found), "SKEP_CHAOS_CLOCK": str(clock)}


def set_offset(clock: Path, seconds: float) -> None:
    """Let it jump to `seconds` beyond the true time. In place, for it is mapped."""
    with clock.open("r+b" if clock.exists() else "w+b") as file:
        file.write(struct.pack("d", seconds))
