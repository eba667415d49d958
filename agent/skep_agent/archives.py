"""An uploaded working directory, looked at again on the node before anything unpacks it.

The server has checked the same; but what it says is not taken on trust where a file could leave its
folder. Every member is written anew with checked values alone: kind, name, target, mode, size, and
the container's user as owner.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, Literal, NoReturn

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.files import Owner
from skep_agent.tar_reader import TarReader
from skep_limits import MAX_ARCHIVE_MEMBERS, MAX_UNPACKED_BYTES

MAX_NAME_BYTES = 4096
_KINDS = frozenset(
    {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE}
)
_END = bytes(2 * tarfile.BLOCKSIZE)
Kind = Literal["file", "folder", "link"]


def rewritten(packed: BinaryIO, owner: Owner) -> Iterator[bytes]:
    """Yield the gzipped tar `packed` as a plain one, in pieces. Raises RuntimeFailure
    "spec_refused" at the first member that is not allowed: what came before it must then be thrown
    away."""
    try:
        with gzip.open(packed) as unpacked:
            tree, tar = _Tree(), TarReader(unpacked.read)
            for member in tar.members():
                checked = tree.take(member, owner)
                yield checked.tobuf(tarfile.PAX_FORMAT)
                if checked.isreg():
                    yield from tar.content()
                    yield bytes(-member.size % tarfile.BLOCKSIZE)  # the padding that a tar wants
    except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
        _refuse(f"it is damaged: {error}")
    yield _END


class _Tree:
    """What was unpacked so far. No member may stand below a link, nor replace what is there by
    one: then `..` at the beginning of a link's target always means the real parent folder."""

    def __init__(self) -> None:
        self._kinds: dict[PurePosixPath, Kind] = {PurePosixPath("."): "folder"}
        self._members = self._bytes = 0

    def take(self, member: tarfile.TarInfo, owner: Owner) -> tarfile.TarInfo:
        path = _path(member.name)
        self._count(member)
        checked = _member(member, path, owner)
        if member.issym():
            checked.linkname = _symbolic(member, path)
            self._place(path, "link")
        elif member.islnk():
            checked.linkname = str(self._hard(member))
            self._place(path, "file")
        else:
            self._place(path, "folder" if member.isdir() else "file")
        return checked

    def _place(self, path: PurePosixPath, kind: Kind) -> None:
        before = self._kinds.get(path, kind)
        again = kind == "link" and path in self._kinds
        above = {self._kinds.setdefault(parent, "folder") for parent in path.parents}
        if again or before != kind or above - {"folder"}:
            _refuse(f"{str(path)[:200]!r} stands where something else is")
        self._kinds[path] = kind

    def _count(self, member: tarfile.TarInfo) -> None:
        self._members += 1
        self._bytes += max(member.size, 0)
        if self._members > MAX_ARCHIVE_MEMBERS:
            _refuse(f"it has more than {MAX_ARCHIVE_MEMBERS} members")
        if member.size < 0 or self._bytes > MAX_UNPACKED_BYTES:
            _refuse(f"it has more than {MAX_UNPACKED_BYTES} bytes, unpacked")

    def _hard(self, member: tarfile.TarInfo) -> PurePosixPath:
        target = _path(member.linkname)
        if self._kinds.get(target) != "file":
            _refuse(f"{member.name[:200]!r} is a link to what is not in it")
        return target


def _symbolic(member: tarfile.TarInfo, path: PurePosixPath) -> str:
    parts = [part for part in member.linkname.split("/") if part not in ("", ".")]
    ups = next((at for at, part in enumerate(parts) if part != ".."), len(parts))
    inside = ups < len(path.parts) and ".." not in parts[ups:]
    if not member.linkname or member.linkname.startswith("/") or not inside:
        _refuse(f"the link {member.name[:200]!r} may lead out of it")
    _check_length(member.linkname)
    return "/".join(parts) or "."


def _path(name: str) -> PurePosixPath:
    """Return the name as a path, which is relative and has no ".."."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\0" in name:
        _refuse(f"{name[:200]!r} is no name within a folder")
    _check_length(name)
    return path


def _check_length(name: str) -> None:
    if len(name.encode(errors="surrogateescape")) > MAX_NAME_BYTES:
        _refuse("a name in it is too long")


def _member(member: tarfile.TarInfo, path: PurePosixPath, owner: Owner) -> tarfile.TarInfo:
    if member.issparse() or member.type not in _KINDS:
        _refuse(f"{member.name[:200]!r} is neither file, folder nor link")
    checked = tarfile.TarInfo(str(path))
    checked.type = tarfile.REGTYPE if member.isreg() else member.type
    checked.size = member.size if member.isreg() else 0
    least = 0o700 if member.isdir() else 0o400
    checked.mode = member.mode & 0o755 | least
    checked.mtime = min(max(int(member.mtime), 0), 2**33)
    checked.uid, checked.gid = owner.uid, owner.gid
    return checked


def _refuse(problem: str) -> NoReturn:
    raise RuntimeFailure("spec_refused", f"The archive of working files is refused: {problem}.")
