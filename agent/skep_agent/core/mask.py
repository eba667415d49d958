"""Covers secrets in a stream of bytes with as many stars, so that offsets stay what they are.

However the stream is cut into pieces, the result is that of covering the whole at once. Only what
may be the beginning of a secret is held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# A longer secret is looked for in parts of this size: less is held back and compared.
PART_BYTES = 1024
_STAR = b"*"

Span = tuple[int, int]  # from, to


class Mask:
    """For one pass over a stream, from its first byte."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._parts = sorted({part for secret in secrets for part in _parts(secret.encode())})
        self._longest = max(map(len, self._parts), default=0)
        self._by_first: dict[int, list[bytes]] = {}
        for part in self._parts:
            self._by_first.setdefault(part[0], []).append(part)
        self._held = b""
        self._covered = 0  # bytes at the beginning of `_held`, by what began before them

    def feed(self, data: bytes) -> bytes:
        """What is certain by now, in order."""
        if not self._parts:
            return data
        seen = self._held + data
        spans = self._spans(seen)
        certain = len(seen) - self._doubtful(seen)
        # What begins in the rest is found again with what comes after it.
        reach = max((end for begin, end in spans if begin < certain), default=self._covered)
        self._held, self._covered = seen[certain:], max(reach - certain, 0)
        return _starred(seen, spans)[:certain]

    def flush(self) -> bytes:
        """The rest, at the end of the stream."""
        rest = _starred(self._held, self._spans(self._held))
        self._held, self._covered = b"", 0
        return rest

    def _spans(self, seen: bytes) -> list[Span]:
        """Of every occurrence; those of one part that overlap are one."""
        spans = [(0, self._covered)] if self._covered else []
        for part in self._parts:
            spans += _occurrences(part, seen)
        return spans

    def _doubtful(self, seen: bytes) -> int:
        """Length of the longest end of `seen` with which a longer part begins."""
        tail = seen[max(len(seen) - self._longest + 1, 0) :]
        for at, byte in enumerate(tail):
            for part in self._by_first.get(byte, ()):
                if len(tail) - at < len(part) and part.startswith(tail[at:]):
                    return len(tail) - at
        return 0


def _parts(secret: bytes) -> Iterator[bytes]:
    """Together they cover it wherever it stands."""
    for at in range(0, len(secret), PART_BYTES):
        begin = min(at, max(len(secret) - PART_BYTES, 0))
        yield secret[begin : begin + PART_BYTES]


def _occurrences(part: bytes, seen: bytes) -> Iterator[Span]:
    at = seen.find(part)
    while at >= 0:
        begin, end = at, at + len(part)
        while 0 <= (at := seen.find(part, at + 1)) <= end:
            end = at + len(part)
        yield begin, end


def _starred(seen: bytes, spans: Iterable[Span]) -> bytes:
    covered = None
    for begin, end in spans:
        covered = bytearray(seen) if covered is None else covered
        covered[begin:end] = _STAR * (end - begin)
    return seen if covered is None else bytes(covered)
