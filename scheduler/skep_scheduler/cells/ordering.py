"""What decides between cells that are equally good.

The scheduler orders by rank, so that its plans follow from the facts. The replay of recorded cases
has another ordering, in which history decides, as it does in HiveD.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from skep_scheduler.cells.node_order import NodeOrder
from skep_scheduler.cells.pool import FreeList, Pool
from skep_scheduler.cells.tree import Cell


class Ordering(Protocol):
    """Makes the lists whose order decides."""

    def free_list(self) -> FreeList: ...

    def node_order(self, roots: Sequence[Cell], nodes: Sequence[Cell], across: bool) -> NodeOrder:
        """Return the packing order of some nodes; see `NodeOrder`."""
        ...

    def arrange(self, pool: Pool) -> None:
        """Arrange the free lists of a new pool, for which all claims are made and from which all
        pinned cells are taken."""
        ...


class ByRank:
    """Orders by the position of cells in the configuration."""

    def free_list(self) -> FreeList:
        return FreeList()

    def node_order(self, roots: Sequence[Cell], nodes: Sequence[Cell], across: bool) -> NodeOrder:
        return NodeOrder(roots, nodes, across)

    def arrange(self, pool: Pool) -> None:
        """Do nothing: the lists are in order at any time."""


BY_RANK = ByRank()
