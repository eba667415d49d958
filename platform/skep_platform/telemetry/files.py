"""The local log store: small files, written once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from django.core.files.storage import FileSystemStorage


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
