"""All reads of cells for people: the cluster state as this process knows it, which is never
changed; all cell types with their numbers, and the physical cells; the cells of a virtual cluster,
by type and as trees, and how it used them over time; and its queue as the scheduler last stored it.

An admin sees everything; others see the physical cells that their virtual clusters have a place in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import connection
from django.db.models import (
    BooleanField,
    ExpressionWrapper,
    F,
    Func,
    IntegerField,
    Q,
    QuerySet,
    UUIDField,
    Value,
)
from django.utils import timezone
from rest_framework.request import Request

from skep_platform.cells.serializers import QueuedJobSerializer
from skep_platform.cluster.services import cell_layout
from skep_platform.core import paging
from skep_platform.core.errors import NotFound
from skep_platform.jobs import queries
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JOB
from skep_platform.scheduling import shared_state
from skep_platform.scheduling.planned import timeline_of
from skep_platform.scheduling.tick import limits
from skep_platform.tenancy import claims
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler import inventory, usage
from skep_scheduler.state import ClusterState

Row = dict[str, Any]  # a cell as REST shows it


@contextmanager
def current_state() -> Iterator[ClusterState]:
    """Lend the state to one reader at a time: keep nothing of it."""
    with shared_state.view() as state:
        state.reconcile()
        yield state


def gpu_model(state: ClusterState, leaf_type: str) -> str:
    """Return the model of a leaf cell type as nodes report it; one of them where they differ."""
    models = state.built.models.get(leaf_type, frozenset())
    return min(models - {leaf_type}, default=leaf_type)


def describe_type(state: ClusterState, cell_type: str) -> Row:
    """Return {"kind", "words"}: what people call a cell type."""
    described = inventory.describe(state.built.config, cell_type)
    return {"kind": described["kind"], "words": described["words"]}


def shortfall_row(short: inventory.Shortfall) -> Row:
    """Return how many of the claimed cells the cluster has, as REST shows it."""
    return {
        "virtual_cluster": short.vc,
        "chain": short.chain,
        "cell_type": short.cell_type,
        "asked": short.asked,
        "got": short.got,
    }


def fill_in_names(user: Any, cells: Iterable[Row]) -> None:
    """Replace the `job` of each leaf, an id, by {id, name}; by null for a job that `user` may not
    see. One query."""
    leaves = [leaf for cell in cells for leaf in _with_job(cell)]
    names = jobs.names_for(user, {leaf["job"] for leaf in leaves})
    known = {pk: {"id": pk, "name": name} for pk, name in names.items()}
    for leaf in leaves:
        leaf["job"] = known.get(leaf["job"])


def _with_job(cell: Row) -> Iterator[Row]:
    if cell.get("job"):
        yield cell
    for child in cell["children"] or ():
        yield from _with_job(child)


def overview(user: Any) -> dict[str, Any]:
    """Return all cell types, their numbers of cells, pinned cells, and the use of GPUs."""
    layout, pins = cell_layout(), claims.read()[1]
    visible = set(tenancy.visible_to(user).values_list("name", flat=True))
    admin = tenancy.is_admin(user)
    with current_state() as state:
        chains = [_physical_chain(state, chain, visible, admin) for chain in usage.chains(state)]
        uses = usage.measure(state)
    return {
        "revision": layout.revision,
        "source": "file" if layout.text else "inventory",
        "chains": chains,
        "pins": [
            {
                "name": pin.name,
                "cell_type": pin.cell_type,
                "node": pin.node,
                "device": pin.device,
                "virtual_cluster": pin.vc or None,
            }
            for pin in pins
            if admin or pin.vc in visible
        ],
        "gpus": [
            {"virtual_cluster": vc, "gpu_model": model} | asdict(use)
            for (vc, model), use in sorted(uses.items())
            if vc in visible
        ],
    }


def physical_page(
    request: Request, chain: str, under: str, depth: int, limit: int, cursor: int
) -> dict[str, Any]:
    """Return a page of physical cells. Raises NotFound for a cell that is not there, or that the
    caller may not see."""
    visible = set(tenancy.visible_to(request.user).values_list("name", flat=True))
    owners = None if tenancy.is_admin(request.user) else visible
    with current_state() as state:
        try:
            cells, more = usage.physical_cells(
                state, chain, under, owners=owners, depth=depth, first=cursor, limit=limit
            )
        except usage.UnknownCellError:
            raise NotFound(f"There is no cell {under[:200]}.") from None
    rows = [_physical_cell(cell, visible, everything=owners is None) for cell in cells]
    fill_in_names(request.user, rows)
    return paging.numbered_page(request, rows, cursor, limit, more=more)


def _physical_chain(
    state: ClusterState, chain: usage.ChainCounts, visible: set[str], admin: bool
) -> dict[str, Any]:
    return {
        "chain": chain.name,
        "gpu_model": gpu_model(state, chain.leaf_type),
        "nodes": chain.nodes,
        "levels": [
            {
                "type": level.type,
                "level": level.level,
                "gpus": level.gpus,
                "is_node": level.is_node,
                **describe_type(state, level.type),
            }
            for level in chain.levels
        ],
        "totals": [
            {
                "type": level.type,
                "total": level.total,
                "owned": sum(n for vc, n in level.owned.items() if vc in visible),
                "left": level.left if admin else None,
                "bad": level.bad,
            }
            for level in chain.levels
        ],
    }


def _physical_cell(
    cell: usage.PhysicalCell, visible: set[str], *, everything: bool
) -> dict[str, Any]:
    seen = cell.owner in visible or (everything and not cell.owner)
    row: dict[str, Any] = {
        "address": cell.address,
        "type": cell.type,
        "gpus": cell.gpus,
        "bad": cell.bad,
        "used": cell.used,
        "lent": cell.lent,
        "virtual_cluster": cell.owner or None if seen else None,
        "pin": cell.pin if seen else None,
        "node": cell.node,
        "children": None,
    }
    if cell.uuid is not None:
        leaf = {"uuid": cell.uuid, "index": cell.index, "state": cell.state, "job": cell.gang}
        return row | leaf
    if cell.children is not None:
        row["children"] = [
            _physical_cell(part, visible, everything=everything) for part in cell.children
        ]
    return row


def virtual_cells(
    user: Any, vc: VirtualCluster, chain: str = "", under: str = "", after: str = ""
) -> dict[str, Any]:
    """Return all chains; or one, or one cell of it (`under`), or what follows a cell (`after`).
    Raises NotFound for a cell that is not there."""
    with current_state() as state:
        try:
            found = usage.virtual_cells(state, vc.name, chain, under, after)
        except usage.UnknownCellError:
            raise NotFound(f"{vc.name} has no cell {under[:200]}.") from None
        chains = [_virtual_chain(state, known) for known in found]
        borrowed = usage.borrowed_gpus(state, vc.name)
        short = [shortfall_row(s) for s in state.built.shortfalls if s.vc == vc.name]
    fill_in_names(user, [cell for row in chains for cell in row["cells"]])
    return {"chains": chains, "borrowed_in": borrowed, "shortfalls": short}


def _virtual_chain(state: ClusterState, chain: usage.VirtualChain) -> dict[str, Any]:
    return {
        "chain": chain.chain,
        "gpu_model": gpu_model(state, chain.leaf_type),
        "types": [_type(state, known) for known in chain.types],
        "cells": [_virtual_cell(cell) for cell in chain.cells],
        "more": chain.more,
    }


def _type(state: ClusterState, known: usage.OwnedType) -> dict[str, Any]:
    return {
        "type": known.type,
        **describe_type(state, known.type),
        "gpus": known.gpus,
        "owned": known.owned.total + known.missing,
        "used": known.owned.used,
        "free": known.owned.free,
        "bad": known.owned.bad,
        "missing": known.missing,
        "borrowed_out": known.owned.lent,
    }


def _virtual_cell(cell: usage.VirtualCell) -> dict[str, Any]:
    place = cell.place
    return {
        "address": cell.address,
        "type": cell.type,
        "gpus": cell.gpus,
        "pin": cell.pin,
        "state": cell.state,
        "used": cell.used,
        "bad": cell.bad,
        "lent": cell.lent,
        "physical": {"address": place[0], "node": place[1]} if place is not None else None,
        "children": cell.children and [_virtual_cell(part) for part in cell.children],
        "job": cell.gang,
    }


LEAST_STEP_S = 60
MAX_POINTS = 500  # per model

USE = """
SELECT gpu_model, floor(extract(epoch FROM at) / %(step)s) * %(step)s,
       avg(owned), avg(used), avg(borrowed), avg(lent), avg(bad), avg(waiting),
       avg(unavailable)
  FROM scheduling_vcuse
 WHERE vc_id = %(vc)s AND at >= %(since)s
 GROUP BY 1, 2 ORDER BY 1, 2
"""


def history(vc: VirtualCluster, since: datetime, step_s: int = 0) -> dict[str, Any]:
    """Return how much a virtual cluster owned, used, borrowed and lent: means over steps of at
    least `step_s` seconds, more where they would be too many points."""
    seconds = max((timezone.now() - since).total_seconds(), 0)
    step = max(step_s, LEAST_STEP_S * math.ceil(seconds / MAX_POINTS / LEAST_STEP_S), LEAST_STEP_S)
    models: dict[str, dict[str, list[list[float]]]] = {}
    with connection.cursor() as cursor:
        cursor.execute(USE, {"vc": vc.pk, "since": since, "step": step})
        for model, at, *values in cursor.fetchall():
            points = models.setdefault(model, {"points": []})["points"]
            points.append([float(at), *(round(float(value), 2) for value in values)])
    return {"step_s": step, "models": models}


MAX_RUNNING = 200


def queue_page(request: Request, vc: VirtualCluster, limit: int, cursor: int) -> dict[str, Any]:
    """Return a page of the queue. The jobs that run are on the first page, longest first. Jobs that
    the caller may not see have no names."""
    timeline = {entry["gang"]: entry for entry in timeline_of(vc)}
    running, waiting = _running_jobs(vc), _waiting_jobs(vc, list(timeline))
    runs = list(running[:MAX_RUNNING]) if not cursor else []
    waits = list(waiting[cursor : cursor + limit])
    shown = queries.jobs_for_reader(request.user, [*runs, *waits])
    names = queries.names_for(request.user, [job.pk for job in shown])
    rows = {str(job.pk): _queued_job(job, seen=str(job.pk) in names) for job in shown}
    waiting_total = waiting.count()
    return {
        "running": [_running(job, rows[str(job.pk)]) for job in runs],
        "waiting": [
            _waiting(position, rows[str(job.pk)], job.wait_reason, timeline.get(str(job.pk)))
            for position, job in enumerate(waits, cursor + 1)
        ],
        "running_total": len(runs) if 0 < len(runs) < MAX_RUNNING else running.count(),
        "waiting_total": waiting_total,
        "next": paging.link(request, cursor + limit) if cursor + limit < waiting_total else None,
    }


def _running_jobs(vc: VirtualCluster) -> QuerySet[Job]:
    """Return the jobs that hold places, longest first."""
    jobs = Job.objects.filter(vc=vc, state__in=JOB.active, placed_at__isnull=False)
    return _selected(jobs).order_by("placed_at", "pk")


def _waiting_jobs(vc: VirtualCluster, first: list[str]) -> QuerySet[Job]:
    """Return the jobs that wait for a place: the `first` ones as the scheduler ordered them, then
    the others by priority and age."""
    order = Func(
        Value(first, ArrayField(UUIDField())),
        F("pk"),
        function="array_position",
        output_field=IntegerField(),
    )
    idle = ExpressionWrapper(Q(priority__lt=0), BooleanField())
    return _selected(queries.placeable().filter(vc=vc)).order_by(
        order.asc(nulls_last=True), idle, "-priority", "created_at", "pk"
    )


def _selected(jobs: QuerySet[Job]) -> QuerySet[Job]:
    return jobs.select_related("owner").defer("spec", "spec_text")


def _queued_job(job: Job, *, seen: bool) -> dict[str, Any]:
    return {
        "id": job.pk if seen else None,
        "name": job.name if seen else None,
        "owner": job.owner.get_username() if seen else None,
        "state": job.state,
        "priority_class": job.priority_class,
        "priority": job.priority,
        "gpus": job.gpus,
        "tasks": job.tasks_total,
        "duration_s": job.duration_s,
        "submitted_at": job.created_at,
        "placed_at": job.placed_at,
        "started_at": job.started_at,
        "preempting": job.preempting_at is not None,
        "downgraded": job.downgraded if seen else None,
    }


_show_job = QueuedJobSerializer().to_representation


def _running(job: Job, row: dict[str, Any]) -> dict[str, Any]:
    return {
        "job": _show_job(row),
        "expected_end": _expected_end(job),
        "opportunistic": job.priority < 0 or job.downgraded is not None,
        "preemptible": job.preemptible,
    }


def _expected_end(job: Job) -> datetime | None:
    """Return when a job that runs should end; None: unknown, or it should have by now."""
    now = timezone.now()
    if job.stop_requested_at or job.preempting_at or job.exit_reason:
        return now + timedelta(seconds=limits().leave_s)
    if job.duration_s is None or job.placed_at is None:
        return None
    end = job.placed_at + timedelta(seconds=job.duration_s)
    return end if end > now else None


def _waiting(
    position: int, row: dict[str, Any], reason: Reason | None, entry: Mapping[str, Any] | None
) -> dict[str, Any]:
    details, seen = (reason or {}).get("details", {}), row["id"] is not None
    known = entry or {"expected_start": details.get("expected_start"), "reserved_start": None}
    needs = entry["needs"] if entry else details.get("needs", {}).get("shape")
    start = known["reserved_start"]
    return {
        "position": position,
        "job": _show_job(row),
        "needs_words": needs or _needs(row),
        "reserved": start and {"start": _moment(start), "nodes": known["nodes"] if seen else []},
        "expected_start": _moment(known["expected_start"]),
        "reason": reason if seen else None,
    }


def _needs(row: dict[str, Any]) -> str:
    """Return the size of a job that the scheduler has not planned yet, in words."""
    return f"{row['gpus']} GPU" if row["gpus"] == 1 else f"{row['gpus']} GPUs"


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
