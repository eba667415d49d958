"""From a job file to a waiting job."""

from __future__ import annotations

import hashlib
import hmac
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import IntegrityError

from skep_jobfile import STORAGE, Issue, Problem
from skep_platform.accounts.models import User
from skep_platform.core import ports
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.failures import changed_meanwhile
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle import dependencies, messages
from skep_platform.jobs.lifecycle.messages import Reason
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import (
    admission,
    allowances,
    attachments,
    deadline,
    registry_check,
    storages,
    virtual_cluster,
)
from skep_platform.jobs.submission.job_file import (
    InvalidJobFile,
    ReadJob,
    converted,
    examine,
)
from skep_platform.jobs.submission.storages import AskedStorages
from skep_platform.jobs.submission.storing import (
    Prepared,
    about_to_store,
    create,
    new_row,
    role_rows,
)
from skep_platform.tenancy.models import VirtualCluster

MAX_TOKEN = 64
NAME_TAKEN = "job_name_taken"


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


def submit(user: User, text: str, *, client_token: str = "", ignore_storage: bool = False) -> Job:
    """Create a job in state WAITING from a job file. A submit that is repeated with the same
    `client_token` returns the same job. `ignore_storage` accepts a job whose storages are not
    mounted, as `extras.skep.ignoreStorages` in the file does.

    Raises InvalidJobFile, NotFound `unknown_virtual_cluster` and `storage_not_found`, Forbidden
    `storage_forbidden`, SkepError `storage_not_mounted` or with the code of an issue
    (`storage_path_invalid`, `exceeds_quota`, `exceeds_node`, `unknown_sku_type`,
    `image_not_found`, `unknown_archive`, `deadline_cannot_be_met`, …), Conflict `job_name_taken`
    and `client_token_reused`, TooMany with the code of a limit."""
    check_token(client_token)
    if client_token and (known := submitted_before(user, client_token, digest_of(text))):
        return known
    with about_to_store():
        spec = examine(text, user.pk)
        vc, asked = accepted(user, spec, ignore_storage=ignore_storage)
        return stored(prepared(user, vc, spec, asked, client_token))


def accepted(
    user: User, spec: ReadJob, *, ignore_storage: bool
) -> tuple[VirtualCluster, AskedStorages]:
    """Return the virtual cluster of a job that was read, and the storages that it mounts. Raises
    what `submit` does."""
    if spec.errors:
        raise InvalidJobFile(_all_problems(spec, _issues(user, spec)[1]))
    ignore_storage = ignore_storage or spec.job.extras.skep.ignore_storages
    if not ignore_storage:
        _refuse_lost_storage(spec)
    return admitted(user, spec, ignore_storage=ignore_storage)


def prepared(
    user: User, vc: VirtualCluster, spec: ReadJob, asked: AskedStorages, client_token: str
) -> Prepared:
    """Return an accepted job, counted against the limits, with all that is stored of it. Raises
    what `submit` does."""
    with_it, issue = attachments.of(user, spec)
    if issue:
        raise refusal(issue)
    job = new_row(user, vc, spec)
    job.spec_digest, job.client_token = digest_of(spec.text), client_token
    allowances.take(user, vc, spec.job.tasks)
    images = registry_check.look(user, vc, spec)
    for issue in images.refused:
        raise refusal(issue)
    spec.notes.extend(images.note_problems())
    admit_deadline(job, spec)
    return Prepared(job, spec, with_it, asked)


def stored(new: Prepared) -> Job:
    """Store a prepared job. Raises what `submit` does."""
    job = new.job
    try:
        return create(job, new.spec, new.with_it, new.asked)
    except IntegrityError:
        token = job.client_token
        if token and (known := submitted_before(job.owner, token, job.spec_digest)):
            return known
        if not VirtualCluster.objects.filter(pk=job.vc_id).exists():  # deleted a moment ago
            raise refusal(admission.unknown_vc(job.owner, new.spec.job)) from None
        raise not_stored(job) from None


def _refuse_lost_storage(spec: ReadJob) -> None:
    """Refuse a job that would write into a folder which is lost with its container. Raises
    SkepError."""
    lost = [note for note in spec.notes if note.code == STORAGE]
    if lost:
        message = (
            f"{lost[0].message} Remove it from the job file, or submit the job without that "
            "storage: set extras.skep.ignoreStorages to true (skep submit --ignore-storage)."
        )
        raise SkepError(message, code=STORAGE, errors=[note.as_dict() for note in lost])


def check(user: User, text: str) -> CheckResult:
    """Return what is wrong with a job file, and when it would start. Changes nothing. Raises
    TooMany."""
    with allowances.checking(user):
        return _checked(user, text)


def _checked(user: User, text: str) -> CheckResult:
    try:
        spec = examine(text, user.pk)
    except InvalidJobFile as error:
        return CheckResult(error.problems)
    vc, found = _issues(user, spec)
    if spec.errors:
        return CheckResult(_all_problems(spec, found))
    notes = []
    if vc is not None and not found:
        images = registry_check.look(user, vc, spec)
        found, notes = images.refused, spec.problems(images.notes)
    forecast = None
    if vc is not None and not found:
        job = new_row(user, vc, spec)
        forecast = _forecast(job, spec)
        late = deadline.issue_of(job, forecast)
        if late is not None and deadline.admission_of(vc) == deadline.REFUSE:
            found = [late]
        elif late is not None:
            notes = [*notes, *spec.problems([late])]
    return CheckResult(
        _all_problems(spec, found),
        [*spec.notes, *notes],
        _summary(spec, vc),
        forecast if not found else None,
    )


def admit_deadline(job: Job, spec: ReadJob) -> None:
    """Note that the deadline of a job cannot be met, or refuse the job for it, as its virtual
    cluster says. The scheduler is asked for a job with a deadline only. Raises SkepError
    `deadline_cannot_be_met`."""
    if job.deadline_at is None:
        return
    late = deadline.issue_of(job, _forecast(job, spec))
    if late is None:
        return
    if deadline.admission_of(job.vc) == deadline.REFUSE:
        raise refusal(late)
    spec.notes.extend(spec.problems([late]))


def convert(user: User, text: str, format: str) -> dict[str, Any]:
    """Make a job file out of a Slurm script or a Kubeflow manifest: `text` and `notes`. Raises
    InvalidJobFile and TooMany."""
    with allowances.checking(user):
        return converted(text, format, user.pk)


def _issues(user: User, spec: ReadJob) -> tuple[VirtualCluster | None, list[Issue]]:
    """Return the virtual cluster of the job, and why it cannot become a job there."""
    job = spec.job
    vc = virtual_cluster.find(user, job)
    if vc is None:
        found = [admission.unknown_vc(user, job)]
    else:
        found = [*allowances.issues(user, job, vc), *admission.issues(job, vc)]
        asked = storages.of(user, job, vc)
        found += [*asked.wrong, *([] if job.extras.skep.ignore_storages else asked.missing)]
    found += dependencies.issues(user, job)
    if Job.objects.filter(owner=user, name=job.name).exists():
        found.append(Issue(NAME_TAKEN, name_taken(job.name).message, ("name",)))
    if issue := attachments.of(user, spec)[1]:
        found.append(issue)
    return vc, found


def _all_problems(spec: ReadJob, issues: list[Issue]) -> list[Problem]:
    """Return all that is wrong with the file, in the order of the text."""
    found = [*spec.errors, *spec.problems(issues)]
    return sorted(found, key=lambda problem: (problem.line, problem.column))


def admitted(
    user: User, spec: ReadJob, *, ignore_storage: bool
) -> tuple[VirtualCluster, AskedStorages]:
    """Return the virtual cluster of a job that is accepted, and the storages that it mounts. Raises
    what `submit` does."""
    vc = virtual_cluster.find(user, spec.job)
    if vc is None:
        raise refusal(admission.unknown_vc(user, spec.job))
    for issue in (
        *allowances.issues(user, spec.job, vc),
        *admission.issues(spec.job, vc),
        *dependencies.issues(user, spec.job),
    ):
        raise refusal(issue)
    asked = storages.of(user, spec.job, vc)
    for issue in (*asked.wrong, *([] if ignore_storage else asked.missing)):
        raise refusal(issue)
    return vc, asked


def refusal(issue: Issue) -> SkepError:
    """Return the error with which a submit answers for the first issue that it finds."""
    kind = REFUSALS.get(issue.code, SkepError)
    return kind(issue.message, code=issue.code, **issue.details)


REFUSALS = {
    "unknown_virtual_cluster": NotFound,
    storages.NOT_FOUND: NotFound,
    storages.NO_DATASET: NotFound,
    storages.FORBIDDEN: Forbidden,
}


def digest_of(text: str) -> str:
    """Return a digest of the text. It is keyed, so that a reader of it cannot guess the secrets of
    short files."""
    key = settings.SECRET_KEY.encode()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def not_stored(job: Job) -> Conflict:
    """Return why a job could not be stored: its name is taken, or something that it refers to, such
    as its archive or a storage, was deleted since it was looked at."""
    if Job.objects.filter(owner=job.owner, name=job.name).exists():
        return name_taken(job.name)
    return changed_meanwhile()


def name_taken(name: str) -> Conflict:
    message = f"You have a job named {name} already; names are not used again. Choose another."
    return Conflict(message, code=NAME_TAKEN, name=name)


def _forecast(job: Job, spec: ReadJob) -> Reason | None:
    if job.awaits_dependencies:
        return job.wait_reason
    if (begins := messages.begin_time(job.not_before)) is not None:
        return begins
    return queries.to_owner(ports.forecast_start.call(job, role_rows(job, spec, defaultdict(str))))


def submitted_before(user: User, client_token: str, digest: str) -> Job | None:
    """Return the job that was submitted with this idempotency key. `digest`: of what is submitted
    now. Raises Conflict `client_token_reused`."""
    job = (
        Job.objects.filter(owner=user, client_token=client_token)
        .select_related("owner", "vc")
        .first()
    )
    if job is not None and job.spec_digest != digest:
        message = "This idempotency key was used for another request; take a new one."
        raise Conflict(message, code="client_token_reused", job_id=str(job.pk))
    return job


def check_token(client_token: str) -> None:
    """Raise SkepError `client_token_invalid` for what cannot be an idempotency key."""
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
