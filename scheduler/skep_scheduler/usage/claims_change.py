"""Which running gangs a change of claims, pins or layout would touch."""

from __future__ import annotations

from dataclasses import dataclass

from skep_scheduler.cells.reconfigure import reconfigure
from skep_scheduler.cells.shape import Config
from skep_scheduler.cells.state import CellState
from skep_scheduler.state import ClusterState, owner_of


@dataclass(frozen=True, slots=True)
class ClaimsChange:
    """Gangs that would run opportunistically from then on, and guaranteed again: by id, with the
    cause."""

    downgraded: dict[str, str]
    restored: dict[str, str]


def claims_change(cluster: ClusterState, config: Config) -> ClaimsChange:
    """Return what the cells of `config` would change for running gangs. Nothing is changed."""
    after, _ = reconfigure(cluster.cells, config)
    was, will = _downgraded(cluster.cells), _downgraded(after)
    return ClaimsChange(
        {gang: will[gang] for gang in sorted(will.keys() - was.keys())},
        {gang: was[gang] for gang in sorted(was.keys() - will.keys())},
    )


def _downgraded(state: CellState) -> dict[str, str]:
    return {
        owner_of(group): group.downgraded_by
        for group in state.groups.values()
        if group.downgraded_by is not None
    }
