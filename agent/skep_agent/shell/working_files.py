"""The archives of working files that this node's attempts use, in a cache of bounded size."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO
from weakref import WeakValueDictionary

import httpx

from skep_agent.containers import RuntimeFailure
from skep_agent.join import trusted
from skep_agent.protocol import WorkingFiles
from skep_agent.statedir import Identity

CACHE_BYTES = 10 * 1024**3
MAX_BYTES = 256 * 1024**2  # of one archive, packed
DOWNLOADS = 4
ANSWER_S = 60.0
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Archives:
    """Named by their hash: who may have one, the server decides at each attempt's time."""

    def __init__(self, folder: Path, identity: Identity, cache_bytes: int = CACHE_BYTES) -> None:
        with suppress(OSError):  # a disk that takes nothing, as the first download will say
            folder.mkdir(mode=0o700, exist_ok=True)
            for left in folder.glob("*.part"):
                left.unlink()
        self._folder = folder
        self._identity = identity
        self._cache_bytes = cache_bytes
        # While someone wants the archive: else there would be one for each that there ever was.
        self._downloads: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._limit = asyncio.Semaphore(DOWNLOADS)

    async def open(self, wanted: WorkingFiles) -> BinaryIO:
        """The archive, whole; the caller closes it. Raises RuntimeFailure "files_unavailable", or
        "spec_refused" when the server does not know it, or "disk_full"."""
        if not _SHA256.fullmatch(wanted.sha256) or not 0 < wanted.size <= MAX_BYTES:
            raise RuntimeFailure("spec_refused", "The working files have no sensible hash or size.")
        path = self._folder / wanted.sha256
        async with self._downloads.setdefault(wanted.sha256, asyncio.Lock()):
            if not _is_whole(path, wanted):
                async with self._limit:
                    await self._download(wanted, path)
                self._free_space(path)
            with suppress(OSError):  # read-only: nothing is removed from it either
                os.utime(path)
            return path.open("rb")

    async def _download(self, wanted: WorkingFiles, path: Path) -> None:
        part = path.with_suffix(".part")
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with part.open("xb") as file:
                digest, size = hashlib.sha256(), 0
                async for piece in self._pieces(wanted):
                    size += len(piece)
                    if size > wanted.size:
                        break
                    digest.update(piece)
                    file.write(piece)
            if size != wanted.size or digest.hexdigest() != wanted.sha256:
                raise RuntimeFailure(
                    "files_unavailable", "What the server sent is not the archive it announced."
                )
            part.replace(path)
        except OSError as error:
            raise RuntimeFailure("disk_full", f"The node cannot keep them: {error}.") from None
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)

    async def _pieces(self, wanted: WorkingFiles) -> AsyncIterator[bytes]:
        url = f"{self._identity.gateway}/api/v1/agent/files/{wanted.sha256}"
        # What is hashed are the bytes of the archive, not what a proxy makes of them.
        headers = {
            "Authorization": f"Bearer {self._identity.credential}",
            "Accept-Encoding": "identity",
        }
        try:
            async with (
                httpx.AsyncClient(timeout=ANSWER_S, verify=trusted(url)) as client,
                client.stream("GET", url, headers=headers) as answer,
            ):
                if answer.is_error:
                    raise _refusal(answer.status_code)
                async for piece in answer.aiter_raw():
                    yield piece
        except httpx.HTTPError as error:
            text = str(error) or type(error).__name__
            raise RuntimeFailure(
                "files_unavailable", f"The working files cannot be had from the server: {text}."
            ) from None

    def _free_space(self, newest: Path) -> None:
        """The least recently used go first; the newest stays, whatever its size."""
        files = [(path.stat(), path) for path in self._folder.iterdir() if path != newest]
        files.sort(key=lambda found: found[0].st_mtime, reverse=True)
        total = newest.stat().st_size
        for stat, path in files:
            total += stat.st_size
            if total > self._cache_bytes and path.suffix != ".part":
                path.unlink(missing_ok=True)


def _is_whole(path: Path, wanted: WorkingFiles) -> bool:
    """Return whether the archive is there. Nothing is synced: after a power failure it may have its
    name, and none of its bytes."""
    try:
        return path.stat().st_size == wanted.size
    except FileNotFoundError:
        return False


def _refusal(status: int) -> RuntimeFailure:
    if status == 404:
        return RuntimeFailure("spec_refused", "The server does not have the working files.")
    return RuntimeFailure(
        "files_unavailable", f"The server does not give the working files: it says {status}."
    )
