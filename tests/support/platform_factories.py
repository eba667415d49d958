"""Rows for tests of the control plane: users, virtual clusters, nodes with GPUs, jobs, leases.

Plain functions with sensible defaults; names are unique per process run. What a service can make
is made by the service, so that tests start from states that can happen.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache

from django.contrib.auth.hashers import make_password
from django.utils import timezone

from skep_agent.protocol import FEATURES, Gpu, Hello, Inventory
from skep_platform.accounts.models import User
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device, Node
from skep_platform.jobs.models import Job, Lease, Task, TaskAttempt, TaskRole
from skep_platform.jobs.states import ATTEMPT, AttemptState, JobState
from skep_platform.tenancy.models import Membership, Quota, Role, RoleGrant, VirtualCluster

PASSWORD = "correct-horse-battery"  # what every user of `make_user` has
_numbers = itertools.count(1)


def make_user(
    username: str = "", *, admin: bool = False, password: str = PASSWORD, **fields: object
) -> User:
    username = username or f"user{next(_numbers)}"
    user = User(username=username, is_superuser=admin, **fields)
    user.password = _hashed(password)
    user.save()
    return user


@lru_cache
def _hashed(password: str) -> str:
    """Slow by design, so once per password and run."""
    return make_password(password)


def make_vc(
    name: str = "",
    *,
    quotas: dict[str, int] | None = None,
    members: Sequence[User] = (),
    vc_admins: Sequence[User] = (),
    viewers: Sequence[User] = (),
) -> VirtualCluster:
    vc = VirtualCluster.objects.create(name=name or f"vc{next(_numbers)}")
    for model, gpus in (quotas or {}).items():
        Quota.objects.create(vc=vc, gpu_model=model, gpus=gpus)
    roles = {Role.VIEWER: viewers, Role.MEMBER: members, Role.ADMIN: vc_admins}
    for role, users in roles.items():
        for user in users:
            RoleGrant.objects.create(vc=vc, user=user, role=role)
            Membership.objects.create(vc=vc, user=user, role=role)
    return vc


def make_gpus(prefix: str, count: int, *, model: str = "A100", memory_mb: int = 40960) -> list[Gpu]:
    return [
        Gpu(uuid=f"GPU-{prefix}-{i}", model=model, memory_mb=memory_mb, index=i)
        for i in range(count)
    ]


def make_inventory(gpus: Sequence[Gpu] = (), **fields: object) -> Inventory:
    known = {"hostname": "test", "address": "127.0.0.1", "cpus": 64.0, "memory_mb": 262144}
    fixed = {"runtime": "mock", "gang_network": True}
    return Inventory(gpus=list(gpus), **fixed | known | fields)


def make_hello(instance_id: str, inventory: Inventory, **fields: object) -> Hello:
    known: dict[str, object] = {"agent_version": "test", "features": FEATURES}
    return Hello(instance_id=instance_id, inventory=inventory, **known | fields)


def join_node(name: str = "") -> tuple[Node, str]:
    """A node that has joined and never connected, and its credential. Its instance id is
    "instance-<name>"."""
    name = name or f"node{next(_numbers)}"
    return cluster.join_node(cluster.create_join_token(None, 60), name, f"instance-{name}")


def make_node(
    name: str = "",
    *,
    gpus: int | Sequence[Gpu] = 8,
    model: str = "A100",
    **inventory: object,
) -> Node:
    """An ONLINE node with an open session; `gpus` is a number, or the GPUs themselves."""
    node, _ = join_node(name)
    found = make_gpus(node.name, gpus, model=model) if isinstance(gpus, int) else gpus
    hello = make_hello(node.instance_id, make_inventory(found, **inventory))
    return cluster.open_session(node.pk, node.instance_id, hello)


def make_job(
    vc: VirtualCluster,
    owner: User,
    *,
    name: str = "",
    tasks: int = 1,
    gpus: int = 1,
    state: str = JobState.WAITING,
    **fields: object,
) -> Job:
    """A job of one role "worker" with its tasks, as rows; the spec is a stub."""
    job = Job.objects.create(
        name=name or f"job{next(_numbers)}",
        owner=owner,
        vc=vc,
        state=state,
        spec_text="",
        spec={},
        gpus=tasks * gpus,
        tasks_total=tasks,
        **fields,
    )
    role = TaskRole.objects.create(
        job=job,
        name="worker",
        position=0,
        instances=tasks,
        gpus=gpus,
        cpu_millis=1000,
        memory_mb=1024,
        image="test/image",
        command="true",
        min_succeeded=tasks,
    )
    Task.objects.bulk_create(Task(job=job, role=role, index=i, rank=i) for i in range(tasks))
    return job


def place(
    job: Job,
    devices: Sequence[Device],
    *,
    node: Node | None = None,
    rank: int = 0,
    **fields: object,
) -> TaskAttempt:
    """An attempt of the job's task with leases on these devices, as the scheduler commits it.
    Pass `node` for a task without GPUs."""
    node = node or devices[0].node
    task = job.tasks.get(rank=rank)
    state = fields.pop("state", AttemptState.ASSIGNED)
    attempt = TaskAttempt.objects.create(
        job=job,
        task=task,
        role=task.role,
        node=node,
        index=job.attempt or 1,
        epoch=job.attempt or 1,
        state=state,
        gpu_uuids=[device.uuid for device in devices],
        gpu_model=devices[0].model if devices else "",
        network="isolated",
        **fields,
    )
    Lease.objects.bulk_create(Lease(device=device, attempt=attempt) for device in devices)
    return attempt


def release(attempt: TaskAttempt, state: str = AttemptState.SUCCEEDED) -> None:
    """The attempt ended and its node saw the GPUs clean."""
    now = timezone.now()
    if attempt.state not in ATTEMPT.terminal:
        attempt.state = state
    attempt.finished_at = attempt.released_at = now
    attempt.save()
    attempt.leases.update(released_at=now)
