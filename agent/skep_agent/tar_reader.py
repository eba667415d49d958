"""Reads the headers of a tar stream, forwards only and in linear time, whatever they say.

`tarfile` looks for a character set in an extended header by a pattern that takes quadratic time
(CVE-2024-6232, in Pythons before 3.11.10 and 3.12.6), and calls itself for each header in front of
a member. Only `tarfile.TarInfo.frombuf`, which reads one block of 512 bytes, is used here.
Pure: the server reads what is uploaded by it, and the agent reads it again before it unpacks.
"""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator

MAX_HEADER_BYTES = 64 * 1024  # of one extended header
MAX_HEADERS = 8  # in front of one member
PIECE_BYTES = 256 * 1024
_LONG_NAME, _LONG_LINK = tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK
_PAX = frozenset({tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE})
_EXTENDED = _PAX | {tarfile.XGLTYPE, _LONG_NAME, _LONG_LINK}
# What a global header may not say: it would hold for all members behind it.
_OF_ONE = frozenset({b"path", b"linkpath", b"size"})


class DamagedTar(ValueError):
    """This is no tar file, or one with headers that no program writes."""


class TarReader:
    """`read(n)` gives the next n bytes of the tar file, fewer only at its end."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self._left = self._padding = 0  # of the content of the present member
        self._begun = False

    def members(self) -> Iterator[tarfile.TarInfo]:
        """All members in order; what is not read of one's content is skipped. A sparse file has
        the type GNUTYPE_SPARSE, however it is written. Raises DamagedTar and EOFError."""
        while (member := self._member()) is not None:
            with_data = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
            self._left = member.size if with_data else 0
            self._padding = -self._left % tarfile.BLOCKSIZE
            yield member
            for _ in self.content():
                pass
            self._exactly(self._padding)

    def content(self) -> Iterator[bytes]:
        """What is left of the present member's content, in pieces. Raises EOFError."""
        while self._left:
            piece = self._exactly(min(PIECE_BYTES, self._left))
            self._left -= len(piece)
            yield piece

    def _member(self) -> tarfile.TarInfo | None:
        """Return the next member with what the headers in front of it say."""
        said: dict[bytes, bytes] = {}
        for _ in range(MAX_HEADERS + 1):
            header = self._header()
            if header is None:
                if said:
                    raise DamagedTar("it ends after an extended header")
                return None
            if header.type not in _EXTENDED:
                return _applied(header, said)
            said |= self._extension(header)
        raise DamagedTar(f"more than {MAX_HEADERS} extended headers in front of a member")

    def _header(self) -> tarfile.TarInfo | None:
        """Read one block; None at the end."""
        block = self._read(tarfile.BLOCKSIZE)
        if not block and self._begun:
            return None
        self._begun = True
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as error:
            if block == bytes(tarfile.BLOCKSIZE):
                return None
            raise DamagedTar(str(error)) from None
        if header.size < 0:
            raise DamagedTar("a size below zero")
        return header

    def _extension(self, header: tarfile.TarInfo) -> dict[bytes, bytes]:
        if header.size > MAX_HEADER_BYTES:
            raise DamagedTar(f"a header of {header.size} bytes")
        data = self._exactly(header.size)
        self._exactly(-header.size % tarfile.BLOCKSIZE)
        if header.type == _LONG_NAME:
            return {b"path": data.partition(b"\0")[0]}
        if header.type == _LONG_LINK:
            return {b"linkpath": data.partition(b"\0")[0]}
        said = dict(_records(data))
        if header.type in _PAX:
            return said
        if _OF_ONE & said.keys():
            raise DamagedTar("a global header names or sizes members")
        return {}

    def _exactly(self, size: int) -> bytes:
        data = self._read(size) if size else b""
        if len(data) < size:
            raise EOFError("it ends in the middle of a member")
        return data


def _records(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the records `length key=value\\n` of a PAX header."""
    place = 0
    while place < len(data) and data[place]:
        space = data.find(b" ", place, place + 8)
        digits = data[place:space] if space > 0 else b""
        end = place + int(digits) if digits.isdigit() else 0
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if not equals or not key or end > len(data) or data[end - 1 : end] != b"\n":
            raise DamagedTar("a PAX header that cannot be read")
        yield key, value
        place = end


def _applied(member: tarfile.TarInfo, said: dict[bytes, bytes]) -> tarfile.TarInfo:
    if b"path" in said:
        member.name = said[b"path"].decode("utf-8", "surrogateescape").rstrip("/")
    if b"linkpath" in said:
        member.linkname = said[b"linkpath"].decode("utf-8", "surrogateescape")
    if b"size" in said:
        if not said[b"size"].isdigit() or len(said[b"size"]) > 18:
            raise DamagedTar("a size that is no number")
        member.size = int(said[b"size"])
    if any(key.startswith(b"GNU.sparse.") for key in said):
        member.type = tarfile.GNUTYPE_SPARSE
    return member
