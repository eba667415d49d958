"""The watchdog: a process of its own that kills this node's containers when the lease is over.

The agent may be stopped (SIGSTOP), hang in a driver or on a disk, or be killed; the server then
gives the node's work to others when the lease and its margin have passed. So that nothing runs
twice, the end of the lease must not depend on the agent. The two share one page of memory: the
agent writes until when the lease runs, the watchdog reads that four times a second, and writes
that it lives. This module needs nothing but the standard library, opens no file on a disk before
it has killed, and imports nothing of the agent; the agent runs it by its path.

It kills the processes of the containers that the agent named, as the kernel knows them by their
cgroup, which also works while the engine hangs; and asks the engine to kill every container with
the node's labels, which also works where the host's processes cannot be seen from here.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from collections.abc import Collection, Iterator
from urllib.parse import quote, urlsplit

# The server waits SKEP_LEASE_MARGIN_S (at least 5 s) longer than the lease. Within that, a
# container gets KILL_AFTER_S for the agent's own SIGTERM and SIGKILL, then at most PERIOD_S pass
# until the watchdog looks, and KILL_TAKES_S until all is dead.
KILL_AFTER_S = 3.0
PERIOD_S = 0.25
KILL_TAKES_S = 1.5
DEAD_WITHIN_S = KILL_AFTER_S + PERIOD_S + KILL_TAKES_S  # after the end of the lease

ENGINE_ANSWER_S = 2.0  # for each step of an answer; nothing waits for it
HASTE_S = 30.0  # so long after the end of the lease it looks every PERIOD_S, then every SLOW_S
SLOW_S = 2.0
LOOK_AROUND_S = 5.0  # between two looks whether it is still needed
LINGER_S = 30.0  # an engine that hung may still start what a dead agent asked for
LATE_START_S = 3600.0  # and so long at most, where it is known that a start is not answered

MAGIC = b"skepwd3\n"
_LEASE_AT, _BEAT_AT, _PID_AT, _LEAVE_AT, _VERSION_AT, _AGENT_AT = 8, 24, 32, 40, 48, 56
_IDS_AT = 4096
_SLOTS, _ID_BYTES = 8192, 64
_STATES_AT = _IDS_AT + _SLOTS * _ID_BYTES  # one byte for each slot
FILE_BYTES = _STATES_AT + _SLOTS
# A container that is named; whose start the engine has not answered; that must not run at all.
_NAMED, _STARTING, _CONDEMNED = 1, 2, 3
_CONTAINER_ID = re.compile(rb"[0-9a-f]{64}")


def now() -> float:
    """Return the seconds of the clock that leases are counted by: the same for all processes
    since the machine's start, never set, and counting while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def version() -> int:
    """Return a number that changes with this file, so that an upgraded agent replaces the
    watchdog of the agent before it."""
    with open(os.path.abspath(__file__), "rb") as source:
        return zlib.crc32(source.read())


def began(pid: int) -> int:
    """Return when a process began, in the kernel's ticks, so that another one that is given its id
    later is distinguished from it; 0 when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


class SharedPage:
    """What agent and watchdog share. Both map the same file, which lies in memory."""

    def __init__(self, file: int) -> None:
        """`file` is open for reading and writing, and empty or of this layout (MAGIC)."""
        if os.fstat(file).st_size < FILE_BYTES:
            os.ftruncate(file, FILE_BYTES)
        self._page = mmap.mmap(file, FILE_BYTES)
        self._page[: len(MAGIC)] = MAGIC
        self._slots: dict[str, int] = {}

    def close(self) -> None:
        self._page.close()

    @property
    def lease_until(self) -> float:
        """The end of the lease by `now()`; 0 when none was ever set."""
        for _ in range(1000):
            first, second = struct.unpack_from("dd", self._page, _LEASE_AT)
            if first == second:
                return first
        return min(first, second)  # the writer was stopped between the two

    @lease_until.setter
    def lease_until(self, until: float) -> None:
        # Twice, so that a reader knows a value that is half written.
        struct.pack_into("d", self._page, _LEASE_AT, until)
        struct.pack_into("d", self._page, _LEASE_AT + 8, until)

    @property
    def beat(self) -> float:
        """Return when the watchdog last looked, by `now()`."""
        return struct.unpack_from("d", self._page, _BEAT_AT)[0]

    def set_beat(self, at: float) -> None:
        struct.pack_into("d", self._page, _BEAT_AT, at)

    @property
    def watchdog(self) -> tuple[int, int]:
        """Process id and version of the watchdog that counts; another one leaves."""
        pid = struct.unpack_from("q", self._page, _PID_AT)[0]
        return pid, struct.unpack_from("q", self._page, _VERSION_AT)[0]

    def set_watchdog(self, pid: int, version: int) -> None:
        struct.pack_into("q", self._page, _VERSION_AT, version)
        struct.pack_into("q", self._page, _PID_AT, pid)

    @property
    def agent(self) -> tuple[int, int]:
        """Process id of the agent, and when it began (see `began`); zeros when it left."""
        return struct.unpack_from("qq", self._page, _AGENT_AT)

    def set_agent(self, pid: int, began_at: int) -> None:
        struct.pack_into("qq", self._page, _AGENT_AT, pid, began_at)

    @property
    def leave(self) -> bool:
        """Nothing runs here, and the watchdog may go."""
        return struct.unpack_from("q", self._page, _LEAVE_AT)[0] != 0

    def set_leave(self, leave: bool) -> None:
        struct.pack_into("q", self._page, _LEAVE_AT, int(leave))

    def containers(self) -> set[str]:
        """Return the ids of the containers that the agent named."""
        slots = (self._page[at : at + _ID_BYTES] for at in range(_IDS_AT, _STATES_AT, _ID_BYTES))
        return {slot.decode() for slot in slots if _CONTAINER_ID.fullmatch(slot)}

    def condemned(self) -> set[str]:
        """Return the ids of the containers that must not run, whatever the lease says."""
        return self._in_state(_CONDEMNED)

    def unanswered(self) -> set[str]:
        """Return the ids of the containers that the engine may still start."""
        return self._in_state(_STARTING, _CONDEMNED)

    def name(self, container_id: str) -> None:
        """To be called before the container is started. Those beyond 8,192 are found by the
        engine alone."""
        self._set(container_id, _NAMED)

    def starting(self, container_id: str) -> None:
        """The engine is asked to start it; `name` or `condemn` says how that went."""
        self._set(container_id, _STARTING)

    def condemn(self, container_id: str) -> None:
        """Its start is not waited for any more: kill it whenever the engine starts it."""
        self._set(container_id, _CONDEMNED)

    def unname(self, container_id: str) -> None:
        slot = self._slots.pop(container_id, None)
        if slot is not None:
            self._clear(slot)

    def take_over(self) -> None:
        """Forget what an agent before this one named, but not what it condemned."""
        self._slots.clear()
        for slot in range(_SLOTS):
            at = _IDS_AT + slot * _ID_BYTES
            if self._page[_STATES_AT + slot] == _CONDEMNED:
                self._slots[self._page[at : at + _ID_BYTES].decode()] = slot
            elif self._page[at] != 0:
                self._clear(slot)

    def keep_only(self, container_ids: Collection[str]) -> None:
        """Forget containers that are not there any more."""
        for container_id in set(self._slots).difference(container_ids):
            self.unname(container_id)

    def _set(self, container_id: str, state: int) -> None:
        coded = container_id.encode()
        if not _CONTAINER_ID.fullmatch(coded):
            return
        slot = self._slots.get(container_id)
        if slot is None:
            taken = set(self._slots.values())
            slot = next((number for number in range(_SLOTS) if number not in taken), None)
            if slot is None:
                return
            self._slots[container_id] = slot
        elif self._page[_STATES_AT + slot] == _CONDEMNED:
            return  # for good
        # The state before the id: a reader takes no notice of a slot without an id.
        self._page[_STATES_AT + slot] = state
        at = _IDS_AT + slot * _ID_BYTES
        self._page[at : at + _ID_BYTES] = coded

    def _clear(self, slot: int) -> None:
        at = _IDS_AT + slot * _ID_BYTES
        self._page[at : at + _ID_BYTES] = bytes(_ID_BYTES)
        self._page[_STATES_AT + slot] = 0

    def _in_state(self, *states: int) -> set[str]:
        flags = self._page[_STATES_AT : _STATES_AT + _SLOTS]
        found = set()
        for slot in (n for n, flag in enumerate(flags) if flag in states):
            at = _IDS_AT + slot * _ID_BYTES
            if _CONTAINER_ID.fullmatch(coded := self._page[at : at + _ID_BYTES]):
                found.add(coded.decode())
        return found


# --- killing by the kernel


def kill_processes(container_ids: Collection[str]) -> int:
    """SIGKILL every process of these containers that can be seen from here. Returns how many."""
    wanted = [container_id.encode() for container_id in container_ids]
    killed = 0
    for pid in _processes() if wanted else ():
        try:
            # A pidfd, so that no other process is meant should the id be used again.
            process = os.pidfd_open(pid)
        except OSError:
            continue
        try:
            if any(container_id in _cgroups(pid) for container_id in wanted):
                signal.pidfd_send_signal(process, signal.SIGKILL)
                killed += 1
        except OSError:
            continue
        finally:
            os.close(process)
    return killed


def _processes() -> Iterator[int]:
    own = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != own:
            yield int(name)


def _cgroups(pid: int) -> bytes:
    """ "/docker/<id>", "/system.slice/docker-<id>.scope": the container's id is always in it."""
    file = os.open(f"/proc/{pid}/cgroup", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, 65536)
    finally:
        os.close(file)


# --- killing by the engine


class EngineClient:
    """A Docker engine at `url`: "unix:///var/run/docker.sock" or "tcp://host:port", with TLS when
    there is a folder of certificates. Spoken as HTTP/1.0, where an answer ends with its
    connection: an HTTP library would double the memory of this process, which is locked."""

    def __init__(self, url: str, certificates: str, labels: list[str]) -> None:
        self._url, self._labels = url, labels
        self._tls = None
        if certificates:
            import ssl

            self._tls = ssl.create_default_context(cafile=f"{certificates}/ca.pem")
            self._tls.load_cert_chain(f"{certificates}/cert.pem", f"{certificates}/key.pem")

    def running(self) -> list[str]:
        """Return the ids of the running containers with all the labels. Raises OSError or
        ValueError."""
        states = ["running", "paused", "restarting"]
        filters = quote(json.dumps({"label": self._labels, "status": states}))
        found = json.loads(self._ask("GET", f"/containers/json?filters={filters}"))
        return [str(container["Id"]) for container in found]

    def waiting(self, container_ids: Collection[str]) -> bool:
        """Return whether any of them was never started, and is there. Raises OSError or
        ValueError."""
        if not container_ids:
            return False
        filters = quote(json.dumps({"label": self._labels, "status": ["created"]}))
        found = json.loads(self._ask("GET", f"/containers/json?all=1&filters={filters}"))
        return any(container["Id"] in container_ids for container in found)

    def kill(self, container_id: str) -> None:
        """Raises OSError or ValueError."""
        self._ask("POST", f"/containers/{container_id}/kill?signal=KILL")

    def _ask(self, method: str, path: str) -> bytes:
        with self._connected() as connection:
            head = f"{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n"
            connection.sendall(head.encode())
            answer = bytearray()
            while piece := connection.recv(65536):
                answer += piece
        head_bytes, _, body = answer.partition(b"\r\n\r\n")
        status = int(head_bytes.split(b" ", 2)[1])
        # 404 and 409: it ended meanwhile.
        if status >= 400 and status not in (404, 409):
            raise OSError(f"the engine says {status}")
        return bytes(body)

    def _connected(self) -> socket.socket:
        if self._url.startswith("unix://"):
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(ENGINE_ANSWER_S)
            connection.connect(self._url.removeprefix("unix://"))
            return connection
        place = urlsplit(self._url)
        host = place.hostname or "127.0.0.1"
        port = place.port or (2375 if self._tls is None else 2376)
        connection = socket.create_connection((host, port), ENGINE_ANSWER_S)
        if self._tls is None:
            return connection
        return self._tls.wrap_socket(connection, server_hostname=host)


# --- the process


class Watchdog:
    """`page_file` is the shared page, open; `page_path` is where the next agent looks for it.
    `state` is the agent's state directory."""

    def __init__(
        self,
        page_file: int,
        page_path: str,
        state: str,
        url: str,
        certificates: str,
        labels: list[str],
    ) -> None:
        self._path = page_path
        self._state = state
        self._engine = EngineClient(url, certificates, labels)
        self._inode = os.fstat(page_file).st_ino
        self._page = SharedPage(page_file)
        os.close(page_file)
        self._asking: threading.Thread | None = None
        self._asked_at = 0.0
        self._idle_since: float | None = None  # no agent is there, and nothing runs
        self._alone_since: float | None = None  # no agent is there
        self._recorded_lease = 0.0  # the lease whose end was written down

    def run(self) -> None:
        """Until the agent says so, another watchdog took over, or there is nothing to watch."""
        self._page.set_watchdog(os.getpid(), version())
        while not self._is_over():
            moment = now()
            self._page.set_beat(moment)
            over_for = moment - self._page.lease_until - KILL_AFTER_S
            condemned = self._page.condemned()
            kill_processes(condemned)
            if over_for >= 0:
                self._enforce(moment)
            elif condemned:
                self._ask(moment, 0, kill=False, pause_s=1.0)
            else:
                self._ask(moment, 0, kill=False, pause_s=LOOK_AROUND_S)
            time.sleep(SLOW_S if over_for > HASTE_S else PERIOD_S)

    def _is_over(self) -> bool:
        if self._page.leave or self._page.watchdog[0] != os.getpid() or self._is_replaced():
            return True
        if self._agent_lives():
            self._idle_since = None
        if self._idle_since is not None and now() - self._idle_since > LINGER_S:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            return True
        return False

    def _is_replaced(self) -> bool:
        """A newer agent has made another page. (That the file was removed alone means nothing.)"""
        try:
            return os.stat(self._path).st_ino != self._inode
        except OSError:
            return False

    def _agent_lives(self) -> bool:
        pid, began_at = self._page.agent
        return pid != 0 and began(pid) == began_at

    def _enforce(self, moment: float) -> None:
        killed = kill_processes(self._page.containers())
        self._ask(moment, killed, kill=True, pause_s=1.0 if not killed else 0.0)

    def _ask(self, moment: float, killed: int, *, kill: bool, pause_s: float) -> None:
        """On a thread of its own: the engine may hang, and the disk too."""
        busy = self._asking is not None and self._asking.is_alive()
        needless = not kill and self._agent_lives() and not self._page.condemned()
        if busy or moment - self._asked_at < pause_s or needless:
            return
        self._asked_at = moment
        work = self._kill_by_engine if kill else self._look_around
        self._asking = threading.Thread(target=work, args=(moment, killed), daemon=True)
        self._asking.start()

    def _look_around(self, moment: float, killed: int) -> None:
        found, problem = self._running()
        for container_id in self._page.condemned().intersection(found):
            with contextlib.suppress(OSError, ValueError, IndexError):
                self._engine.kill(container_id)
        self._note(moment, busy=bool(found or problem or self._may_start(moment)))

    def _kill_by_engine(self, moment: float, killed: int) -> None:
        found, problem = self._running()
        for container_id in found:
            with contextlib.suppress(OSError, ValueError, IndexError):
                self._engine.kill(container_id)
        kill_processes(found)
        busy = bool(found or killed or problem or self._may_start(moment))
        self._note(moment, busy=busy)
        if (found or killed) and self._recorded_lease != self._page.lease_until:
            self._recorded_lease = self._page.lease_until
            self._write_down(moment, killed, found, problem)

    def _may_start(self, moment: float) -> bool:
        """Return whether the engine may start what is not waited for."""
        if self._agent_lives():
            self._alone_since = None
            return False
        if self._alone_since is None:
            self._alone_since = moment
        if moment - self._alone_since > LATE_START_S:
            return False
        try:
            return self._engine.waiting(self._page.unanswered())
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except (OSError, ValueError, IndexError, KeyError, TypeError):
            return True

    def _running(self) -> tuple[list[str], str]:
        """What runs by the engine's word, and why it gives none. No engine starts nothing."""
        try:
            return self._engine.running(), ""
        except (FileNotFoundError, ConnectionRefusedError):
            return [], ""
        except (OSError, ValueError, IndexError, KeyError, TypeError) as error:
            return [], f"{type(error).__name__}: {error}"

    def _note(self, moment: float, *, busy: bool) -> None:
        if busy or self._agent_lives():
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = moment

    def _write_down(self, moment: float, killed: int, found: list[str], problem: str) -> None:
        event = {
            "event": "lease_over",
            "time": time.time(),
            "seconds_after_lease": round(moment - self._recorded_lease, 3),
            "processes_killed": killed,
            "containers_killed": found,
            "engine": problem or "ok",
        }
        with contextlib.suppress(OSError), open(f"{self._state}/watchdog.log", "a") as log:
            log.write(json.dumps(event) + "\n")


def _be_robust() -> None:
    """Signals meant for the agent do not end its watchdog, neither does a lack of memory, and its
    own code does not wait for a disk. Each as far as the rights go."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("-999")
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    with contextlib.suppress(OSError, ImportError, AttributeError):
        import ctypes

        threading.stack_size(256 * 1024)  # it would be locked, too
        ctypes.CDLL(None).mlockall(3)  # MCL_CURRENT | MCL_FUTURE


def main() -> None:
    """Run as `python watchdog.py JSON`, by the agent."""
    given = json.loads(sys.argv[1])
    _be_robust()
    Watchdog(**given).run()


if __name__ == "__main__":
    main()
