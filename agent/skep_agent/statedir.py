"""The agent's state directory: lock, identity, journal. One agent at a time may use it."""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

from skep_agent.files import write_private
from skep_agent.journal import Journal
from skep_agent.masks import Masks


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
        """Where to connect, and to fetch files."""
        return self.gateway_url or self.server

    def __repr__(self) -> str:
        return f"Identity({self.name} at {self.server})"


class StateDir:
    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = path
        self._lock: int | None = None

    @property
    def instance_id(self) -> str:
        """Tells this directory from a copy of its credential elsewhere; made once."""
        path = self.path / "instance_id"
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            write_private(path, str(uuid.uuid4()))
            return path.read_text().strip()

    @property
    def gpu_faults(self) -> Path:
        return self.path / "gpu-faults.json"

    @property
    def archives(self) -> Path:
        """Of working files; a cache."""
        return self.path / "archives"

    def lock(self) -> None:
        """Held until the process ends. Raises StateError when another agent holds it."""
        file = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise StateError(f"another agent uses {self.path}") from None
        self._lock = file

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def save(self, identity: Identity) -> None:
        write_private(self.path / "credential.json", json.dumps(asdict(identity), indent=1))

    def load(self) -> Identity:
        """Raises StateError when the node has not joined yet."""
        path = self.path / "credential.json"
        try:
            return Identity(**json.loads(path.read_text()))
        except FileNotFoundError:
            raise StateError(f"no credential in {self.path}: run `skep-agent join` first") from None
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
