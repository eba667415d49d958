"""What virtual clusters own, and changing it: checked first, then all at once.

The check works on the scheduler's cluster state, which takes seconds on a large cluster, so it runs
before the transaction; the revision shows whether anything else was changed meanwhile.

Draining a node: nothing new is placed there, and the jobs on it are asked to leave. A tick that
read the node before it was cordoned may still place a gang on it; so jobs on draining nodes are
looked for again and again, until the node is uncordoned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count

from skep_platform.accounts.models import User
from skep_platform.cells import queries
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.cluster.services import cell_layout, lock_cell_layout
from skep_platform.core import gc_control
from skep_platform.core.bulk import database_time
from skep_platform.core.compiled import Compiled
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.lifecycle import messages, preempting
from skep_platform.jobs.lifecycle.one_by_one import change, paused
from skep_platform.jobs.models import TaskAttempt
from skep_platform.scheduling import read_facts
from skep_platform.tenancy import claims
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.claims import Claims
from skep_scheduler import inventory, usage
from skep_scheduler.inventory import gpu_model
from skep_scheduler.model import Inventory, facts
from skep_scheduler.state import ClusterState

Change = Callable[[Inventory], Inventory]
Verdict = dict[str, Any]  # as REST shows it
MAX_PROBLEMS = 200
AT_ONCE = 200  # jobs that are asked to leave in one transaction
Body = Mapping[str, Any]  # as `AssignmentSerializer` checked it


@dataclass(frozen=True, slots=True)
class Assignment:
    virtual_clusters: tuple[facts.VirtualCluster, ...]
    pins: tuple[facts.Pin, ...]


@dataclass(frozen=True, slots=True)
class Error:
    """What is wrong with a request of an admin, and where in it: shown as it is."""

    code: str
    message: str
    path: str
    details: Mapping[str, Any]


def stored() -> Assignment:
    return Assignment(*claims.read())


def show() -> dict[str, Any]:
    """Return what virtual clusters own, as REST shows it, with the revision that it is of."""
    revision = cell_layout().revision  # first: it may be older than what follows, not newer
    now = stored()
    return {
        "revision": revision,
        "virtual_clusters": {vc.name: _owned(vc, now.pins) for vc in now.virtual_clusters},
        "pins": [
            {
                "name": pin.name,
                "cell_type": pin.cell_type,
                "node": pin.node,
                "device": pin.device,
            }
            for pin in now.pins
        ],
    }


def parse(body: Body) -> Assignment:
    """Return the assignment that a request describes; `mistakes` says whether it makes sense."""
    owners = {pin: name for name, vc in body["virtual_clusters"].items() for pin in vc["pins"]}
    vcs = [
        facts.VirtualCluster(name, tuple(_claims(vc)))
        for name, vc in sorted(body["virtual_clusters"].items())
    ]
    pins = [
        facts.Pin(
            name=pin["name"],
            cell_type=pin["cell_type"],
            node=pin["node"],
            device=pin["device"],
            vc=owners.get(pin["name"], ""),
        )
        for pin in body["pins"]
    ]
    return Assignment(tuple(vcs), tuple(pins))


def mistakes(body: Body) -> list[Error]:
    """Return what is wrong in a request itself, whatever the cluster has."""
    return [
        *_unknown_vcs(body),
        *_twice(body),
        *_unknown_pins(body),
    ]


class DoesNotFit(SkepError):
    """`errors` in the details has every reason."""

    code = "cells_do_not_fit"


def check(body: Body) -> Verdict:
    """Return what `assign` would do."""
    return _check(cell_layout().revision, body)


def assign(user: User, body: Body) -> Verdict:
    """Replace all claims and pins. Raises Conflict `revision_stale`, and DoesNotFit with all
    errors."""
    revision = cell_layout().revision
    if body["revision"] != revision:
        raise _stale(revision)
    verdict = fitting(_check(revision, body))
    wanted = parse(body)
    with transaction.atomic():
        hold(revision)
        claims.replace(user, wanted.virtual_clusters, wanted.pins)
    return verdict | {"revision": cell_layout().revision}


def check_raised(before: Claims) -> None:
    """Check a claim within the transaction in which it was raised. Raises DoesNotFit."""
    now = read_facts.inventory(read_facts.nodes().values())
    vcs, pins = before
    errors = inventory.check(replace(now, virtual_clusters=vcs, pins=pins), now).errors
    if errors:
        raise _does_not_fit([shown(error) for error in errors])


def fitting(verdict: Verdict) -> Verdict:
    """Return the verdict of a change that fits. Raises DoesNotFit."""
    if not verdict["fits"]:
        raise _does_not_fit(verdict["errors"])
    return verdict


def hold(revision: int) -> None:
    """Lock claims and layout until the end of the transaction. Raises Conflict
    `revision_stale`."""
    claims.lock()
    now = lock_cell_layout().revision
    if now != revision:
        raise _stale(now)


def check_change(revision: int, change: Change) -> Verdict:
    """Return what a change of the present inventory would mean: whether it fits, what would be
    left, and which running jobs it would touch. The state of this process stays as it is."""
    with queries.current_state() as state:
        before, built = state.inventory, state.built
    with gc_control.paused():  # takes long: others may look meanwhile
        checked = inventory.check(built, change(before))
    with queries.current_state() as state:
        touched = usage.claims_change(state, checked.built.config)
        downgraded = list(_jobs(state, touched.downgraded))
        restored = list(_jobs(state, touched.restored))
    return {
        **refused(revision, [shown(error) for error in checked.errors]),
        "left": [asdict(left) for left in checked.left],
        "downgraded": downgraded,
        "restored": restored,
        "shortfalls": [queries.shortfall_row(short) for short in checked.shortfalls],
        "problems": [asdict(problem) for problem in checked.built.problems[:MAX_PROBLEMS]],
    }


def refused(revision: int, errors: Sequence[Verdict]) -> Verdict:
    """Return the verdict of a change with errors; or of one without any effect."""
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


def _jobs(state: ClusterState, causes: Mapping[str, str]) -> Iterator[Verdict]:
    for job_id, cause in causes.items():
        gang = state.running[job_id].gang
        message = f"{gang.vc} would not own the cells that it runs on."
        details = {"vc": gang.vc, "cause": cause}
        yield {
            "job_id": job_id,
            "name": gang.name,
            "virtual_cluster": gang.vc,
            "reason": {"code": "cells_changed", "message": message, "details": details},
        }


def _check(revision: int, body: Body) -> Verdict:
    wrong = mistakes(body)
    if wrong:
        return refused(revision, [shown(error) for error in wrong])
    wanted = parse(body)

    def change(now: Inventory) -> Inventory:
        return replace(now, virtual_clusters=wanted.virtual_clusters, pins=wanted.pins)

    return check_change(revision, change)


def _does_not_fit(errors: Sequence[dict[str, Any]]) -> DoesNotFit:
    first, *more = errors
    also = f" (and {len(more)} more)" if more else ""
    return DoesNotFit(first["message"] + also, errors=list(errors))


def _stale(revision: int) -> Conflict:
    message = "Someone else has changed the assignment meanwhile; look at it and try again."
    return Conflict(message, code="revision_stale", revision=revision)


def _owned(vc: facts.VirtualCluster, pins: tuple[facts.Pin, ...]) -> dict[str, Any]:
    return {
        "cells": [
            {"chain": claim.chain, "cell_type": claim.cell_type, "number": claim.number}
            for claim in vc.claims
            if claim.chain
        ],
        "quotas": {claim.cell_type: claim.number for claim in vc.claims if not claim.chain},
        "pins": [pin.name for pin in pins if pin.vc == vc.name],
    }


def _claims(vc: Mapping[str, Any]) -> Iterator[facts.Claim]:
    """Yield the claims in the order of the body: paths of errors count them."""
    for cell in vc["cells"]:
        yield facts.Claim(cell["chain"], cell["cell_type"], cell["number"])
    for model, gpus in vc["quotas"].items():
        yield facts.Claim("", gpu_model(model), gpus)


def _unknown_vcs(body: Body) -> Iterator[Error]:
    known = {vc.name for vc in stored().virtual_clusters}
    for name in body["virtual_clusters"]:
        if name not in known:
            message = f"There is no virtual cluster named {name}."
            yield Error("unknown_virtual_cluster", message, f"virtual_clusters.{name}", {})


def _twice(body: Body) -> Iterator[Error]:
    for name, vc in body["virtual_clusters"].items():
        keys = Counter((cell["chain"], cell["cell_type"]) for cell in vc["cells"])
        for (chain, cell_type), times in keys.items():
            if times > 1:
                message = f"{cell_type} of {chain} is listed {times} times; add the numbers."
                yield Error("listed_twice", message, f"virtual_clusters.{name}.cells", {})
        for model, times in Counter(map(gpu_model, vc["quotas"])).items():
            if times > 1:
                message = f"{model} is listed by {times} of its names; add the numbers."
                yield Error("listed_twice", message, f"virtual_clusters.{name}.quotas", {})
    names = Counter(pin["name"] for pin in body["pins"])
    for name, times in names.items():
        if times > 1:
            message = f"{times} pinned cells are named {name}."
            yield Error("listed_twice", message, "pins", {"pin": name})


def _unknown_pins(body: Body) -> Iterator[Error]:
    known = {pin["name"] for pin in body["pins"]}
    owners: dict[str, str] = {}
    for name, vc in body["virtual_clusters"].items():
        for index, pin in enumerate(vc["pins"]):
            path = f"virtual_clusters.{name}.pins[{index}]"
            if pin not in known:
                yield Error("unknown_pin", f"No pinned cell is named {pin}.", path, {"pin": pin})
            elif pin in owners:
                message = f"Pinned cell {pin} belongs to {owners[pin]} already."
                yield Error("pin_given_twice", message, path, {"pin": pin})
            owners.setdefault(pin, name)


# What happens to jobs that are there.
ACTIONS = {"drain": "preempted", "cordon": "runs on", "remove": "lost"}


def drain(user: User | None, name: str, reason: str = "") -> None:
    """Cordon the node and ask the jobs that run there to go. Raises NotFound."""
    cluster.mark_draining(user, name, reason)
    evict_all()


def evict_all() -> None:
    """Ask all jobs on draining nodes that were not asked yet, a bounded number in one transaction.
    One query when there are none. One that cannot be asked holds up none of the others, and is
    passed over for a while."""
    nodes: dict[UUID, str] = dict(_STAYING.rows())
    left_out = paused("drain")

    def ask(jobs: Sequence[UUID]) -> None:
        reasons = {pk: messages.evicted(f"Node {nodes[pk]} is being drained.") for pk in jobs}
        preempting.ask(reasons, database_time())

    due = sorted(nodes.keys() - left_out)
    for first in range(0, len(due), AT_ONCE):
        change("drain", due[first : first + AT_ONCE], ask)


def forecast_drain(user: Any, node: Node, action: str) -> dict[str, Any]:
    """Return the jobs on a node, and the cells that virtual clusters could not be given without it.
    Names of jobs and the losses of other teams are for those who may see them."""
    with queries.current_state() as state:
        lost = usage.drain_impact(state, node.name)
    own = tenancy.own_names(user)
    return {
        "jobs": list(_jobs_on(user, node, own, ACTIONS[action])),
        "virtual_clusters": [
            {"name": name, "loses": loses}
            for name, loses in lost.items()
            if own is None or name in own
        ],
    }


# The jobs that were not asked to leave or to end yet, with such a node of each.
_STAYING = Compiled(
    lambda: TaskAttempt.objects.filter(
        node__draining=True,
        released_at=None,
        job__preempting_at=None,
        job__stop_requested_at=None,
        job__exit_reason__isnull=True,
    ).order_by("-node__name"),
    *("job_id", "node__name"),
)


def _jobs_on(user: Any, node: Node, own: set[str] | None, what: str) -> Iterator[dict[str, Any]]:
    rows = (
        TaskAttempt.objects.filter(node=node, released_at=None)
        .values("job_id", "job__name", "job__owner__username", "job__vc__name", "job__gpus")
        .annotate(tasks=Count("pk"))
        .order_by("job_id")
    )
    found = list(rows)
    names = jobs.names_for(user, [row["job_id"] for row in found])
    for row in found:
        seen, vc = str(row["job_id"]) in names, row["job__vc__name"]
        yield {
            "id": row["job_id"] if seen else None,
            "name": row["job__name"] if seen else None,
            "owner": row["job__owner__username"] if seen else None,
            "virtual_cluster": vc if seen or own is None or vc in own else None,
            "gpus": row["job__gpus"],
            "tasks": row["tasks"],
            "what": what,
        }
