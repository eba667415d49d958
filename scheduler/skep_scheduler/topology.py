"""Which GPUs within a node: the set that lies closest together.

Levels are the words of `nvidia-smi topo -m`. A set is judged by its farthest pair, then by the sum
over its pairs, then by how little it tears from the GPUs that stay free, then by UUID order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from itertools import combinations
from math import comb

LEVELS = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")  # from close to far
MAX_SETS = 2_000  # all sets of up to so many are tried; 6 of 12 are 924
_STEP = 100  # between levels; the number of NVLinks counts within its level

Matrix = tuple[tuple[int, ...], ...]


@cache
def distance(word: str | None) -> int:
    """From NVLink with many links up to SYS; a word that is missing or unknown counts as SYS."""
    if word is not None and word.startswith("NV"):
        links = int(word[2:]) if word[2:].isdigit() else 1
        return _STEP // 2 - min(links, _STEP // 2)
    level = LEVELS.index(word) if word in LEVELS else len(LEVELS) - 1
    return level * _STEP + _STEP // 2


def closest(
    free: Sequence[str], count: int, topology: Mapping[str, Mapping[str, str]]
) -> tuple[str, ...]:
    """`count` of the `free` UUIDs (sorted), in their order; the first ones without a topology."""
    if count >= len(free) or not topology:
        return tuple(free[:count])
    matrix = tuple(tuple(_between(a, b, topology) for b in free) for a in free)
    return tuple(free[i] for i in _closest(matrix, count))


def _between(a: str, b: str, topology: Mapping[str, Mapping[str, str]]) -> int:
    if a == b:
        return 0
    word = topology.get(a, {}).get(b)
    return distance(word if word is not None else topology.get(b, {}).get(a))


@lru_cache(maxsize=16_384)
def _closest(matrix: Matrix, count: int) -> tuple[int, ...]:
    """Positions of the best set. Nodes built alike ask the same, hence the cache."""
    rows = [sum(row) for row in matrix]

    def cost(chosen: tuple[int, ...]) -> tuple[int, int, int]:
        pairs = [matrix[i][j] for i, j in combinations(chosen, 2)]
        inside = sum(pairs)
        torn = sum(rows[i] for i in chosen) - 2 * inside
        return max(pairs, default=0) // _STEP, inside, -torn

    if comb(len(matrix), count) <= MAX_SETS:
        return min(combinations(range(len(matrix)), count), key=cost)
    grown = [_grow(matrix, seed, count) for seed in range(len(matrix))]
    return min(grown, key=lambda chosen: (cost(chosen), chosen))


def _grow(matrix: Matrix, seed: int, count: int) -> tuple[int, ...]:
    """From one GPU on, always add the one whose farthest link into the set is the shortest."""
    chosen, others = [seed], set(range(len(matrix))) - {seed}
    while len(chosen) < count:
        links = {i: [matrix[i][j] for j in chosen] for i in others}
        nearest = min(others, key=lambda i: (max(links[i]) // _STEP, sum(links[i]), i))
        chosen.append(nearest)
        others.remove(nearest)
    return tuple(sorted(chosen))
