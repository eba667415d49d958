"""From a job file to a waiting job, in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db import IntegrityError, transaction

from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.core.events import event
from skep_platform.jobs import admission, forecast
from skep_platform.jobs.admission import Objection
from skep_platform.jobs.inserting import insert_job
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.jobs.protocol import (
    InvalidJobFile,
    JobFile,
    Problem,
    Trouble,
    located,
    notes,
    parse,
)
from skep_platform.jobs.stories import Reason
from skep_platform.tenancy.models import VirtualCluster

MAX_TOKEN = 64
DEFAULT_STOP_GRACE_S = 30


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a submit would answer. `forecast`: when it would start, as a reason; `notes`: what its
    author should know of a good file."""

    errors: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    summary: dict[str, Any] | None = None
    forecast: Reason | None = None

    @property
    def valid(self) -> bool:
        return not self.errors


def submit(user: User, text: str, *, client_token: str = "") -> Job:
    """The new job, WAITING. The same `client_token` again answers with the same job.

    Raises InvalidJobFile, NotFound `unknown_virtual_cluster`, SkepError with the code of an
    objection (`exceeds_quota`, `exceeds_node`, `unknown_sku_type`, …), Conflict `job_name_taken`
    and `client_token_reused`."""
    _check_token(client_token)
    if client_token and (known := _submitted(user, client_token, text)):
        return known
    job, _ = parse(text)
    vc = admission.find_vc(user, job)
    if vc is None:
        raise admission.unknown_vc(job).error()
    for objection in admission.objections(job, vc):
        raise objection.error()
    images = admission.image_references(job, vc)
    try:
        with transaction.atomic():
            return _create(user, vc, job, text, client_token, images)
    except IntegrityError:
        if client_token and (known := _submitted(user, client_token, text)):
            return known
        raise _name_taken(job.name) from None


def check(user: User, text: str) -> CheckResult:
    """What is wrong with a job file, and when it would start; changes nothing."""
    try:
        job, document = parse(text)
    except InvalidJobFile as error:
        return CheckResult(error.problems)
    vc = admission.find_vc(user, job)
    found = [admission.unknown_vc(job)] if vc is None else admission.objections(job, vc)
    if Job.objects.filter(owner=user, name=job.name).exists():
        found.append(Objection("job_name_taken", _name_taken(job.name).message, ("name",)))
    troubles = [Trouble(o.code, o.message, o.path) for o in found]
    return CheckResult(
        located(document, troubles) if troubles else [],
        notes(document),
        _summary(job),
        _forecast(user, vc, job, text) if vc is not None and not troubles else None,
    )


def _forecast(user: User, vc: VirtualCluster, spec: JobFile, text: str) -> Reason | None:
    job = _job(user, vc, spec, text)
    return forecast.of(job, _roles(job, spec, defaultdict(str)))


def _create(
    user: User,
    vc: VirtualCluster,
    spec: JobFile,
    text: str,
    client_token: str,
    images: Mapping[str, str],
) -> Job:
    job = _job(user, vc, spec, text, client_token)
    message = f"Submitted to {vc.name}: {_words(spec)}. It waits for a place."
    story = event("job", job.pk, "job.queued", message, actor=user.get_username())
    insert_job(job, _roles(job, spec, images), story)
    doorbells.ring_scheduler()
    doorbells.ring_topic("jobs")
    return job


def _job(user: User, vc: VirtualCluster, spec: JobFile, text: str, client_token: str = "") -> Job:
    skep = spec.extras.skep
    return Job(
        name=spec.name,
        owner=user,
        vc=vc,
        priority_class=str(spec.priority_class),
        priority=spec.priority,
        spec_text=text,
        spec=spec.model_dump(mode="json", exclude_none=True),
        gpus=spec.gpus,
        tasks_total=spec.tasks,
        client_token=client_token,
        incremental=spec.incremental,
        lazy_preemption=spec.lazy_preemption,
        pinned_cell=spec.pinned_cell,
        preemptible=skep.preemptible,
        duration_s=skep.duration,
        within=skep.within_one_cell or "",
        stop_grace_s=min(DEFAULT_STOP_GRACE_S, vc.max_stop_grace_s)
        if skep.stop_grace is None
        else skep.stop_grace,
        checkpoint_signal=skep.checkpoint.signal if skep.checkpoint else "",
        checkpoint_grace_s=skep.checkpoint.grace if skep.checkpoint else 0,
    )


def _roles(job: Job, spec: JobFile, images: Mapping[str, str]) -> list[TaskRole]:
    return [
        TaskRole(
            job=job,
            name=name,
            position=position,
            instances=role.instances,
            gpus=role.resource_per_instance.gpu,
            gpu_model=spec.sku_of(name),
            cell_type=spec.demand_of(name).cell_type or "",
            cells=spec.demand_of(name).cells,
            within=spec.demand_of(name).cell,
            affinity_group=spec.demand_of(name).affinity_group_name or "",
            cpu_millis=max(round(role.resource_per_instance.cpu * 1000), 1),
            memory_mb=role.resource_per_instance.memory_mb,
            shm_mb=role.extra_container_options.shm_mb,
            ports=role.resource_per_instance.ports,
            image=images[spec.uri_of(role)],
            command=role.command,
            min_failed=role.min_failed,
            min_succeeded=role.min_succeeded,
        )
        for position, (name, role) in enumerate(spec.task_roles.items())
    ]


def _submitted(user: User, client_token: str, text: str) -> Job | None:
    job = (
        Job.objects.filter(owner=user, client_token=client_token)
        .select_related("owner", "vc")
        .first()
    )
    if job is not None and job.spec_text != text:
        message = "This idempotency key was used for another job file; take a new one."
        raise Conflict(message, code="client_token_reused", job_id=str(job.pk))
    return job


def _check_token(client_token: str) -> None:
    if len(client_token) > MAX_TOKEN or not client_token.isprintable():
        message = f"An idempotency key has at most {MAX_TOKEN} printable characters."
        raise SkepError(message, code="client_token_invalid")


def _name_taken(name: str) -> Conflict:
    message = f"You have a job named {name} already; names are not used again. Choose another."
    return Conflict(message, code="job_name_taken", name=name)


def _summary(spec: JobFile) -> dict[str, Any]:
    return {
        "name": spec.name,
        "virtual_cluster": spec.defaults.virtual_cluster,
        "gpus": spec.gpus,
        "tasks": spec.tasks,
    }


def _words(spec: JobFile) -> str:
    tasks = "1 task" if spec.tasks == 1 else f"{spec.tasks} tasks"
    gpus = "no GPU" if not spec.gpus else "1 GPU" if spec.gpus == 1 else f"{spec.gpus} GPUs"
    return f"{tasks}, {gpus}"
