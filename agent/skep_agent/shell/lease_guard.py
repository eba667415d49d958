"""The agent's side of fencing: gives the watchdog the end of the lease, and watches it.

See `skep_agent.watchdog`. Everything here may be called from any thread, and nothing waits for a
disk or for the engine.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import structlog

from skep_agent import watchdog
from skep_agent.containers import RuntimeFailure
from skep_agent.watchdog import FILE_BYTES, MAGIC, SharedPage

LOOK_S = 0.5  # between two looks at the watchdog
# A watchdog that wrote no beat for so long is dead or stopped, and is replaced.
BEAT_LIMIT_S = 5.0
READY_S = 30.0  # a start waits so long for a watchdog
MEMORY_FOLDER = Path("/dev/shm")  # noqa: S108 what lies there is checked

log = structlog.get_logger(__name__)


class LeaseGuard(Protocol):
    """What ends this node's containers when its lease is over, whatever becomes of the agent."""

    @property
    def lease_until(self) -> float | None:
        """As it was last set, by this agent or the one before; None when that is not known."""

    def start(self) -> None:
        """To be called when a lease is set: without one everything is killed at once."""

    def set_lease(self, until: float) -> None:
        """Set the end of the lease, in seconds of the machine's monotonic clock."""

    def name(self, container_id: str) -> None:
        """Watch a container that runs."""

    def starting(self, container_id: str) -> None:
        """To be called before the container is started, and `name` when that is done."""

    def condemn(self, container_id: str) -> None:
        """Kill the container whenever the engine starts it, until it is removed: its start was
        given up, and its resources may be others' by then."""

    def unname(self, container_id: str) -> None: ...

    def keep_only(self, container_ids: Collection[str]) -> None:
        """Forget what an agent before this one condemned and the engine does not have any more."""

    async def ready(self) -> None:
        """Wait until containers may be started. Raises RuntimeFailure "engine_down" when nothing
        would end them."""

    def close(self, *, idle: bool) -> None:
        """Stop guarding, as the agent ends. `idle`: it leaves no container that must be watched."""


class NoGuard:
    """For containers that end with the agent's process."""

    lease_until = None

    def start(self) -> None:
        pass

    def set_lease(self, until: float) -> None:
        pass

    def name(self, container_id: str) -> None:
        pass

    def starting(self, container_id: str) -> None:
        pass

    def condemn(self, container_id: str) -> None:
        pass

    def unname(self, container_id: str) -> None:
        pass

    def keep_only(self, container_ids: Collection[str]) -> None:
        pass

    async def ready(self) -> None:
        pass

    def close(self, *, idle: bool) -> None:
        pass


@dataclass(frozen=True, slots=True)
class EngineToKill:
    """Where the watchdog finds the engine, and by which labels this node's containers."""

    url: str
    certificates: str
    labels: list[str]


class WatchdogGuard:
    """Runs the watchdog of one state directory: takes over the one that an agent before this one
    left, starts another when there is none or it does not work, and replaces one of another
    version. At most one at a time counts; the others leave by themselves."""

    def __init__(self, state: Path, engine: EngineToKill) -> None:
        self._state = state.resolve()
        self._engine = engine
        self._path, self._file = _open_page(self._state)
        self._page = SharedPage(self._file)
        self._page.set_leave(False)
        self._page.set_agent(os.getpid(), watchdog.began(os.getpid()))
        self._page.take_over()
        self._version = watchdog.version()
        self._lock = threading.Lock()  # of the page, as far as several threads write
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="fence", daemon=True)

    @property
    def lease_until(self) -> float | None:
        return self._page.lease_until or None

    def start(self) -> None:
        self._look()
        self._thread.start()

    def set_lease(self, until: float) -> None:
        with self._lock:
            if not self._closed.is_set():
                self._page.lease_until = until

    def name(self, container_id: str) -> None:
        with self._lock:
            self._page.name(container_id)

    def starting(self, container_id: str) -> None:
        with self._lock:
            self._page.starting(container_id)

    def condemn(self, container_id: str) -> None:
        with self._lock:
            self._page.condemn(container_id)

    def unname(self, container_id: str) -> None:
        with self._lock:
            self._page.unname(container_id)

    def keep_only(self, container_ids: Collection[str]) -> None:
        with self._lock:
            self._page.keep_only(container_ids)

    def armed(self) -> bool:
        """Return whether a watchdog of this version looked not long ago."""
        _, version = self._page.watchdog
        return version == self._version and watchdog.now() - self._page.beat < BEAT_LIMIT_S

    async def ready(self) -> None:
        deadline = watchdog.now() + READY_S
        while not self.armed():
            if watchdog.now() > deadline:
                raise RuntimeFailure(
                    "engine_down",
                    "The node's watchdog does not run, so nothing is started here: see the"
                    " agent's log.",
                )
            await asyncio.sleep(watchdog.PERIOD_S / 5)
        until = self._page.lease_until
        if watchdog.now() >= until:
            raise RuntimeFailure("node_lost", "The node's lease is over.")

    def close(self, *, idle: bool) -> None:
        """Without `idle` the watchdog stays, until the next agent or the end of the lease."""
        with self._lock:
            self._closed.set()
        if self._thread.is_alive():
            self._thread.join()
        self._page.set_agent(0, 0)
        if idle:
            self._page.set_leave(True)
            self._path.unlink(missing_ok=True)
            if self._child is not None:
                try:
                    self._child.wait(4 * watchdog.PERIOD_S)
                except subprocess.TimeoutExpired:
                    self._child.kill()
        self._page.close()
        os.close(self._file)

    def _watch(self) -> None:
        while not self._closed.wait(LOOK_S):
            try:
                self._look()
            except OSError as error:
                log.error("watchdog_not_started", problem=str(error))

    def _look(self) -> None:
        child, pid = self._child, self._page.watchdog[0]
        if child is not None and child.pid == pid:
            there = child.poll() is None
        else:
            there = os.path.exists(f"/proc/{pid}")
        if there and self.armed():
            return
        if child is not None and child.poll() is None:
            if watchdog.now() - self._started_at < BEAT_LIMIT_S:
                return  # it begins
            child.kill()  # stopped, or stuck
            child.wait()
        if child is not None:
            log.error("watchdog_replaced", pid=child.pid, status=child.returncode)
        self._spawn()

    def _spawn(self) -> None:
        given = {
            "page_file": self._file,
            "page_path": str(self._path),
            "state": str(self._state),
            "url": self._engine.url,
            "certificates": self._engine.certificates,
            "labels": self._engine.labels,
        }
        self._started_at = watchdog.now()
        # In a session of its own: what is sent to the agent's does not reach it.
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", watchdog.__file__, json.dumps(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[self._file],
            cwd="/",
            env={},
        )


def _open_page(state: Path) -> tuple[Path, int]:
    """In memory, where no disk can hold up who reads or writes it; else in the state directory."""
    name = hashlib.sha256(str(state).encode()).hexdigest()[:24]
    path = MEMORY_FOLDER / f"skep-agent-{os.geteuid()}-{name}"
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        file = os.open(path, flags, 0o600)
    except OSError:
        return _open_page_on_disk(state)
    seen = os.fstat(file)
    # Anybody may make files there.
    ours = stat.S_ISREG(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o077
    try:
        if ours and os.pread(file, len(MAGIC), 0) not in (b"", MAGIC):
            # Of another version, whose watchdog leaves when it sees the new one.
            os.close(file)
            path.unlink(missing_ok=True)
            file = os.open(path, flags | os.O_EXCL, 0o600)
        if ours:
            if os.fstat(file).st_size < FILE_BYTES:
                # Now: a page that finds no memory when it is written to kills whoever writes.
                os.posix_fallocate(file, 0, FILE_BYTES)
            _retire_page_on_disk(state)
            return path, file
    except OSError as error:
        log.warning("watchdog_page_on_disk", problem=f"{path}: {error.strerror}")
    os.close(file)
    return _open_page_on_disk(state)


def _retire_page_on_disk(state: Path) -> None:
    """Have the watchdog of an agent that found no memory leave: its lease is not renewed."""
    path = state / "watchdog-page"
    with suppress(OSError):
        if path.exists() and path.stat().st_size:
            # It leaves where it finds another file, and not where it finds none.
            other = path.with_suffix(".new")
            other.touch(0o600)
            other.replace(path)


def _open_page_on_disk(state: Path) -> tuple[Path, int]:
    """Always anew: it may be of another boot of the machine, by whose clock leases are counted."""
    path = state / "watchdog-page"
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.posix_fallocate(file, 0, FILE_BYTES)
    return path, file
