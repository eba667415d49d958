"""What a single GPU is doing, and for whom."""

from __future__ import annotations

from skep_scheduler.cells.tree import Physical
from skep_scheduler.state import owner_of


def gpu_state(leaf: Physical) -> str:
    """Return `free`, `used`, `reserved` (for a preemptor whose victims may still run), `lent` (to
    an opportunistic gang) or `bad`."""
    if leaf.faults:
        return "bad"
    if leaf.holder is not None:
        return "reserved"
    if leaf.user is None:
        return "free"
    return "lent" if leaf.user.opportunistic else "used"


def gang_on(leaf: Physical) -> str | None:
    """Return the id of the gang that runs on a GPU, or for which it is reserved."""
    group = leaf.holder or leaf.user
    return owner_of(group) if group is not None else None
