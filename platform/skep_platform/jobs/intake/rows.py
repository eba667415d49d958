"""The rows of a new job, out of its job file: not stored yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_jobfile import TaskRole as FileRole
from skep_platform.accounts.models import User
from skep_platform.jobs.intake.job_file import ReadJob
from skep_platform.jobs.intake.tag_rules import tidy
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.tenancy.models import VirtualCluster
from skep_scheduler.inventory import gpu_model

DEFAULT_STOP_GRACE_S = 30
MAX_COUNT = 2**31 - 1  # what a column holds; a count beyond all tasks means never
# Never stored: secrets, and how to log in at registries.
SECRET: Any = {"secrets": True, "prerequisites": {"__all__": {"auth"}}}


def job_row(user: User, vc: VirtualCluster, read: ReadJob) -> Job:
    spec, skep = read.job, read.job.extras.skep
    files = skep.working_files
    return Job(
        name=spec.name,
        owner=user,
        vc=vc,
        priority_class=str(spec.priority_class),
        priority=spec.priority,
        spec_text=read.spec_text,
        spec=spec.model_dump(mode="json", exclude_none=True, exclude=SECRET),
        tags=tidy(spec.extras.tags),
        gpus=spec.gpus,
        tasks_total=spec.tasks,
        visibility=skep.visibility or "",
        duration_s=skep.duration,
        max_duration_s=skep.max_duration,
        deadline_at=skep.deadline,
        network_mode=skep.network or "",
        rdma=any(role.infiniband for role in spec.task_roles.values()),
        environment=read.environment,
        work_dir=skep.work_dir or (files.path if files else ""),
        barrier_s=skep.barrier,
        incremental=spec.incremental,
        lazy_preemption=spec.lazy_preemption,
        pinned_cell=spec.pinned_cell,
        preemptible=skep.preemptible,
        within=skep.within_one_cell or "",
        stop_grace_s=min(DEFAULT_STOP_GRACE_S, vc.max_stop_grace_s)
        if skep.stop_grace is None
        else skep.stop_grace,
        checkpoint_signal=skep.checkpoint.signal if skep.checkpoint else "",
        checkpoint_grace_s=skep.checkpoint.grace if skep.checkpoint else 0,
    )


def role_rows(job: Job, read: ReadJob, images: Mapping[str, str]) -> list[TaskRole]:
    """`images`: the reference to pull, by uri."""
    spec = read.job
    return [
        TaskRole(
            job=job,
            name=name,
            position=position,
            instances=role.instances,
            gpus=role.resource_per_instance.gpu,
            gpu_model=gpu_model(spec.sku_of(name)),
            cell_type=spec.demand_of(name).cell_type or "",
            cells=spec.demand_of(name).cells,
            within=spec.demand_of(name).cell,
            affinity_group=spec.demand_of(name).affinity_group_name or "",
            cpu_millis=max(round(role.resource_per_instance.cpu * 1000), 1),
            memory_mb=role.resource_per_instance.memory_mb,
            shm_mb=role.shm_mb,
            rdma=role.infiniband,
            ports=_ports(role),
            image=images[spec.image_of(role).uri],
            command=read.commands[name],
            min_failed=min(role.min_failed, MAX_COUNT),
            min_succeeded=min(role.min_succeeded, MAX_COUNT),
            task_retries=max(min(role.task_retry_count, MAX_COUNT), -2) if spec.incremental else 0,
        )
        for position, (name, role) in enumerate(spec.task_roles.items())
    ]


def _ports(role: FileRole) -> dict[str, int]:
    """Those asked for; each task has some more."""
    asked = role.resource_per_instance
    return asked.ports if "ports" in asked.model_fields_set else {}


def words(job: Job) -> str:
    """How large it is."""
    tasks = "1 task" if job.tasks_total == 1 else f"{job.tasks_total} tasks"
    gpus = "no GPU" if not job.gpus else "1 GPU" if job.gpus == 1 else f"{job.gpus} GPUs"
    return f"{tasks}, {gpus}"
