"""Files put into a created container, before anything in it runs.

The engine unpacks archives within the container's root, so that a link in the image leads nowhere
else; and nothing of the task can race it, because it is not started yet.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import tarfile
from collections.abc import AsyncIterator, Iterator
from pathlib import PurePosixPath
from typing import BinaryIO

from skep_agent.archives import PIECE_BYTES, rewritten
from skep_agent.isolation_files import FILES_DIR, Owner, files_tar, folders_tar, task_files
from skep_agent.protocol import AttemptSpec
from skep_agent.runtimes.docker_engine import Engine, EngineError

PASSWD_BYTES = 1024 * 1024
# Of Go's os.FileMode.
_GO_FOLDER, _GO_STICKY = 1 << 31, 1 << 20


async def put(
    engine: Engine, container_id: str, user: str, spec: AttemptSpec, archive: BinaryIO | None
) -> None:
    """Everything that the spec says shall be there; `user` as in the image's USER. Raises
    RuntimeFailure "create_failed", "disk_full", or "spec_refused" for a bad archive."""
    files = list(task_files(spec))
    path = f"/containers/{container_id}/archive"
    try:
        owner = await _owner(engine, path, user)
        if spec.work_dir:
            await _give_folder(engine, path, spec.work_dir, owner)
        if archive is not None and spec.working_files is not None:
            folder = spec.working_files.path
            await _make_folder(engine, path, folder, owner)
            await _give_folder(engine, path, folder, owner)
            pieces = _in_thread(rewritten(archive, owner))
            await engine.upload(path, {"path": folder}, pieces)
        if files:
            parent = str(PurePosixPath(FILES_DIR).parent)
            await _make_folder(engine, path, parent, Owner())
            await engine.upload(path, {"path": parent}, files_tar(files, owner))
    except EngineError as error:
        raise error.failure("create_failed") from None


async def _in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Some of them at a time: unpacking is work, and headers are small."""
    while batch := await asyncio.to_thread(_join, pieces):
        yield batch


def _join(pieces: Iterator[bytes]) -> bytes:
    joined = bytearray()
    for piece in pieces:
        joined += piece
        if len(joined) >= PIECE_BYTES:
            break
    return bytes(joined)


async def _make_folder(engine: Engine, path: str, folder: str, owner: Owner) -> None:
    """With its parents, where they are missing; what is there stays as it is."""
    parents = [PurePosixPath(folder), *PurePosixPath(folder).parents]
    missing = []
    for parent in parents:
        if await engine.headers(path, {"path": str(parent)}):
            break
        missing.append(parent)
    if missing:
        names = [str(lost.relative_to(parent)) for lost in reversed(missing)]
        await engine.upload(path, {"path": str(parent)}, folders_tar(names, owner))


async def _give_folder(engine: Engine, path: str, folder: str, owner: Owner) -> None:
    """The engine makes a working directory for root, whoever the user is. Its mode stays."""
    place = PurePosixPath(folder)
    headers = await engine.headers(path, {"path": folder}) if owner.uid and place.name else None
    if headers is None:
        return
    seen = json.loads(base64.b64decode(headers["X-Docker-Container-Path-Stat"]))
    mode = seen["mode"] & 0o777 | (0o1000 if seen["mode"] & _GO_STICKY else 0)
    if seen["mode"] & _GO_FOLDER:
        entry = folders_tar([place.name], owner, mode)
        await engine.upload(path, {"path": str(place.parent)}, entry)


async def _owner(engine: Engine, path: str, user: str) -> Owner:
    """By number. A user whom the container does not know cannot start it anyway."""
    name, _, group = user.partition(":")
    passwd = await _text_of(engine, path, "/etc/passwd") if name else ""
    entries = (line.split(":") for line in passwd.splitlines())
    for entry in entries:
        if len(entry) >= 4 and name in (entry[0], entry[2]):
            return Owner(_number(entry[2]), _number(group or entry[3]))
    return Owner(_number(name), _number(group))


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) < 11 else 0


async def _text_of(engine: Engine, path: str, file: str) -> str:
    """ "" unless it is a plain file of a sensible size."""
    archive = await engine.download(path, {"path": file}, PASSWD_BYTES)
    if archive is None:
        return ""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        entry = tar.next()
        content = tar.extractfile(entry) if entry is not None and entry.isreg() else None
        return content.read().decode(errors="replace") if content is not None else ""
