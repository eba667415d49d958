"""Which GPUs of a node belong together: NVLink islands, PCIe switches, sockets, halves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from skep_scheduler.inventory.names import NVLINK, SOCKET, SWITCH

Topology = Mapping[str, Mapping[str, str]]
Matrix = tuple[tuple[str, ...], ...]

# From far to near. Each kind has what nearer ones have too, so that proper groups are nested.
_JOINED_BY = {
    SOCKET: ("NV", "PIX", "PXB", "PHB", "NODE"),
    SWITCH: ("NV", "PIX", "PXB"),
    NVLINK: ("NV",),
}


@dataclass(frozen=True, slots=True)
class Islands:
    """`sizes` are the GPUs of a group of each kind, falling; the kind is "" for a mere half.
    `order` has the positions of all devices, so that every group is a run of it."""

    order: tuple[int, ...]
    sizes: tuple[tuple[int, str], ...]


def find(devices: Sequence[str], topology: Topology) -> Islands:
    """Groups that are not of equal size, or where some pair is not joined, are left out."""
    if not topology:
        return _find((("",) * len(devices),) * len(devices))
    return _find(tuple(tuple(_word(topology, a, b) for b in devices) for a in devices))


def _word(topology: Topology, a: str, b: str) -> str:
    word = topology.get(a, {}).get(b) or topology.get(b, {}).get(a) or ""
    return "NV" if word.startswith("NV") else word


@lru_cache(maxsize=4096)
def _find(matrix: Matrix) -> Islands:
    """Nodes built alike ask the same, hence the cache."""
    groups: dict[int, tuple[str, list[list[int]]]] = {}
    for kind in _JOINED_BY:
        found = _groups(matrix, kind)
        if found is not None:
            groups[len(found[0])] = (kind, found)  # the nearest kind names what are the same groups
    order = list(range(len(matrix)))
    for size in sorted(groups):
        place = {device: i for i, group in enumerate(groups[size][1]) for device in group}
        order.sort(key=place.__getitem__)
    sizes = [(size, groups[size][0]) for size in sorted(groups, reverse=True)]
    return Islands(tuple(order), tuple(_halved(len(matrix), sizes)))


def _groups(matrix: Matrix, kind: str) -> list[list[int]] | None:
    """All devices in equal groups of more than one, but not in a single one."""
    joined = [
        frozenset(b for b, word in enumerate(row) if a == b or word in _JOINED_BY[kind])
        for a, row in enumerate(matrix)
    ]
    if any(joined[b] != mine for mine in joined for b in mine):
        return None
    groups = [sorted(group) for group in dict.fromkeys(joined)]
    sizes = {len(group) for group in groups}
    if len(sizes) != 1 or sizes & {1, len(matrix)}:
        return None
    return groups


def _halved(whole: int, sizes: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """With halves in between, wherever a group has an even number of parts above two."""
    found: list[tuple[int, str]] = []
    above = whole
    for size, kind in [*sizes, (1, "")]:
        while above // size > 2 and above // size % 2 == 0:
            above //= 2
            found.append((above, ""))
        above = size
        if size > 1:
            found.append((size, kind))
    return found
