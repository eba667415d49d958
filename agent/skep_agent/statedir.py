"""The agent's state directory: lock, identity, journal. One agent at a time may use it."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from skep_agent.journal import Journal


class StateError(Exception):
    """The state directory cannot be used; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this node is, since it joined. `cluster` marks its containers on an engine that several
    agents share. `gateway_url` is "" where the gateway is behind the web address."""

    server: str
    name: str
    node_id: str
    cluster: str
    credential: str
    gateway_url: str = ""

    @property
    def gateway(self) -> str:
        """Return the address to connect to, and to fetch files from."""
        return self.gateway_url or self.server

    def __repr__(self) -> str:
        return f"Identity({self.name} at {self.server})"


class StateDir:
    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._locks: list[int] = []
        self._made_id = ""

    @property
    def instance_id(self) -> str:
        """Return an id that distinguishes this directory from a copy of its credential elsewhere.
        It is made once."""
        path = self.path / "instance_id"
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            self._made_id = self._made_id or str(uuid.uuid4())
            with suppress(OSError):  # a disk that takes nothing: the next agent makes another
                write_private(path, self._made_id)
            return self._made_id

    @property
    def gpu_faults(self) -> Path:
        return self.path / "gpu-faults.json"

    @property
    def gpus(self) -> Path:
        """Return the file with the GPUs that the agent saw last."""
        return self.path / "gpus.json"

    @property
    def archives(self) -> Path:
        """Return the folder that caches archives of working files."""
        return self.path / "archives"

    def lock(self) -> None:
        """Held until the process ends. Raises StateError when another agent holds it.

        Both a file, as older agents lock it, and the directory itself, which is there on a disk
        that became read-only before the file was made."""
        path = self.path / "lock"
        ways = ((path, os.O_RDWR | os.O_CREAT), (path, os.O_RDONLY)), ((self.path, os.O_RDONLY),)
        problems = [problem for tries in ways if (problem := self._lock(tries))]
        if len(problems) == len(ways):
            self.unlock()
            raise StateError(f"{self.path} cannot be locked: {problems[0]}")

    def _lock(self, tries: Iterable[tuple[Path, int]]) -> str:
        """Lock what can be opened first. Returns why that is nothing, "" where it is locked. Raises
        StateError when another agent holds it."""
        problem = ""
        for path, flags in tries:
            try:
                file = os.open(path, flags | os.O_CLOEXEC, 0o600)
                self._locks.append(file)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return ""
            except BlockingIOError:
                self.unlock()
                raise StateError(f"another agent uses {self.path}") from None
            except OSError as error:  # file systems over a network may lock no directory
                problem = problem or str(error.strerror)
        return problem

    def unlock(self) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def save(self, identity: Identity) -> None:
        write_private(self.path / "credential.json", json.dumps(asdict(identity), indent=1))

    def load(self) -> Identity:
        """Raises StateError when the node has not joined yet."""
        path = self.path / "credential.json"
        try:
            return Identity(**json.loads(path.read_text()))
        except FileNotFoundError:
            raise StateError(f"no credential in {self.path}: run `skep-agent join` first") from None
        except OSError as error:
            raise StateError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError) as error:
            raise StateError(f"{path} is damaged: {error}; join again") from None

    def journal(self) -> Journal:
        return Journal(self.path / "journal.jsonl", boot_id())

    def masks(self) -> Masks:
        return Masks(self.path / "masks")


def boot_id() -> str:
    """Changes with every boot of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class Masks:
    """What no log of an attempt may show, on disk until the log is with the server.

    An agent that comes back reads a container's log from its first byte, perhaps long before the
    server lists the attempt again: without these files it would ship what it must cover.
    """

    def __init__(self, folder: Path) -> None:
        with suppress(OSError):  # a disk that takes nothing: `keep` will say so
            folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder

    def keep(self, attempt_id: str, secrets: list[str]) -> None:
        """To be called before the attempt can write anything, also when it has none."""
        # Not synced, which would hold up each start by some ms: after a power failure a file that
        # is empty or not there counts as unknown, and the log waits for the server's word.
        if not self._folder.exists():
            self._folder.mkdir(mode=0o700)
        write_private(self._folder / attempt_id, json.dumps(secrets), durable=False)

    def of(self, attempt_id: str) -> list[str] | None:
        """None when they are not known any more: the state directory was lost, or is damaged."""
        try:
            return json.loads((self._folder / attempt_id).read_text())
        except (OSError, ValueError):
            return None

    def forget(self, attempt_id: str) -> None:
        """Remove them, or leave that to the next agent where the disk does not take it."""
        with suppress(OSError):
            (self._folder / attempt_id).unlink()

    def keep_only(self, attempt_ids: Collection[str]) -> None:
        """Remove what an agent that was killed left behind, as far as the disk takes it."""
        with suppress(OSError):
            for path in self._folder.iterdir():
                if path.name not in attempt_ids:
                    path.unlink(missing_ok=True)


def write_private(path: Path, text: str, *, durable: bool = True) -> None:
    """Write a file as a whole, readable by the owner alone. `durable`: return when it would be
    there after a power failure."""
    fresh = path.with_name(path.name + ".new")
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(text)
        if durable:
            stream.flush()
            os.fsync(file)
    fresh.replace(path)
