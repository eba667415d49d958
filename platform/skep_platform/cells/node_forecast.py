"""Whom it would touch if a node were taken out of use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db.models import Count

from skep_platform.cells import view
from skep_platform.cells.losses import losses
from skep_platform.cluster.models import Node
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import TaskAttempt
from skep_platform.tenancy import queries as tenancy

# What happens to jobs that are there.
ACTIONS = {"drain": "preempted", "cordon": "runs on", "remove": "lost"}


def of(user: Any, node: Node, action: str) -> dict[str, Any]:
    """The jobs there, and the cells that virtual clusters could not be given. Names of jobs, and
    other teams' losses, only for those who may see them."""
    with view.current() as now:
        lost = losses(now.state, node.name)
    own = tenancy.own_names(user)
    return {
        "jobs": list(_jobs(user, node, own, ACTIONS[action])),
        "virtual_clusters": [
            {"name": name, "loses": loses}
            for name, loses in lost.items()
            if own is None or name in own
        ],
    }


def _jobs(user: Any, node: Node, own: set[str] | None, what: str) -> Iterator[dict[str, Any]]:
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
