"""A burn-in of one GPU: its memory, its arithmetic, and the way between it and the machine.

What is tried, for a time that the caller chooses and at least once each:

- Memory: nearly all that is free is filled with a pattern, then read back, once for each pattern:
  all bits clear, all set, two checkerboards, and two in which each word depends on its address, so
  that swapped address lines show.
- Arithmetic: all multiprocessors compute the same values in single precision and integers; first a
  few that the machine computes, too, then many, of which each must equal the first of its kind.
- Transfer: 64 MiB of random words to the GPU and back.

It does not load tensor cores or NVLink: DCGM and nccl-tests do.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from ctypes import c_uint, c_uint64
from importlib import resources

from skep_agent.accelerators.cuda import OUT_OF_MEMORY, CudaError, Device

WORD = 4  # bytes
MIB = 1024 * 1024
BLOCK = 512 * MIB  # bytes of the largest blocks: kernels count words with 32 bits
SMALLEST = MIB
THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8
KINDS = 1024  # different values that `compute` makes
KNOWN_ROUNDS = 32
LAUNCH_S = 0.1  # displays stand still, and drivers end what takes seconds
MOST_ROUNDS = 1 << 24
TRANSFER = 64 * MIB
PATTERNS = (  # (factor, mask) of `fill`
    ("zeros", 0, 0),
    ("ones", 0, 0xFFFFFFFF),
    ("checkerboard 5", 0, 0x55555555),
    ("checkerboard A", 0, 0xAAAAAAAA),
    ("addresses", 2654435761, 0),
    ("inverted addresses", 2654435761, 0xFFFFFFFF),
)


class BadGpu(Exception):
    """The GPU does not do what it should; the text says what."""


class BurnIn:
    """One run on one GPU.

    tested: bytes of memory that are filled and read in each pass
    total: bytes of memory that the GPU has
    passes: of memory and arithmetic, so far
    operations: of floating point in single precision, so far
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.tested = self.passes = 0
        self.operations = 0.0
        self.total = device.memory()[1]
        ptx = resources.files("skep_agent").joinpath("burn_in.ptx").read_text()
        self._kernels = device.load(ptx)
        # As many blocks as all multiprocessors run at once: more threads than `KINDS`.
        self._grid = device.multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        self._threads = self._grid * THREADS
        self._rounds = KNOWN_ROUNDS
        self._found = device.allocate(2 * WORD)
        self._out = device.allocate(self._threads * WORD)
        self._blocks: list[tuple[int, int]] = []  # (address, words)
        self._load_all()

    def run(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        """Try the GPU for so long, and for one pass at least.

        Raises `BadGpu`, and `CudaError` where the driver refuses, as it does after an error of the
        memory that ECC did not correct.
        """
        until = clock() + seconds
        self._allocate()
        self._transfer()
        self._known_values()
        while not self.passes or clock() < until:
            began = clock()
            for pattern in PATTERNS:
                self._memory(*pattern)
            as_long = 2 * clock() - began
            self._arithmetic(clock)
            while clock() < min(as_long, until):
                self._arithmetic(clock)
            self.passes += 1

    def _load_all(self) -> None:
        """Run each kernel over no words, so that what it needs of the memory is taken before the
        rest is."""
        at, none = c_uint64(self._found), c_uint(0)
        self._launch("fill", at, none, none, none)
        self._launch("check", at, none, none, none, at)
        self._launch("compute", at, none, none)
        self._launch("compare", at, none, at)

    def _allocate(self) -> None:
        """Take the free memory in large blocks, then in smaller ones."""
        size = BLOCK
        while size >= SMALLEST:
            try:
                self._blocks.append((self.device.allocate(size), size // WORD))
                self.tested += size
            except CudaError as error:
                if error.code != OUT_OF_MEMORY:
                    raise
                size //= 2
        if not self._blocks:
            raise BadGpu("No memory of it is free: another process holds it.")

    def _transfer(self) -> None:
        address, words = self._blocks[0]
        sent = os.urandom(min(TRANSFER, words * WORD))
        self.device.write(address, sent)
        if self.device.read(address, len(sent)) != sent:
            raise BadGpu(f"Transfer: {len(sent)} bytes came back changed from a copy to it.")

    def _memory(self, pattern: str, factor: int, mask: int) -> None:
        values = c_uint(factor), c_uint(mask)
        for address, words in self._blocks:
            self._launch("fill", c_uint64(address), c_uint(words), *values)
        self._forget()
        for number, (address, words) in enumerate(self._blocks):
            self._launch("check", c_uint64(address), c_uint(words), *values, c_uint64(self._found))
            count, first = self._words(self._found, 2)
            if count:
                at = sum(size * WORD for _, size in self._blocks[:number]) + first * WORD
                raise BadGpu(
                    f"Memory: {count} words of {words} were not as written (pattern {pattern}), "
                    f"the first one {at} bytes behind the start of what was tested."
                )

    def _known_values(self) -> None:
        """Compare a few rounds with what this machine computes."""
        self._compute(KNOWN_ROUNDS)
        right = [known_value(kind, KNOWN_ROUNDS) for kind in range(KINDS)]
        found = self._words(self._out, KINDS)
        wrong = sum(one != other for one, other in zip(found, right, strict=True))
        if wrong:
            raise BadGpu(f"Arithmetic: {wrong} of {KINDS} known values were computed wrongly.")

    def _arithmetic(self, clock: Callable[[], float]) -> None:
        """Compute in rounds that take a while, and compare the multiprocessors' values."""
        began = clock()
        self._compute(self._rounds)
        if clock() - began < LAUNCH_S / 2 and self._rounds < MOST_ROUNDS:
            self._rounds *= 2
        self._forget()
        out, found = c_uint64(self._out), c_uint64(self._found)
        self._launch("compare", out, c_uint(self._threads), found)
        count, first = self._words(self._found, 2)
        if count:
            raise BadGpu(
                f"Arithmetic: {count} of {self._threads} threads computed another value than the "
                f"others, the first one in block {first // THREADS} of {self._grid}."
            )

    def _compute(self, rounds: int) -> None:
        self._launch("compute", c_uint64(self._out), c_uint(self._threads), c_uint(rounds))
        self.operations += 6.0 * rounds * self._threads

    def _forget(self) -> None:
        self.device.write(self._found, struct.pack("II", 0, 0xFFFFFFFF))

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"{count}I", self.device.read(address, count * WORD))

    def _launch(self, kernel: str, *parameters: c_uint64 | c_uint) -> None:
        self._kernels.run(kernel, self._grid, THREADS, *parameters)


def known_value(kind: int, rounds: int) -> int:
    """Return what `compute` makes of a kind in so many rounds. Each product and difference of two
    numbers in single precision is exact, or rounded once, in double precision."""
    x, y = _single((kind + 1) / 2048), _single((kind + 1) / 4096)
    factor, word = _single(3.99), kind
    for _ in range(rounds):
        x = _single(_single(x * _single(1 - x)) * factor)
        y = _single(_single(y * _single(1 - y)) * factor)
        word = (word * 1664525 + 1013904223) & 0xFFFFFFFF
    return word ^ _bits(x) ^ _bits(y)


def _single(value: float) -> float:
    return float(struct.unpack("f", struct.pack("f", value))[0])


def _bits(value: float) -> int:
    return int(struct.unpack("I", struct.pack("f", value))[0])
