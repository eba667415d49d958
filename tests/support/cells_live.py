"""Cells of a live cluster in tests: what virtual clusters own, and jobs that run on it. Nodes of
`make_node(name, gpus=8)` are of type NODE, their halves of type HALF."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from tests.support.platform_factories import make_job, make_user, place

from skep_platform.cluster.models import Node
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.tenancy.models import VcCell, VirtualCluster

NODE, HALF = "A100-NODE8", "A100-NODE8-x4"


def own(vc: VirtualCluster, number: int, cell_type: str = NODE) -> None:
    VcCell.objects.create(vc=vc, chain=NODE, cell_type=cell_type, number=number)


def run(vc: VirtualCluster, node: Node, gpus: int, *, cell_type: str = NODE, **fields: Any) -> Job:
    """A job that runs on the first GPUs of a node that no one has: in a cell of this type of its
    virtual cluster, or opportunistically without one."""
    member = vc.memberships.select_related("user").first()
    known = {
        "state": JobState.RUNNING,
        "placed_at": timezone.now(),
        "attempt": 1,
        "priority": 10 if cell_type else -1,
    }
    job = make_job(vc, member.user if member else make_user(), gpus=gpus, **{**known, **fields})
    held = node.devices.filter(leases__released_at=None, leases__isnull=False)
    free = node.devices.exclude(pk__in=held).order_by("index")[:gpus]
    place(job, list(free), state=AttemptState.RUNNING, cell_type=cell_type)
    return job
