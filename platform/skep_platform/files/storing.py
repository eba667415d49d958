"""The bytes of archives, in the storage "files" under their hash."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import IO

from django.core.files import File
from django.core.files.storage import Storage, storages

FOLDERS = [f"{number:02x}" for number in range(256)]


def name_of(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}"


def is_stored(sha256: str) -> bool:
    return _storage().exists(name_of(sha256))


def store(sha256: str, archive: IO[bytes]) -> None:
    """Once, however often it is uploaded."""
    if is_stored(sha256):
        return
    archive.seek(0)
    name = _storage().save(name_of(sha256), File(archive))
    if name != name_of(sha256):  # somebody else was faster
        _storage().delete(name)


def opened(sha256: str) -> IO[bytes]:
    """Raises FileNotFoundError."""
    return _storage().open(name_of(sha256))


def older_than(moment: datetime) -> Iterator[str]:
    """Names of all that was stored before this moment."""
    storage = _storage()
    for folder in FOLDERS:
        try:
            names = storage.listdir(folder)[1]
        except FileNotFoundError:
            continue
        for name in names:
            if storage.get_modified_time(f"{folder}/{name}") < moment:
                yield name


def delete(name: str) -> None:
    _storage().delete(name_of(name))


def _storage() -> Storage:
    return storages["files"]
