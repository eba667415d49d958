"""Bytes of logs as text."""

from __future__ import annotations

import codecs
from typing import Any


class Decoder:
    """UTF-8 text of one stream read chunk after chunk: a character cut by a chunk's border comes
    with the second chunk. What is not UTF-8 becomes U+FFFD."""

    def __init__(self, at_start: bool) -> None:
        self._codec: Any = codecs.getincrementaldecoder("utf-8")("replace")
        self._inside = not at_start  # the first bytes may be the rest of a character

    def decode(self, data: bytes, *, last: bool = False) -> str:
        if self._inside:
            data, self._inside = _skip_rest(data), False
        return self._codec.decode(data, last)


def decode(data: bytes, *, at_start: bool = True) -> str:
    return Decoder(at_start).decode(data, last=True)


def _skip_rest(data: bytes) -> bytes:
    rest = 0
    while rest < min(3, len(data)) and data[rest] & 0xC0 == 0x80:
        rest += 1
    return data[rest:]
