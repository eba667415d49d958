"""Files put into a created container, before anything in it runs.

The engine unpacks archives within the container's root, so that a link in the image leads nowhere
else; and nothing of the task can race it, because it is not started yet.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from skep_agent.archives import rewritten
from skep_agent.isolation.files import FILES_DIR, Owner, files_tar, folders_tar, task_files
from skep_agent.isolation.mounts import mount_of
from skep_agent.protocol import SCRATCH_DIR, AttemptSpec
from skep_agent.runtimes.docker_engine import Engine, EngineError
from skep_agent.tar_reader import PIECE_BYTES

PASSWD_BYTES = 1024 * 1024
# Of Go's os.FileMode.
_GO_FOLDER, _GO_STICKY = 1 << 31, 1 << 20
# Folder, link, device, pipe, socket, character device, irregular: os.ModeType.
_GO_TYPE = 1 << 31 | 1 << 27 | 1 << 26 | 1 << 25 | 1 << 24 | 1 << 21 | 1 << 19


async def put(
    engine: Engine, container_id: str, user: str, spec: AttemptSpec, archive: BinaryIO | None
) -> Owner:
    """Put everything there that the spec lists; `user` as in the image's USER. Return the owner of
    it. Storages are not mounted yet, so that nothing in them is touched. Raises
    RuntimeFailure "create_failed", "disk_full", or "spec_refused" for a bad archive."""
    files = list(task_files(spec))
    place = _Place(engine, container_id)
    try:
        owner = await _owner(place, user)
        if spec.scratch_mb:
            await _give_folder(place, SCRATCH_DIR, owner)
        if spec.work_dir and mount_of(spec, spec.work_dir) is None:
            await _give_folder(place, spec.work_dir, owner)
        if archive is not None and spec.working_files is not None:
            folder = spec.working_files.path
            await _make_folder(place, folder, owner)
            await _give_folder(place, folder, owner)
            await place.unpack(folder, _batches(rewritten(archive, owner)))
        if files:
            parent = str(PurePosixPath(FILES_DIR).parent)
            await _make_folder(place, parent, Owner())
            await place.unpack(parent, files_tar(files, owner))
        return owner
    except EngineError as error:
        raise error.failure("create_failed") from None


@dataclass(frozen=True, slots=True)
class _Place:
    """The root file system of a container."""

    engine: Engine
    container_id: str

    async def stat(self, path: str) -> dict[str, Any] | None:
        return await self.engine.path_stat(self.container_id, path)

    async def unpack(self, folder: str, archive: bytes | Iterator[bytes]) -> None:
        await self.engine.upload(self.container_id, folder, archive)

    async def read(self, path: str) -> bytes:
        """An archive of what is there."""
        container_id = self.container_id
        return await self.engine.call(lambda api: b"".join(api.get_archive(container_id, path)[0]))


def _batches(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Some of them at a time: headers are small."""
    batch = bytearray()
    for piece in pieces:
        batch += piece
        if len(batch) >= PIECE_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)


async def _make_folder(place: _Place, folder: str, owner: Owner) -> None:
    """With its parents, where they are missing; what is there stays as it is."""
    parents = [PurePosixPath(folder), *PurePosixPath(folder).parents]
    missing = []
    for parent in parents:
        if await place.stat(str(parent)):
            break
        missing.append(parent)
    if missing:
        names = [str(lost.relative_to(parent)) for lost in reversed(missing)]
        await place.unpack(str(parent), folders_tar(names, owner))


async def _give_folder(place: _Place, folder: str, owner: Owner) -> None:
    """The engine makes a working directory for root, whoever the user is. Its mode stays."""
    path = PurePosixPath(folder)
    seen = await place.stat(folder) if owner.uid and path.name else None
    if seen is None:
        return
    mode = seen["mode"] & 0o777 | (0o1000 if seen["mode"] & _GO_STICKY else 0)
    if seen["mode"] & _GO_FOLDER:
        await place.unpack(str(path.parent), folders_tar([path.name], owner, mode))


async def _owner(place: _Place, user: str) -> Owner:
    """Return the user's numeric owner. A user whom the container does not know cannot start it
    anyway."""
    name, _, group = user.partition(":")
    passwd = await _text_of(place, "/etc/passwd") if name else ""
    entries = (line.split(":") for line in passwd.splitlines())
    for entry in entries:
        if len(entry) >= 4 and name in (entry[0], entry[2]):
            return Owner(_number(entry[2]), _number(group or entry[3]))
    return Owner(_number(name), _number(group))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 11 else 0


async def _text_of(place: _Place, path: str) -> str:
    """ "" unless it is a plain file of a sensible size."""
    seen = await place.stat(path)
    if seen is None or seen["mode"] & _GO_TYPE or seen["size"] > PASSWD_BYTES:
        return ""
    with tarfile.open(fileobj=io.BytesIO(await place.read(path))) as tar:
        entry = tar.next()
        content = tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return content.read().decode(errors="replace") if content is not None else ""
