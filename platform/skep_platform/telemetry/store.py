"""The log store: chunks by their keys, in local files (here) or in an object store (`objects`); and
its failures, reported by the process that meets them to those that show them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol, cast

import redis
import structlog
from django.core.files.storage import FileSystemStorage, storages

from skep_platform.core.errors import Unavailable
from skep_platform.core.logs import rarely
from skep_platform.core.notifications import valkey
from skep_platform.core.serving import give_connection_back

log = structlog.get_logger(__name__)


class ChunkStore(Protocol):
    """What a storage must do besides Django's own. Raises OSError when it is away or full."""

    def save_many(self, chunks: Sequence[tuple[str, bytes]]) -> None:
        """Store bytes under their keys. A key that is written again gets the same bytes."""

    def delete_many(self, keys: Sequence[str]) -> None:
        """Those that are not there are no error."""


def save_chunks(chunks: Sequence[tuple[str, bytes]]) -> None:
    """When it returns they survive a power cut. Raises Unavailable."""
    try:
        _store().save_many(chunks)
    except OSError as error:
        raise _away(error) from error


def delete_chunks(keys: Sequence[str]) -> None:
    """Raises Unavailable."""
    try:
        _store().delete_many(keys)
    except OSError as error:
        raise _away(error) from error


def read_chunk(key: str, size: int) -> bytes:
    """Return the `size` bytes of a stored chunk. One that the store lost or spoilt reads as a note
    of that, so that a reader gets past it. Blocks on the store, without a connection of the
    database; raises Unavailable."""
    return read_chunk_and_times(key, size)[0]


def read_chunk_and_times(key: str, size: int) -> tuple[bytes, bytes]:
    """Return the same, and what lies behind it: the packed times of its lines, or nothing."""
    give_connection_back()  # any number of requests may wait for a store that hangs
    try:
        with storages["logs"].open(key) as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise _away(error) from error
    if len(data) >= size:
        return data[:size], data[size:]
    log.error("log_chunk_missing", key=key, size=size, found=len(data))
    note = f"[{size} bytes of this log are missing in the store]\n".encode()
    return note[:size].ljust(size), b""


def _store() -> ChunkStore:
    return cast(ChunkStore, storages["logs"])


def _away(error: OSError) -> Unavailable:
    rarely(log, type(error).__name__, "log_store_away", error=str(error))
    note_store_away(str(error))
    return Unavailable("The log store is away for a moment; try again.", retry_after_s=1)


class ChunkFiles(FileSystemStorage):
    """What an object store gives by itself: writing a chunk again changes nothing, and what was
    written survives a power cut (the node forgets log bytes once they are acknowledged).

    A key stands for fixed bytes, so a file is never truncated: a second writer of the same key
    writes the same bytes over the first one's, and a reader sees no difference.
    """

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        return name

    def save_many(self, chunks: Sequence[tuple[str, bytes]]) -> None:
        for key, data in chunks:
            path = Path(self.path(key))
            try:
                _write(path, data)
            except FileNotFoundError:
                path.parent.mkdir(parents=True, exist_ok=True)
                _write(path, data)

    def delete_many(self, keys: Sequence[str]) -> None:
        """And the folders that are empty then."""
        paths = [Path(self.path(key)) for key in keys]
        for path in paths:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in paths}:
            self._remove_empty(folder)

    def _save(self, name: str, content: IO[Any]) -> str:
        self.save_many([(name, content.read())])
        return name

    def _remove_empty(self, folder: Path) -> None:
        root = Path(self.base_location).resolve()
        with suppress(OSError):  # not empty, or gone already
            while root in folder.resolve().parents:
                folder.rmdir()
                folder = folder.parent


def _write(path: Path, data: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fdatasync(file.fileno())


STORE_KEY = "skep:alert:log-store"
KEPT_S = 90  # after the last time that it failed
NOTE_EVERY_S = 5.0

_noted_at = -NOTE_EVERY_S


@dataclass(frozen=True, slots=True)
class StoreAway:
    """The log store does not take or give chunks. Times are seconds since the epoch."""

    since: float
    last: float
    error: str


def note_store_away(error: str) -> None:
    """Remember for KEPT_S that the store failed; at most every few seconds, and never raises."""
    global _noted_at
    if time.monotonic() - _noted_at < NOTE_EVERY_S:
        return
    _noted_at = time.monotonic()
    try:
        before, now = store_away(), time.time()
        since = before.since if before else now
        text = json.dumps({"since": since, "last": now, "error": error[:300]})
        valkey().set(STORE_KEY, text, ex=KEPT_S)
    except redis.RedisError:
        pass  # it is in the log of this process


def store_away() -> StoreAway | None:
    """Return None while the store works, or when it was not used of late. Raises RedisError."""
    text = cast("bytes | None", valkey().get(STORE_KEY))
    return StoreAway(**json.loads(text)) if text else None
