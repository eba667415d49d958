"""Reads text of users in worker processes with limits on CPU time and address space.

Parsers written in Python hold the interpreter's lock, and one hostile text can hold it for minutes
or take all memory of a process (finding S1 and S4 of the security review). So a web process parses
nothing itself: its threads hand the text to a few workers, and wait. A worker that spends its CPU
time or its memory answers so, or dies, and is replaced; the caller gets a typed 400.
"""

from __future__ import annotations

import atexit
import os
import select
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import structlog

from skep_platform.core.errors import SkepError, TooMany, Unavailable
from skep_platform.core.parse_worker import receive, send

log = structlog.get_logger(__name__)

WORKERS = max(2, min(4, os.cpu_count() or 2))
CPU_S = 1.5  # of one request
MEMORY_MIB = 256  # of one request, beyond what a worker has at its start
WAIT_S = 10.0  # for a free worker, and again for its answer
MAX_WAITING = 64  # requests
RETRY_AFTER_S = 2
# What a worker inherits of our environment: no key, no address of the database.
ENVIRONMENT = ("PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "LANG", "LC_ALL", "TZ")


class InputTooCostly(SkepError):
    """Reading what was sent would cost more than one request may. `details.resource`: "time",
    "memory", "depth", or "time or memory" where the worker died of it."""

    code = "input_too_costly"

    def __init__(self, resource: str, cpu_s: float, memory_mib: int) -> None:
        super().__init__(
            f"Reading this takes more than {cpu_s:g} s of CPU time or {memory_mib} MiB of memory, "
            "or it is nested too deep. Make the file smaller or simpler.",
            resource=resource,
            cpu_seconds=cpu_s,
            memory_mib=memory_mib,
        )


class ParsePool:
    """Safe for threads. Processes start at the first call, or with `prepare`."""

    def __init__(
        self,
        workers: int = WORKERS,
        cpu_s: float = CPU_S,
        memory_mib: int = MEMORY_MIB,
        wait_s: float = WAIT_S,
    ) -> None:
        self._workers, self._cpu_s, self._memory_mib = workers, cpu_s, memory_mib
        self._wait_s = wait_s
        self._changed = threading.Condition()
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._forks: _Forks | None = None
        self._idle: list[socket.socket] = []
        self._busy: Counter[object] = Counter()  # by user
        self._waiting = 0

    def call(
        self, name: str, /, *, user: object = None, descriptor: int | None = None, **args: Any
    ) -> Any:
        """Run one of `parse_worker.CALLS`. `descriptor`: of an open file that the call reads. No
        `user` has all workers at a time, so that another one always finds a free one.

        Raises what the call raised as SkepError, InputTooCostly, TooMany `parsers_busy` and
        Unavailable."""
        request = {"call": name, "args": args}
        answer = self._asked(request, user, descriptor)
        if answer is None and descriptor is None:
            # What ended a worker without a word is rarely the text: a paused machine that charges
            # its pause as CPU time, an operator, the kernel short of memory. A text that did it
            # does it again.
            log.warning("parse_worker_died", call=name)
            answer = self._asked(request, user, descriptor)
        if answer is None:
            raise self._too_costly("time or memory")
        if "spent" in answer:
            raise self._too_costly(answer["spent"])
        if "error" in answer:
            raise _as_error(answer["error"])
        return answer["ok"]

    def _asked(
        self, request: dict[str, Any], user: object, descriptor: int | None
    ) -> dict[str, Any] | None:
        """Return what a worker answers, or None where it died of the request."""
        with self._worker(user) as worker:
            try:
                send(worker.socket, request, descriptor)
                answer, _ = receive(worker.socket)
            except TimeoutError:
                raise _busy() from None
            except (EOFError, OSError):
                return None
            worker.is_good = not answer["last"]
        found: dict[str, Any] = answer
        return found

    def prepare(self) -> None:
        """Start the process of which workers are forks; it loads its modules by itself. Otherwise
        the first call after a start waits for that: half a second."""
        with suppress(OSError):  # the first call tries again, and has someone to answer to
            self._fork_server()

    def close(self) -> None:
        """End all processes of the pool. The next call starts new ones."""
        with self._changed:
            for own in self._idle:
                own.close()
            self._idle = []
            if self._forks is not None:
                self._forks.close()
                self._forks = None

    def _too_costly(self, resource: str) -> InputTooCostly:
        return InputTooCostly(resource, self._cpu_s, self._memory_mib)

    @contextmanager
    def _worker(self, user: object) -> Iterator[_Worker]:
        own = self._taken(user)
        worker = None
        try:
            worker = _Worker(own or self._started())
            yield worker
        finally:
            with self._changed:
                self._busy[user] -= 1
                if not self._busy[user]:
                    del self._busy[user]
                if worker is not None and worker.is_good:
                    self._idle.append(worker.socket)
                elif worker is not None:
                    worker.socket.close()
                self._changed.notify_all()

    def _taken(self, user: object) -> socket.socket | None:
        """A worker that was idle, or None for the right to start one."""
        if self._pid != os.getpid():  # we are a fork: the workers belong to another process
            self._reset()
        with self._changed:
            if self._waiting >= MAX_WAITING:
                raise _busy()
            self._waiting += 1
            try:
                if not self._changed.wait_for(lambda: self._is_free(user), self._wait_s):
                    raise _busy()
            finally:
                self._waiting -= 1
            self._busy[user] += 1
            while self._idle:
                own = self._idle.pop()
                if not _is_gone(own):
                    return own
                own.close()
            return None

    def _is_free(self, user: object) -> bool:
        running = self._busy.total()
        return running < self._workers and self._busy[user] < max(1, self._workers - 1)

    def _fork_server(self) -> _Forks:
        with self._changed:
            if self._forks is None:
                self._forks = _Forks(self._cpu_s, self._memory_mib, self._wait_s)
            return self._forks

    def _started(self) -> socket.socket:
        forks = None
        try:
            forks = self._fork_server()
            return forks.worker()
        except (OSError, EOFError) as error:
            log.error("parse_worker_not_started", error=str(error))
            with self._changed:
                if forks is not None and self._forks is forks:
                    forks.close()
                    self._forks = None
            message = "No process to read this could be started; try again."
            raise Unavailable(message, retry_after_s=RETRY_AFTER_S) from None


def _is_gone(own: socket.socket) -> bool:
    """Return whether an idle worker has ended, so that a request does not take the blame for it. An
    idle worker sends nothing: what can be read is the end of the connection."""
    ready = select.poll()
    ready.register(own, select.POLLIN)
    return bool(ready.poll(0))


class _Worker:
    def __init__(self, own: socket.socket) -> None:
        self.socket = own
        self.is_good = False  # until it has answered


class _Forks:
    """The server of forks: `parse_worker.main` in a process of its own."""

    def __init__(self, cpu_s: float, memory_mib: int, wait_s: float) -> None:
        self._wait_s = wait_s
        self._control, theirs = socket.socketpair()
        with theirs:
            limits = (str(theirs.fileno()), str(cpu_s), str(memory_mib))
            self._process = subprocess.Popen(
                [sys.executable, "-m", "skep_platform.core.parse_worker", *limits],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
                start_new_session=True,
            )

    def worker(self) -> socket.socket:
        """Return a connection to a new worker. Raises OSError and EOFError."""
        ours, theirs = socket.socketpair()
        ours.settimeout(self._wait_s)
        with theirs:
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
        try:
            receive(ours)  # "free"
        except BaseException:
            ours.close()
            raise
        return ours

    def close(self) -> None:
        self._control.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _as_error(error: dict[str, Any]) -> SkepError:
    found = SkepError(error["message"], code=error["code"])
    found.details = error["details"]
    found.status = error["status"]
    return found


def _busy() -> TooMany:
    message = f"The server reads many files at the moment; try again in {RETRY_AFTER_S} s."
    return TooMany(message, code="parsers_busy", retry_after_s=RETRY_AFTER_S)


pool = ParsePool()
# Of uploads, which are larger by far: they leave the workers for job files alone.
archives = ParsePool(workers=2, cpu_s=30.0, wait_s=120.0)
atexit.register(pool.close)
atexit.register(archives.close)
