"""Child processes that never outlive their parent, and a `Keeper` for each that keeps it alive:
starts it, notices its end, and starts it again with growing delays."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
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


def name_process(name: str) -> None:
    """Name this process in `top` and `ps -e`, which show 15 characters."""
    _libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0)


def be_nice(niceness: int) -> None:
    """Change the niceness of this process, the leader of its session, where that is granted."""
    if niceness:
        with suppress(OSError):
            os.nice(niceness)
            # Where the kernel groups by session, niceness counts within the group only.
            Path("/proc/self/autogroup").write_text(str(niceness))


def _before_exec(program: Program, parent: int) -> None:
    """In the child, which is of its user and session already."""
    be_nice(program.nice)
    die_with_parent(program.death_signal, parent)


@contextmanager
def adopting() -> Iterator[None]:
    """Meanwhile a process below this one whose parent ends becomes a child of this one."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@dataclass(slots=True)
class Adopted:
    """A child of this process that another one started (`adopting`): what of `Popen` is needed."""

    pid: int
    returncode: int | None = None

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def wait(self) -> int:
        if self.returncode is None:
            _, status = os.waitpid(self.pid, 0)
            self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


Process = subprocess.Popen[bytes] | Adopted


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


FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 30.0
# A child that lived this long was well: its next death starts from the shortest delay again.
STEADY_S = 10.0

Changed = Callable[[], None]


@dataclass(slots=True)
class Restarts:
    """Counts how often a child was restarted, and decides how long to wait the next time."""

    count: int = 0
    in_a_row: int = 0

    def after_death(self, lived_s: float) -> float:
        """Record a death and return the delay before the next start."""
        if lived_s >= STEADY_S:
            self.in_a_row = 0
        self.count += 1
        self.in_a_row += 1
        return min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(self.in_a_row - 1, 16))


class Keeper:
    """Keeps one child alive; calls `changed` whenever its process id or state changes."""

    def __init__(self, program: Program, log: Path, changed: Changed = lambda: None) -> None:
        self.program = program
        self.log = log / f"{program.name}.log"
        self.restarts = Restarts()
        self.process: Process | None = None
        self._changed = changed
        self._stopping = False
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def pid(self) -> int | None:
        """The process id while the child lives."""
        return self.process.pid if self.process else None

    def start(self, pid: int | None = None) -> None:
        """Start the child, or go on with this one, which was adopted."""
        self.process = Adopted(pid) if pid else None
        self._task = asyncio.create_task(self._keep(), name=f"keep {self.name}")

    async def stop(self, patience_s: float) -> None:
        """Signal the child to stop, wait `patience_s` seconds, then kill it."""
        self._stopping = True
        if self._task is None:
            return
        if self.process is None:  # between two lives
            self._task.cancel()
        else:
            _signal(self.process, self.program.stop_signal)
        _, late = await asyncio.wait([self._task], timeout=patience_s)
        if late and self.process:
            _signal(self.process, signal.SIGKILL)
            await asyncio.wait([self._task])

    def last_words(self, characters: int = 1500) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    async def _keep(self) -> None:
        while not self._stopping:
            started = time.monotonic()
            await self._live()
            if self._stopping:
                return
            delay = self.restarts.after_death(time.monotonic() - started)
            self._changed()
            await asyncio.sleep(delay)

    async def _live(self) -> None:
        """Start the program, unless it runs, and wait for its end. One that cannot be started, as
        without memory, has ended at once."""
        try:
            self.process = self.process or spawn(self.program, self.log)
        except OSError as error:
            self.log.write_text(f"{error}\n")
            return
        self._changed()
        await _end_of(self.process)
        self.process = None


async def _end_of(process: Process) -> None:
    """Wait by a pidfd, on the loop's own thread: the children's parent is the thread that made
    them, which therefore may neither block nor end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.wait()


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        process.send_signal(number)
