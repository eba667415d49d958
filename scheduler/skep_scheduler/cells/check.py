"""What is wrong with a request itself, whatever the cluster is doing."""

from __future__ import annotations

from collections.abc import Iterator

from skep_scheduler.cells.answer import Refusal
from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.shape import MAX_PRIORITY, OPPORTUNISTIC
from skep_scheduler.cells.state import CellState


def check(state: CellState, gang: GangRequest) -> Refusal | None:
    """Return the first problem found, or None."""
    return next(_problems(state, gang), None)


def _problems(state: CellState, gang: GangRequest) -> Iterator[Refusal]:
    if not gang.name:
        yield _invalid("gang_without_name", "The gang has no name.")
    if not OPPORTUNISTIC <= gang.priority <= MAX_PRIORITY:
        yield _invalid(
            "bad_priority",
            f"Priority {gang.priority} is not within {OPPORTUNISTIC} to {MAX_PRIORITY}.",
            priority=gang.priority,
        )
    yield from _sizes(gang)
    if gang.opportunistic and not gang.vc and gang.pin is None:
        yield from _type(state, gang)  # it asks for anybody's cells
    elif gang.vc not in state.vcs:
        yield _invalid("unknown_vc", f"There is no virtual cluster {gang.vc!r}.", vc=gang.vc)
    elif gang.pin is not None:
        yield from _pin(state, gang)
    else:
        yield from _type(state, gang)


def _sizes(gang: GangRequest) -> Iterator[Refusal]:
    if not gang.members:
        yield _invalid("empty_gang", "The gang has no members.")
    for member in gang.members:
        if member.tasks <= 0 or member.cells <= 0:
            yield _invalid(
                "bad_size",
                f"A member asks for {member.tasks} tasks of {member.cells} cells; both must be at "
                "least 1.",
                tasks=member.tasks,
                cells=member.cells,
            )


def _pin(state: CellState, gang: GangRequest) -> Iterator[Refusal]:
    if gang.pin not in state.vcs[gang.vc].pins:
        yield _invalid(
            "unknown_pinned_cell",
            f"Virtual cluster {gang.vc} has no pinned cell {gang.pin!r}.",
            vc=gang.vc,
            pinned_cell=gang.pin,
        )
    if gang.opportunistic:
        yield _invalid(
            "pinned_cell_opportunistic",
            f"An opportunistic gang cannot ask for pinned cell {gang.pin!r}.",
            pinned_cell=gang.pin,
        )


def _type(state: CellState, gang: GangRequest) -> Iterator[Refusal]:
    if gang.leaf_type is None:
        return
    chains = [c for c, pool in state.chains.items() if pool.shape.leaf_type == gang.leaf_type]
    if not chains:
        yield _invalid(
            "unknown_leaf_type",
            f"The cluster has no {gang.leaf_type}.",
            leaf_type=gang.leaf_type,
        )
    owned = state.vcs[gang.vc].chains if not gang.opportunistic else {}
    if not gang.opportunistic and not any(chain in owned for chain in chains):
        yield _invalid(
            "leaf_type_not_owned",
            f"Virtual cluster {gang.vc} owns no {gang.leaf_type}.",
            vc=gang.vc,
            leaf_type=gang.leaf_type,
        )


def _invalid(code: str, message: str, **details: object) -> Refusal:
    return Refusal(code, message, details, invalid=True)
