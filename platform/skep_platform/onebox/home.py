"""The state folder of one box: who runs in it, what it says of itself, where its logs are.

engines/   databases and their secrets        log/    one file per child
data/      log chunks of jobs                 nodes/  state of each local agent
run/       lock, status, readiness files; only for the life of a supervisor
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LOG_BYTES = 20 * 1024 * 1024  # of each child, before it is moved to its one older file


@dataclass(frozen=True, slots=True)
class Home:
    root: Path

    @classmethod
    def from_environment(cls) -> Home:
        """Return the home in $SKEP_HOME, else in the XDG data folder."""
        if given := os.environ.get("SKEP_HOME"):
            return cls(Path(given).absolute())
        data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
        return cls(Path(data) / "skep")

    @property
    def engines(self) -> Path:
        return self.root / "engines"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def nodes(self) -> Path:
        return self.root / "nodes"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def operator_token(self) -> Path:
        """Return the file (0600) with the administrator's API token, for the machine's owner."""
        return self.root / "operator-token"

    @property
    def environment(self) -> Path:
        """Return the file (0600) with the settings of the server's processes, which `skep manage`
        and `skep backup` use."""
        return self.run / "environment.json"

    def prepare(self) -> None:
        for folder in (self.root, self.engines, self.data, self.log, self.nodes, self.run):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def bound_logs(self) -> None:
        """Move what a grown log holds into one older file. Children append, so they go on."""
        for path in self.log.glob("*.log"):
            if path.stat().st_size > LOG_BYTES:
                shutil.copyfile(path, path.with_suffix(".log.1"))
                os.truncate(path, 0)

    def lock(self) -> Lock | None:
        """Take the lock that a supervisor holds while it lives, in a prepared home. Return None
        when another supervisor holds it."""
        descriptor = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return Lock(descriptor)

    def supervisor_pid(self) -> int | None:
        """Return the process id of the living supervisor, which its lock proves."""
        if not (self.run / "lock").exists():
            return None
        if lock := self.lock():
            lock.release()
            return None
        text = (self.run / "lock").read_text().strip()
        return int(text) if text else None

    def write_status(self, status: dict[str, Any]) -> None:
        unfinished = self.run / "status.new"
        unfinished.write_text(json.dumps(status))
        unfinished.rename(self.run / "status.json")

    def read_status(self) -> dict[str, Any]:
        """Return the last status that a supervisor wrote; {} before the first."""
        try:
            status: dict[str, Any] = json.loads((self.run / "status.json").read_text())
        except FileNotFoundError:
            return {}
        return status


@dataclass(slots=True)
class Lock:
    descriptor: int

    def sign(self) -> None:
        """Leave our process id for `down` and `status`."""
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self.descriptor)


def say(text: str) -> None:
    """Print to stderr, at once even when it is piped."""
    print(text, file=sys.stderr, flush=True)


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, whole or not at all; others cannot read it at any moment."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    unfinished.rename(path)
