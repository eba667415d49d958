"""What a placer answers: places for the tasks of a gang, with what that does to other gangs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skep_scheduler.cells.answer import Refusal
from skep_scheduler.model import Code, TaskPlacement

Task = tuple[int, int]  # position of the member in the gang, index within the role


@dataclass(slots=True)
class Found:
    """Places for tasks (by the position of the member), and by gang id what is done to others.

    victims: they must leave first, with the GPUs that are wanted of them
    overcommitters: they must leave first, too: "cpu" or "memory" is wanted of them
    downgrades, cancels: see `cells.answer.CellPlacement`
    """

    tasks: list[tuple[int, TaskPlacement]] = field(default_factory=list)
    victims: dict[str, list[str]] = field(default_factory=dict)
    overcommitters: dict[str, str] = field(default_factory=dict)
    downgrades: dict[str, None] = field(default_factory=dict)
    cancels: dict[str, None] = field(default_factory=dict)


class Short(Exception):
    """Nodes that lack CPU or memory for what is to go there; none: every node does."""

    def __init__(self, nodes: Mapping[str, Code]) -> None:
        super().__init__()
        self.nodes = nodes


Answer = Found | Refusal
