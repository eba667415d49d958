"""All reads of archives: each exists only for those who uploaded it."""

from __future__ import annotations

from typing import IO, Any

from django.core.files.storage import Storage, storages

from skep_platform.core.errors import NotFound
from skep_platform.core.serving import give_connection_back
from skep_platform.files.models import Archive


def find(user: Any, sha256: str) -> Archive:
    """Return the user's archive with this hash. Raises NotFound, also when only other users
    uploaded the same bytes."""
    archive = Archive.objects.filter(owner=user, sha256=sha256).first()
    if archive is None:
        raise NotFound("You have uploaded no such archive.")
    return archive


def storage() -> Storage:
    """Return the storage "files", which has the bytes of archives under their hash. Call it just
    before it is used: the thread waits for the storage without a connection of the database. In the
    gateway those who wait for a store that hangs would keep heartbeats from being stored."""
    give_connection_back()
    return storages["files"]


def path_of(sha256: str) -> str:
    """Return the name under which the storage has the bytes with this hash."""
    return f"{sha256[:2]}/{sha256}"


def is_stored(sha256: str) -> bool:
    """Return whether the storage has the bytes with this hash."""
    return storage().exists(path_of(sha256))


def open_stored(sha256: str) -> IO[bytes]:
    """Open the bytes with this hash for reading. Raises FileNotFoundError."""
    return storage().open(path_of(sha256))
