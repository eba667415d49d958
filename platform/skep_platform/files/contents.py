"""What is in an archive, and whether a container may unpack it: nothing is written here.

Everything that an archive says is believed only so far: sizes are counted as bytes come out of the
compression, headers may not be large, and the reader moves forward only.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from dataclasses import asdict, dataclass
from typing import IO

from skep_agent.tar_reader import TarReader
from skep_limits import MAX_ARCHIVE_MEMBERS, MAX_UNPACKED_BYTES, inner_parts
from skep_platform.core.errors import SkepError

MAX_NAME = 1024  # characters
STEP = 256 * 1024
KINDS = (tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE)


class ArchiveRefused(SkepError):
    """`details.name`: the member, where one is to blame."""

    code = "archive_refused"


@dataclass(frozen=True, slots=True)
class Contents:
    unpacked_size: int  # bytes of the tar file
    files: int


def inspect_call(file: IO[bytes]) -> dict[str, int]:
    """Inspect an archive in a worker of `core.parse_pool`; the answer is JSON."""
    return asdict(inspect(file))


def inspect(packed: IO[bytes]) -> Contents:
    """Inspect a gzipped tar file. Raises ArchiveRefused."""
    unpacked, files = _Unpacked(packed), 0
    try:
        links = _Links()
        for member in TarReader(unpacked.read).members():
            files += 1
            if files > MAX_ARCHIVE_MEMBERS:
                raise ArchiveRefused(f"An archive has at most {MAX_ARCHIVE_MEMBERS} members.")
            _check(member)
            links.check(member)
        unpacked.drain()
    except (EOFError, OSError, zlib.error, ValueError) as error:
        message = f"This is not a gzipped tar file that can be read to its end: {error}."
        raise ArchiveRefused(message) from None
    return Contents(unpacked.position, files)


class _Unpacked:
    """The bytes of the tar file, as far as they may go."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._bytes = gzip.GzipFile(fileobj=packed)
        self.position = 0

    def drain(self) -> None:
        """Read to the end, where the checksum is."""
        while self.read(STEP):
            pass

    def read(self, size: int) -> bytes:
        data = self._bytes.read(size)
        self.position += len(data)
        if self.position > MAX_UNPACKED_BYTES:
            most = MAX_UNPACKED_BYTES // 1024**2
            raise ArchiveRefused(f"Unpacked, an archive has at most {most} MiB.")
        return data


def _check(member: tarfile.TarInfo) -> None:
    name = member.name
    if member.type not in KINDS or member.issparse():
        message = f"{name[:100]!r} is no file, directory or link; sparse files are not taken."
        raise ArchiveRefused(message, name=name[:100])
    if len(name) > MAX_NAME or len(member.linkname) > MAX_NAME:
        raise ArchiveRefused(f"A name has at most {MAX_NAME} characters.", name=name[:100])
    _parts(name, member)
    if member.islnk():
        _parts(member.linkname, member)


def _parts(name: str, member: tarfile.TarInfo) -> tuple[str, ...]:
    """Return the parts of a name that stays inside. Raises ArchiveRefused."""
    parts = inner_parts(name)
    if parts is None:
        message = f"{member.name[:100]!r} leads out of the archive."
        raise ArchiveRefused(message, name=member.name[:100])
    return parts


class _Links:
    """Symbolic links lead to places inside, whatever links stand on the way: a link's target goes
    up only first, and no further than to the root; and nothing lies below a link."""

    def __init__(self) -> None:
        self._links: set[tuple[str, ...]] = set()

    def check(self, member: tarfile.TarInfo) -> None:
        """Raises ArchiveRefused."""
        parts = _parts(member.name, member)
        self._check_way(parts, member)
        if member.islnk():
            self._check_way(_parts(member.linkname, member), member)
        if member.issym():
            self._check_target(parts, member)
            self._links.add(parts)

    def _check_way(self, parts: tuple[str, ...], member: tarfile.TarInfo) -> None:
        if any(parts[:depth] in self._links for depth in range(1, len(parts) + 1)):
            message = f"{member.name[:100]!r} lies behind a link of the archive, or is one already."
            raise ArchiveRefused(message, name=member.name[:100])

    def _check_target(self, parts: tuple[str, ...], member: tarfile.TarInfo) -> None:
        target = [part for part in member.linkname.split("/") if part not in ("", ".")]
        up = 0
        while up < len(target) and target[up] == "..":
            up += 1
        leads_out = member.linkname.startswith("/") or "\0" in member.linkname
        if not parts or leads_out or up > len(parts) - 1 or ".." in target[up:]:
            message = f"The link {member.name[:100]!r} leads out of the archive, or may."
            raise ArchiveRefused(message, name=member.name[:100])
