"""The log store: chunks by their keys, in local files or in an object store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

import structlog
from django.core.files.storage import storages

from skep_platform.core.errors import Unavailable
from skep_platform.core.logs import rarely
from skep_platform.telemetry import alerts

log = structlog.get_logger(__name__)


class ChunkStore(Protocol):
    """What a storage must do besides Django's own. Raises OSError when it is away or full."""

    def save_many(self, chunks: Sequence[tuple[str, bytes]]) -> None:
        """Keys and their bytes. A key that is written again gets the same bytes."""

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
    """The `size` bytes of a stored chunk. One that the store lost or spoilt reads as a note of
    that, so that a reader gets past it. Blocks on the store; raises Unavailable."""
    try:
        with storages["logs"].open(key) as file:
            data = file.read()
    except FileNotFoundError:
        data = b""
    except OSError as error:
        raise _away(error) from error
    if len(data) == size:
        return data
    log.error("log_chunk_missing", key=key, size=size, found=len(data))
    return f"[{size} bytes of this log are missing in the store]\n".encode()[:size].ljust(size)


def _store() -> ChunkStore:
    return cast(ChunkStore, storages["logs"])


def _away(error: OSError) -> Unavailable:
    rarely(log, type(error).__name__, "log_store_away", error=str(error))
    alerts.note_store_away(str(error))
    return Unavailable("The log store is away for a moment; try again.", retry_after_s=1)
