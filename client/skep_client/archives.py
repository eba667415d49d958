"""A folder as one archive: the same files make the same bytes, so that the server knows what it
has. Files that .skepignore names stay here, else those of .gitignore."""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from skep_client.errors import SkepError
from skep_limits import MAX_ARCHIVE_BYTES, MAX_ARCHIVE_MEMBERS, MAX_UNPACKED_BYTES

PIECE_BYTES = 256 * 1024
IGNORE_FILES = (".skepignore", ".gitignore")  # the first that is there counts
ALWAYS_LEFT_OUT = (".git/", ".skepignore", "__pycache__/")
LEVEL = 6  # of compression

Progress = Callable[[int], None]  # bytes so far


@dataclass(frozen=True, slots=True)
class Archive:
    """A packed folder in a file of its own; `sha256` is of the packed bytes."""

    path: Path
    sha256: str
    size: int
    files: int


def pack(folder: Path, into: Path) -> Archive:
    """Raises SkepError `too_large`, `leads_out` or `no_folder`."""
    if not folder.is_dir():
        raise _refused("no_folder", f"{folder} is no folder.")
    paths = list(_members(folder, ignored(folder)))
    if len(paths) > MAX_ARCHIVE_MEMBERS:
        message = f"{folder} has more than {MAX_ARCHIVE_MEMBERS} files: name some in .skepignore."
        raise _refused("too_large", message)
    with into.open("wb") as raw, gzip.GzipFile("", "wb", LEVEL, raw, mtime=0) as packed:
        _write(folder, paths, packed)
    size = into.stat().st_size
    if size > MAX_ARCHIVE_BYTES:
        raise _refused("too_large", _TOO_LARGE.format(folder=folder, size=size >> 20))
    with into.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Archive(into, digest, size, len(paths))


_TOO_LARGE = "{folder} has {size} MiB: name in .skepignore what the job does not need."


class Body:
    """The bytes of a file, for a request that may be sent again."""

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path, self.size = path, path.stat().st_size
        self._progress = progress

    def __iter__(self) -> Iterator[bytes]:
        sent = 0
        with self.path.open("rb") as file:
            while piece := file.read(PIECE_BYTES):
                yield piece
                sent += len(piece)
                if self._progress:
                    self._progress(sent)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


class AsyncBody:
    """The same for asyncio's client, which takes nothing that could be read otherwise."""

    def __init__(self, body: Body) -> None:
        self._body = body

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._body)


def ignored(folder: Path) -> GitIgnoreSpec:
    """Return the patterns of what stays out of an archive of the folder, as git reads them."""
    found = next((folder / name for name in IGNORE_FILES if (folder / name).is_file()), None)
    lines = found.read_text(encoding="utf-8", errors="replace").splitlines() if found else []
    return GitIgnoreSpec.from_lines([*lines, *ALWAYS_LEFT_OUT])


def _members(folder: Path, ignores: GitIgnoreSpec) -> Iterator[str]:
    """Yield the paths below the folder, in an order that is always the same. Links are not
    followed, and a folder that is left out is not entered, so nothing below it is taken back."""
    stack = [""]
    while stack:
        below = stack.pop()
        with os.scandir(folder / below) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = f"{below}{entry.name}"
            is_folder = entry.is_dir(follow_symlinks=False)
            if ignores.match_file(f"{path}/" if is_folder else path):
                continue
            if is_folder:
                stack.append(f"{path}/")
                yield path
            elif entry.is_symlink() or entry.is_file():
                yield path


def _write(folder: Path, paths: list[str], packed: gzip.GzipFile) -> None:
    unpacked = 0
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(paths):
            member = tar.gettarinfo(folder / path, path)
            if member.islnk():  # a second name of a file: its content again
                member.type, member.linkname = tarfile.REGTYPE, ""
                member.size = (folder / path).stat().st_size
            _check_link(member)
            unpacked += member.size
            if unpacked > MAX_UNPACKED_BYTES:
                size = MAX_UNPACKED_BYTES >> 30
                raise _refused("too_large", f"{folder} has more than {size} GiB: see .skepignore.")
            _forget_who_and_when(member)
            if member.isreg():
                with (folder / path).open("rb") as file:
                    tar.addfile(member, file)
            else:
                tar.addfile(member)


def _forget_who_and_when(member: tarfile.TarInfo) -> None:
    member.mtime = member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    member.pax_headers = {}


def _check_link(member: tarfile.TarInfo) -> None:
    if not member.issym():
        return
    target = os.path.normpath(os.path.join(os.path.dirname(member.name), member.linkname))
    if os.path.isabs(member.linkname) or target.split("/")[0] == "..":
        message = f"{member.name} links to {member.linkname}, which is not in the folder."
        raise _refused("leads_out", message)


def _refused(code: str, message: str) -> SkepError:
    return SkepError(400, code, message)
