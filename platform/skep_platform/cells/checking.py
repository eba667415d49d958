"""What a change of claims, pins or layout would do: whether it fits, what would be left, and which
running jobs would notice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from skep_platform.cells import view
from skep_platform.cells.assignment import Error
from skep_platform.core import garbage
from skep_scheduler import inventory
from skep_scheduler.cells.reconfigure import reconfigure
from skep_scheduler.cells.state import State
from skep_scheduler.facts import Inventory
from skep_scheduler.world import World, owner_of

Change = Callable[[Inventory], Inventory]
MAX_PROBLEMS = 200
Verdict = dict[str, Any]  # as REST tells it


def check(revision: int, change: Change) -> Verdict:
    """What the present inventory with this change would mean. The scheduler's world will do the
    same when it hears of it; this process's stays as it is."""
    with view.current() as now:
        before, built = now.inventory, now.world.built
    with garbage.paused():  # takes long: others may look meanwhile
        checked = inventory.check(built, change(before))
    with view.current() as now:
        after, _ = reconfigure(now.state, checked.built.config)
        was, will = _downgraded(now.state), _downgraded(after)
        downgraded = list(_jobs(now.world, will, was))
        restored = list(_jobs(now.world, was, will))
    return {
        **refused(revision, [shown(error) for error in checked.errors]),
        "left": [asdict(left) for left in checked.left],
        "downgraded": downgraded,
        "restored": restored,
        "shortfalls": [view.show(short) for short in checked.shortfalls],
        "problems": [asdict(problem) for problem in checked.built.problems[:MAX_PROBLEMS]],
    }


def refused(revision: int, errors: Sequence[Verdict]) -> Verdict:
    """With these errors, if there are any; and nothing else to tell."""
    return {
        "revision": revision,
        "fits": not errors,
        "errors": list(errors),
        "left": [],
        "downgraded": [],
        "restored": [],
        "shortfalls": [],
        "problems": [],
    }


def shown(error: Error | inventory.Finding) -> Verdict:
    return {
        "code": error.code,
        "message": error.message,
        "path": error.path,
        "details": dict(error.details),
    }


def _downgraded(state: State) -> dict[str, str]:
    """The guaranteed jobs that run opportunistically, and why."""
    return {
        owner_of(group): group.downgraded_by
        for group in state.groups.values()
        if group.downgraded_by is not None
    }


def _jobs(world: World, these: dict[str, str], but: dict[str, str]) -> Iterator[Verdict]:
    for job_id in sorted(these.keys() - but.keys()):
        gang = world.running[job_id].gang
        message = f"{gang.vc} would not own the cells that it runs on."
        details = {"vc": gang.vc, "cause": these[job_id]}
        yield {
            "job_id": job_id,
            "name": gang.name,
            "virtual_cluster": gang.vc,
            "reason": {"code": "cells_changed", "message": message, "details": details},
        }
