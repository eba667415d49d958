"""The cluster state as a web process knows it: to be read by pages, for the sizes of cells, and for
the one plan that a web process makes itself, the forecast of a job.

    with shared_state.view() as w:
        ...

A web process keeps one and catches it up when a request needs it. The scheduler has its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock

from skep_platform.core import gc_control
from skep_platform.core.ports import CellSize
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.scheduling import planned, start_intervals
from skep_platform.scheduling.read_facts import gang_of
from skep_platform.scheduling.source import StateSource
from skep_platform.scheduling.tick import limits
from skep_scheduler import engine, usage
from skep_scheduler.model import Placement, Preemption
from skep_scheduler.state import ClusterState

_source = StateSource()
_lock = Lock()


@contextmanager
def view() -> Iterator[ClusterState]:
    """Lend the state, caught up, to one reader at a time. Read it, try and undo, keep nothing of
    it, and write to the database only afterwards."""
    with _lock, gc_control.paused():
        yield _source.catch_up()


def cell_sizes() -> dict[str, CellSize]:
    """Return the sizes of all cell types, as the cells are now."""
    with view() as known:
        built = known.built
        return {
            level.type: CellSize(
                _models(built.models, shape.leaf_type), level.leaves, shape.leaf_type
            )
            for shape in built.config.shapes.values()
            for level in shape.levels
        }


def nodes_of(vc: str) -> set[str]:
    """Return the nodes on which a virtual cluster has its cells, or may be given them."""
    with view() as known:
        return usage.nodes_of(known, vc)


def _models(models: Mapping[str, frozenset[str]], leaf_type: str) -> tuple[str, ...]:
    return tuple(sorted(models.get(leaf_type, ()))) or (leaf_type,)


def forecast(job: Job, roles: Sequence[TaskRole]) -> messages.Reason:
    """Return what the next tick would answer: "starts_now" or "would_preempt" with the nodes, or
    the reason that the job would wait for."""
    now = time.time()
    with view() as known:
        planned.load(known)
        answer = engine.explain(known, gang_of(job, roles, now), now, limits())
    if isinstance(answer, Placement):
        message = f"It would start at once on {_where(answer)}."
        return _reason("starts_now", message, answer, now)
    if isinstance(answer, Preemption):
        return _preempts(answer, now)
    details = dict(answer.details)
    model = roles[0].gpu_model if roles else ""
    if "expected_start" in details and (span := start_intervals.of_new_job(job, model)):
        details["expected_interval"] = list(span)
    return messages.reason(str(answer.code), answer.message, **details)


def _preempts(answer: Preemption, now: float) -> messages.Reason:
    count = len(answer.victims) + len(answer.leaving)
    jobs = "1 running job has" if count == 1 else f"{count} running jobs have"
    message = f"It would start on {_where(answer.placement)} once {jobs} left."
    return _reason("would_preempt", message, answer.placement, now + limits().leave_s)


def _reason(
    code: str, message: str, placement: Placement, expected_start: float
) -> messages.Reason:
    nodes = sorted(placement.nodes)
    return messages.reason(code, message, nodes=nodes, expected_start=expected_start)


def _where(placement: Placement) -> str:
    nodes = placement.nodes
    return nodes[0] if len(nodes) == 1 else f"{len(nodes)} nodes"
