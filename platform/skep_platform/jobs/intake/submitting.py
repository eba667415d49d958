"""From a job file to a waiting job, in one transaction."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from skep_jobfile import STORAGE, Problem, Trouble
from skep_platform.accounts.models import User
from skep_platform.core import doorbells
from skep_platform.core.errors import Conflict, SkepError
from skep_platform.core.events import event, record
from skep_platform.core.models import Event
from skep_platform.jobs.intake import admission, allowances, belongings, forecast
from skep_platform.jobs.intake.admission import Objection
from skep_platform.jobs.intake.belongings import Belongings
from skep_platform.jobs.intake.inserting import insert_job
from skep_platform.jobs.intake.job_file import InvalidJobFile, ReadJob, converted, examine
from skep_platform.jobs.intake.rows import job_row, role_rows, words
from skep_platform.jobs.life.stories import Reason
from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import VirtualCluster

MAX_TOKEN = 64
MOST_TOLD = 20  # notes in the event of the submit


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
    objection (`exceeds_quota`, `exceeds_node`, `unknown_sku_type`, `unknown_archive`, …), Conflict
    `job_name_taken` and `client_token_reused`, TooMany with the code of a limit."""
    _check_token(client_token)
    digest = digest_of(text)
    if client_token and (known := _submitted(user, client_token, digest)):
        return known
    spec = examine(text, user.pk)
    if spec.errors:
        raise InvalidJobFile(_all_problems(spec, _objections(user, spec)[1]))
    vc = admitted(user, spec)
    with_it, objection = belongings.of(user, spec)
    if objection:
        raise objection.error()
    job = job_row(user, vc, spec)
    job.spec_digest, job.client_token = digest, client_token
    allowances.take(user, vc, spec.job.tasks)
    try:
        return create(job, spec, with_it)
    except IntegrityError:
        if client_token and (known := _submitted(user, client_token, digest)):
            return known
        raise name_taken(spec.job.name) from None


def check(user: User, text: str) -> CheckResult:
    """What is wrong with a job file, and when it would start; changes nothing. Raises TooMany."""
    with allowances.checking(user):
        return _checked(user, text)


def _checked(user: User, text: str) -> CheckResult:
    try:
        spec = examine(text, user.pk)
    except InvalidJobFile as error:
        return CheckResult(error.problems)
    vc, found = _objections(user, spec)
    if spec.errors:
        return CheckResult(_all_problems(spec, found))
    return CheckResult(
        _all_problems(spec, found),
        spec.notes,
        _summary(spec, vc),
        _forecast(user, vc, spec) if vc is not None and not found else None,
    )


def convert(user: User, text: str, format: str) -> dict[str, Any]:
    """A job file out of a Slurm script or a Kubeflow manifest: `text` and `notes`. Raises
    InvalidJobFile and TooMany."""
    with allowances.checking(user):
        return converted(text, format, user.pk)


def _objections(user: User, spec: ReadJob) -> tuple[VirtualCluster | None, list[Objection]]:
    """Where the job would go, and why it cannot become a job here."""
    job = spec.job
    vc = admission.find_vc(user, job)
    if vc is None:
        found = [admission.unknown_vc(user, job)]
    else:
        found = [*allowances.objections(user, job, vc), *admission.objections(job, vc)]
    if Job.objects.filter(owner=user, name=job.name).exists():
        found.append(Objection("job_name_taken", name_taken(job.name).message, ("name",)))
    if objection := belongings.of(user, spec)[1]:
        found.append(objection)
    return vc, found


def _all_problems(spec: ReadJob, objections: list[Objection]) -> list[Problem]:
    """In the order of the text."""
    troubles = [Trouble(o.code, o.message, o.path) for o in objections]
    found = [*spec.errors, *spec.problems(troubles)]
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def admitted(user: User, spec: ReadJob) -> VirtualCluster:
    """Where the job goes. Raises what `submit` does."""
    vc = admission.find_vc(user, spec.job)
    if vc is None:
        raise admission.unknown_vc(user, spec.job).error()
    for objection in (
        *allowances.objections(user, spec.job, vc),
        *admission.objections(spec.job, vc),
    ):
        raise objection.error()
    return vc


def create(job: Job, spec: ReadJob, with_it: Belongings, *, clone_of: str = "") -> Job:
    """Store the row of a new job and all that belongs to it. Raises IntegrityError."""
    images = admission.image_references(spec.job, job.vc)
    with transaction.atomic():
        insert_job(job, role_rows(job, spec, images), _story(job, spec, clone_of))
        with_it.store(job, images)
        if lost := [note.message for note in spec.notes if note.code == STORAGE]:
            message = f"Warning: {' '.join(lost[:MOST_TOLD])}"
            record("job", job.pk, "job.storage_not_mounted", message)
        doorbells.ring_scheduler()
        doorbells.ring_topic("jobs")
    return job


def digest_of(text: str) -> str:
    """Keyed, so that nobody who reads it can try secrets of short files out."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def name_taken(name: str) -> Conflict:
    message = f"You have a job named {name} already; names are not used again. Choose another."
    return Conflict(message, code="job_name_taken", name=name)


def _forecast(user: User, vc: VirtualCluster, spec: ReadJob) -> Reason | None:
    job = job_row(user, vc, spec)
    return forecast.of(job, role_rows(job, spec, defaultdict(str)))


def _submitted(user: User, client_token: str, digest: str) -> Job | None:
    job = (
        Job.objects.filter(owner=user, client_token=client_token)
        .select_related("owner", "vc")
        .first()
    )
    if job is not None and job.spec_digest != digest:
        message = "This idempotency key was used for another job file; take a new one."
        raise Conflict(message, code="client_token_reused", job_id=str(job.pk))
    return job


def _story(job: Job, spec: ReadJob, clone_of: str) -> Event:
    origin = f", a clone of {clone_of}" if clone_of else ""
    message = f"Submitted to {job.vc.name}{origin}: {words(job)}. It waits for a place."
    notes = [f"{note.path}: {note.message}" for note in spec.notes[:MOST_TOLD]]
    if notes:
        message += f" Please note: {' '.join(notes)}"
    data = {"notes": notes} if notes else {}
    actor = job.owner.get_username()
    return event("job", job.pk, "job.queued", message, actor=actor, **data)


def _check_token(client_token: str) -> None:
    if len(client_token) > MAX_TOKEN or not client_token.isprintable():
        message = f"An idempotency key has at most {MAX_TOKEN} printable characters."
        raise SkepError(message, code="client_token_invalid")


def _summary(spec: ReadJob, vc: VirtualCluster | None) -> dict[str, Any]:
    job = spec.job
    return {
        "name": job.name,
        "virtual_cluster": vc.name if vc else job.defaults.virtual_cluster,
        "gpus": job.gpus,
        "tasks": job.tasks,
    }
