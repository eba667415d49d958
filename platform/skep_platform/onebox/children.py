"""Child processes that never outlive their parent."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class RunAs:
    """The unprivileged user a child runs as when the parent is root."""

    uid: int
    gid: int
    name: str


@dataclass(frozen=True, slots=True)
class Program:
    """How to start one process and how to ask it to stop."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    run_as: RunAs | None = None
    cwd: str = "/"  # entered before the user changes
    stop_signal: signal.Signals = signal.SIGTERM
    # Niceness; where one asks for more than the machine grants, nothing changes.
    nice: int = 0
    # What the kernel sends when the parent dies, however it dies.
    death_signal: signal.Signals = signal.SIGKILL


def die_with_parent(death_signal: int, parent: int) -> None:
    """Ask the kernel for `death_signal` when the parent dies; called in the child. The request is
    lost on a change of user and kept over exec, so it comes after the one and before the other."""
    _libc.prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0)
    if os.getppid() != parent:  # it died before we could ask
        os._exit(1)


def _before_exec(program: Program, parent: int) -> None:
    """In the child, which is of its user and session already."""
    if program.nice:
        with suppress(OSError):
            os.nice(program.nice)
            # Where the kernel groups by session, niceness counts within the group only.
            Path("/proc/self/autogroup").write_text(str(program.nice))
    die_with_parent(program.death_signal, parent)


def spawn(program: Program, log: Path) -> subprocess.Popen[bytes]:
    """Start `program` with its output appended to `log` (0600). Call from a thread that lives as
    long as the child may: the kernel takes the thread's end for the parent's death."""
    parent = os.getpid()
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    user = program.run_as
    try:
        return subprocess.Popen(
            program.command,
            env=dict(program.env),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            cwd=program.cwd,
            start_new_session=True,  # Ctrl-C in the terminal is the parent's to handle
            user=user.uid if user else None,
            group=user.gid if user else None,
            extra_groups=[] if user else None,
            preexec_fn=lambda: _before_exec(program, parent),
        )
    finally:
        os.close(descriptor)
