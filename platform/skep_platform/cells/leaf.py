"""What a single GPU is doing."""

from __future__ import annotations

from skep_scheduler.cells.tree import Physical
from skep_scheduler.world import owner_of


def leaf_state(leaf: Physical) -> str:
    """free, used, reserved (for a preemptor whose victims may still run), lent or bad."""
    if leaf.faults:
        return "bad"
    if leaf.holder is not None:
        return "reserved"
    if leaf.user is None:
        return "free"
    return "lent" if leaf.user.opportunistic else "used"


def user_of(leaf: Physical) -> str | None:
    """The id of the job that runs there, or for which it is reserved."""
    group = leaf.holder or leaf.user
    return owner_of(group) if group is not None else None
