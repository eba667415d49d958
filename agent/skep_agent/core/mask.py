"""Covers secrets in a stream of bytes with as many stars, so that offsets stay what they are.

However the stream is cut into pieces, the result is that of covering the whole at once: every byte
of every occurrence, overlapping ones too. Only what may be the beginning of a secret is held back.

The secrets of an attempt become one automaton (Aho and Corasick, 1975), which reads each byte once
and takes at most two steps for it, whatever the secrets and the stream are. Where no secret has
begun, a search of the standard library for the secrets' first bytes skips ahead.
"""

from __future__ import annotations

import re
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator

# A longer secret is looked for in parts of this size: less is held back.
PART_BYTES = 1024
# So many first bytes of the secrets are looked for before the automaton is asked.
_LOOK_BYTES = 4
_NONE = -1


class Automaton:
    """Finds where secrets end. It is made once for an attempt, and is read by several `Mask`s.

    A state stands for the longest end of what was read with which a secret begins. State 0 stands
    for nothing. States are numbered along the secrets, so that the first way on from state `s`
    leads to `s + 1`, and a secret of n bytes costs some 15 n bytes of memory.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        coded = {secret.encode("utf-8", "surrogatepass") for secret in secrets}
        parts = sorted({part for secret in coded for part in _parts(secret)})
        self.empty = not parts
        self._byte = array("h", [_NONE])  # by which a state is left to the next number
        self._more: dict[int, int] = {}  # other ways on: state * 256 + byte -> state
        self._depth = array("i", [0])  # length of what a state stands for
        self._longest = array("i", [0])  # length of the longest secret that ends in a state, or 0
        self._fallback = array("i", [0])  # where it goes on that a byte leads nowhere
        for part in parts:
            self._add(part)
        self._link()
        self._look, self._look_bytes = _look(parts)

    def _add(self, part: bytes) -> None:
        state = 0
        for byte in part:
            after = self._after(state, byte)
            if after == _NONE:
                after = len(self._byte)
                self._byte.append(_NONE)
                self._depth.append(self._depth[state] + 1)
                self._longest.append(0)
                self._fallback.append(0)
                if after == state + 1:
                    self._byte[state] = byte
                else:
                    self._more[state << 8 | byte] = after
            state = after
        self._longest[state] = len(part)

    def _after(self, state: int, byte: int) -> int:
        if self._byte[state] == byte:
            return state + 1
        return self._more.get(state << 8 | byte, _NONE)

    def _link(self) -> None:
        """Set the fallbacks, in the order of depth, and what else ends where a secret ends."""
        branches: dict[int, list[tuple[int, int]]] = {}
        for key, state in self._more.items():
            branches.setdefault(key >> 8, []).append((key & 255, state))
        queue = deque([0])
        while queue:
            state = queue.popleft()
            ways = list(branches.get(state, ()))
            if self._byte[state] != _NONE:
                ways.append((self._byte[state], state + 1))
            for byte, after in ways:
                if state:
                    back = self._fallback[state]
                    while (found := self._after(back, byte)) == _NONE and back:
                        back = self._fallback[back]
                    self._fallback[after] = max(found, 0)
                self._longest[after] = self._longest[after] or self._longest[self._fallback[after]]
                queue.append(after)

    def read(self, state: int, data: bytes, ends: list[tuple[int, int]]) -> tuple[int, int]:
        """Read `data` from `state` on. Appends to `ends`, in order, the offset after each byte at
        which a secret ends, and the length of the longest that does. Returns the new state, and
        the number of steps taken."""
        first, more, fallback = self._byte, self._more, self._fallback
        longest = self._longest
        at, size, steps = 0, len(data), 0
        while at < size:
            if not state:
                # What the search cannot decide, for it ends before the look does, is read.
                found = self._look.search(data, at)
                at = found.start() if found else max(at, size - self._look_bytes + 1)
                if at >= size:
                    break
            byte = data[at]
            at += 1
            while True:
                steps += 1
                if first[state] == byte:
                    state += 1
                    break
                after = more.get(state << 8 | byte)
                if after is not None:
                    state = after
                    break
                if not state:
                    break
                state = fallback[state]
            if longest[state]:
                ends.append((at, longest[state]))
        return state, steps

    def open(self, state: int) -> int:
        """Return how many of the bytes read last may be the beginning of a secret that is longer
        than they are."""
        while state and self._byte[state] == _NONE:  # a whole secret, and no other goes on from it
            state = self._fallback[state]
        return self._depth[state]


class Mask:
    """One pass over a stream, from its first byte. `steps` counts the work done."""

    def __init__(self, secrets: Automaton | Collection[str]) -> None:
        self._automaton = secrets if isinstance(secrets, Automaton) else Automaton(secrets)
        self._state = 0
        self._held = b""
        self._spans: list[tuple[int, int]] = []  # to be covered in `_held`: from, to
        self.steps = 0

    @property
    def idle(self) -> bool:
        """There is nothing to cover."""
        return self._automaton.empty

    def feed(self, data: bytes) -> bytes:
        """Return what is certain by now, in order."""
        if self.idle:
            return data
        seen, base = self._held + data if self._held else data, len(self._held)
        ends: list[tuple[int, int]] = []
        self._state, steps = self._automaton.read(self._state, data, ends)
        self.steps += steps
        spans = _merged(self._spans, ((base + end - size, base + end) for end, size in ends))
        return self._take(seen, spans, len(seen) - self._automaton.open(self._state))

    def flush(self) -> bytes:
        """Return the rest, at the end of the stream."""
        self._state = 0
        return self._take(self._held, self._spans, len(self._held))

    def _take(self, seen: bytes, spans: list[tuple[int, int]], certain: int) -> bytes:
        self._held = seen[certain:]
        self._spans = [(max(b - certain, 0), e - certain) for b, e in spans if e > certain]
        if not spans:
            return seen if certain == len(seen) else seen[:certain]
        covered = bytearray(seen[:certain])
        for begin, end in spans:
            end = min(end, certain)
            if begin < end:
                covered[begin:end] = b"*" * (end - begin)
        return bytes(covered)


def _parts(secret: bytes) -> Iterator[bytes]:
    """Cut a secret so that the parts together cover it wherever it stands."""
    for at in range(0, len(secret), PART_BYTES):
        begin = min(at, max(len(secret) - PART_BYTES, 0))
        yield secret[begin : begin + PART_BYTES]


def _look(parts: Collection[bytes]) -> tuple[re.Pattern[bytes], int]:
    """Return a pattern that is found wherever a part begins, and its length. It has no choice and
    no repetition, so a search takes at most as many steps for each byte."""
    size = min([_LOOK_BYTES, *map(len, parts)])
    classes = ({part[at] for part in parts} for at in range(size))
    pattern = b"".join(
        b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(bytes_)) + b"]" for bytes_ in classes
    )
    return re.compile(pattern), size


def _merged(spans: list[tuple[int, int]], more: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that touch. `more` come in the order of their ends, after those of `spans`."""
    merged = list(spans)
    for begin, end in more:
        while merged and merged[-1][1] >= begin:
            begin = min(begin, merged.pop()[0])
        merged.append((begin, end))
    return merged
