"""What cell types are called when people read of them."""

from __future__ import annotations

from typing import TypedDict

from skep_scheduler.cells.shape import LEAF, Config, Level, Shape

_KINDS = ("socket", "switch", "nvlink", "rack", "fabric")
_FRACTIONS = {2: "half", 3: "third", 4: "quarter"}


class Description(TypedDict):
    """`kind`: gpu, part, switch, nvlink, socket, node, rack, fabric, or group for others."""

    gpus: int
    kind: str
    words: str


def describe(config: Config, cell_type: str) -> Description:
    """Return for example {"gpus": 4, "kind": "socket", "words": "half node of 4 A100"}."""
    for _, shape in sorted(config.shapes.items()):
        level = shape.level_of.get(cell_type)
        if level is not None:
            return describe_level(shape, level)
    return Description(gpus=0, kind="unknown", words=cell_type)


def describe_level(shape: Shape, number: int) -> Description:
    level = shape.at(number)
    return Description(gpus=level.leaves, kind=_kind(level), words=_words(shape, level))


def _kind(level: Level) -> str:
    if level.is_node:
        return "node"
    if level.level == LEAF:
        return "gpu"
    last = level.type.replace("_", "-").rsplit("-", 1)[-1].lower()
    if last in _KINDS:
        return last
    return "part" if level.below_node else "group"


def _words(shape: Shape, level: Level) -> str:
    if level.is_node:
        return f"node of {level.leaves} {shape.leaf_type}"
    if level.level == LEAF:
        return shape.leaf_type
    if level.below_node:
        return _part(shape, level)
    return _group(shape, level)


def _part(shape: Shape, level: Level) -> str:
    parts = shape.cells_in(shape.node_level, level.level)
    if parts == 1:
        return f"whole node of {level.leaves} {shape.leaf_type}"
    fraction = _FRACTIONS.get(parts, f"1/{parts}")
    return f"{fraction} node of {level.leaves} {shape.leaf_type}"


def _group(shape: Shape, level: Level) -> str:
    below = _words(shape, shape.at(level.level - 1))
    first, _, rest = below.partition(" ")
    plural = first if level.width == 1 else f"{first}s"
    return f"{_kind(level)} of {level.width} {plural} {rest}"
