"""What virtual clusters own, use, lend and cannot use, and what a change would touch.

Everything that people are shown of cells is computed here and nowhere else: callers get plain data,
never cells.
"""

from __future__ import annotations

from skep_scheduler.usage.accounting import (
    BAD,
    CAUSES,
    CORDONED,
    OFFLINE,
    Unavailable,
    Use,
    Uses,
    measure,
    unavailable_in,
    unavailable_of,
)
from skep_scheduler.usage.claims_change import ClaimsChange, claims_change
from skep_scheduler.usage.drain_impact import drain_impact
from skep_scheduler.usage.physical_cells import (
    ChainCounts,
    PhysicalCell,
    UnknownCellError,
    chains,
    nodes_of,
    physical_cells,
)
from skep_scheduler.usage.virtual_cells import (
    OwnedType,
    VirtualCell,
    VirtualChain,
    borrowed_gpus,
    virtual_cells,
)

__all__ = [
    "BAD",
    "CAUSES",
    "CORDONED",
    "OFFLINE",
    "ChainCounts",
    "ClaimsChange",
    "OwnedType",
    "PhysicalCell",
    "Unavailable",
    "UnknownCellError",
    "Use",
    "Uses",
    "VirtualCell",
    "VirtualChain",
    "borrowed_gpus",
    "chains",
    "claims_change",
    "drain_impact",
    "measure",
    "nodes_of",
    "physical_cells",
    "unavailable_in",
    "unavailable_of",
    "virtual_cells",
]
