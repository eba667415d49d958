"""What happens to nodes while a simulation runs: they are drained, lost, and come back."""

from __future__ import annotations

import csv
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from pathlib import Path

from skep_scheduler.simulator.workload import WorkloadError

COLUMNS = ("at_s", "node", "action")


class NodeAction(StrEnum):
    """What happens to a node."""

    OPEN = "open"  # it takes jobs (again)
    CLOSE = "close"  # nothing new is placed there (cordon)
    DRAIN = "drain"  # besides, what runs there is asked to leave, and waits again
    LOSE = "lose"  # it is gone: what ran there waits again, and lost what it did in this attempt


@dataclass(frozen=True, slots=True)
class NodeChange:
    """An action on a node at a moment (seconds since the epoch)."""

    at: float
    node: str
    action: NodeAction


def read_node_changes(path: Path, nodes: Collection[str]) -> list[NodeChange]:
    """Return the changes of a CSV file with the columns `at_s,node,action`, times as in the file.

    Raises `WorkloadError` with file, line and column for one that cannot be read, and for a node
    that is none of `nodes`.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise WorkloadError(f"{path.name}: {error}", "bad_node_events") from error
    found = []
    for line, row in enumerate(rows, start=2):
        at, node, action = ((row.get(name) or "").strip() for name in COLUMNS)
        problem = ""
        try:
            if not isfinite(float(at)):
                raise ValueError
        except ValueError:
            problem = f"column at_s: {at!r} is not a number of seconds"
        if node not in nodes:
            problem = problem or f"column node: {node!r} is none of {', '.join(sorted(nodes))}"
        if action not in list(NodeAction):
            problem = problem or f"column action: {action!r} is none of {', '.join(NodeAction)}"
        if problem:
            raise WorkloadError(f"{path.name}, line {line}, {problem}", "bad_node_events")
        found.append(NodeChange(float(at), node, NodeAction(action)))
    return found
