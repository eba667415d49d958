"""Containers of running tasks that are saved as images.

The owner of a job asks for it, or an admin: those who may run commands in its containers. The
limit `save_image_mb` of the virtual cluster allows it, and its rules for images hold for the new
name. The agent of the node gets the complete list of what is not done yet, with the credentials of
whoever asked, or else of the virtual cluster, which are read from the sealed ones at that time.
A save that was cancelled is on the list no more, and the agent gives it up. Who asked is notified
of the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, models, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from skep_agent.protocol import ImageSaveReport, ImageSaves, ImageSaveSpec, ImageSpec
from skep_agent.registry_policy import RegistryPolicy, RegistryRefused, registry_of
from skep_jobfile.plain import plain
from skep_limits import can_be_pulled
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster.node_work import NodesWithWork
from skep_platform.core import notifications
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import notify, record
from skep_platform.core.models import Entity
from skep_platform.images import credentials, rules
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle.stopping import audited
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.tenancy.limits import limit, limits_of_many

MAX_OPEN = 4  # of one user at a time
MAX_A_DAY = 50  # of one user
LASTS = timedelta(hours=2)  # at the longest, with the wait for other saves of the node
KEPT = timedelta(days=90)
MAX_BYTES = 2**63 - 1
LIMIT = "save_image_mb"
CANCELLED = "save_cancelled"  # the code of a save that someone cancelled


class SaveState(models.TextChoices):
    WAITING = "WAITING"
    SAVING = "SAVING"  # the node writes the layer
    PUSHING = "PUSHING"
    DONE = "DONE"
    FAILED = "FAILED"


OPEN = (SaveState.WAITING, SaveState.SAVING, SaveState.PUSHING)


class ImageSave(Entity):
    """A container of a task that is saved as an image, as its agent reported it last. Kept for
    `KEPT`, also after its job."""

    job = models.ForeignKey(Job, models.SET_NULL, null=True, related_name="image_saves")
    attempt = models.ForeignKey(TaskAttempt, models.SET_NULL, null=True, related_name="+")
    epoch = models.PositiveBigIntegerField()  # of the attempt
    task = models.CharField(max_length=300)  # "worker-0"
    node = models.ForeignKey("cluster.Node", models.CASCADE, related_name="+", db_index=False)
    vc = models.ForeignKey("tenancy.VirtualCluster", models.CASCADE, related_name="+")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="image_saves", db_index=False
    )
    reference = models.CharField(max_length=512)
    state = models.CharField(max_length=16, choices=SaveState.choices, default=SaveState.WAITING)
    percent = models.PositiveSmallIntegerField(default=0)  # of the push
    code = models.CharField(max_length=64, blank=True)  # why it failed, as the next
    message = models.CharField(max_length=500, blank=True)
    digest = models.CharField(max_length=80, blank=True)
    size = models.PositiveBigIntegerField(null=True)  # bytes of what the task changed
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt"],
                condition=Q(state__in=["WAITING", "SAVING", "PUSHING"]),
                name="image_save_once_of_attempt",
            )
        ]
        indexes = [
            models.Index(fields=["created_by", "-created_at"], name="image_save_of_user"),
            models.Index(
                fields=["node"],
                condition=Q(state__in=["WAITING", "SAVING", "PUSHING"]),
                name="image_save_open_on_node",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task} as {self.reference}"


def request(user: User, job_id: UUID, rank: int, reference: str) -> ImageSave:
    """Ask that the container of a running task be saved as an image.

    Raises NotFound, Forbidden `may_not_save` and `saving_not_allowed`, SkepError
    `reference_invalid`, `registry_not_allowed`, `image_not_allowed` and `credential_missing`, and
    Conflict `not_running`, `save_under_way` and `too_many_saves`."""
    job = _own(user, job_id)
    if not limit(job.vc, LIMIT):
        message = (
            f"{job.vc.name} lets no container be saved as an image. Its VC admins allow it by the "
            f"limit {LIMIT}."
        )
        raise Forbidden(message, code="saving_not_allowed", limit=LIMIT)
    _check_reference(job, reference)
    if not credentials.read([user.pk], [job.vc_id]).login(user.pk, job.vc_id, reference):
        registry = registry_of(reference)
        message = (
            f"Neither you nor {job.vc.name} has a credential for {registry}. Store one that may "
            "push there in your profile, under registries."
        )
        raise SkepError(message, code="credential_missing", registry=registry)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        attempt = _running(job, rank)
        _check_numbers(user, attempt)
        made = ImageSave(
            job=job,
            attempt=attempt,
            epoch=attempt.epoch,
            task=f"{attempt.role.name}-{attempt.task.index}",
            node=attempt.node,
            vc=job.vc,
            created_by=user,
            reference=reference,
            expires_at=timezone.now() + LASTS,
        )
        try:
            with transaction.atomic():
                made.save(force_insert=True)
        except IntegrityError:  # another user asked for the same task at this moment
            raise _under_way() from None
        who = user.get_username()
        message = f"{who} asked to save {made.task} as the image {reference}."
        record("job", job.pk, "job.image_save", message, actor=who)
        audited(job, "job.image_save", after={"task": made.task, "reference": reference})
        notifications.notify_topic("job", str(job.pk))
    nodes_with_work.forget()
    return made


def cancel(user: User, save_id: UUID) -> None:
    """Give up a save that is under way: for who asked, and for those who may ask.

    Raises NotFound, Forbidden `may_not_save`, and Conflict `save_ended`."""
    with transaction.atomic():
        found = ImageSave.objects.filter(pk=save_id).select_for_update(of=("self",))
        row = found.select_related("created_by", "job", "vc").first()
        if row is None or (row.job is None and row.created_by_id != user.pk):
            raise NotFound(f"There is no save {save_id}.")
        if row.job_id is not None and row.created_by_id != user.pk:
            _own(user, row.job_id)
        if row.state not in OPEN:
            message = f"The save has ended already: it is {row.state}."
            raise Conflict(message, code="save_ended", state=row.state)
        row.state, row.code = SaveState.FAILED, CANCELLED
        row.message = f"{user.get_username()} cancelled it."
        _store(row, actor=user)
        audit.record(
            *("job.image_save_cancel", "job", row.job_id or "", row.job.name if row.job else ""),
            vc=row.vc,
            before={"task": row.task, "reference": row.reference},
        )


def of_job(user: User, job_id: UUID) -> QuerySet[ImageSave]:
    """Select the saves of a job. Raises NotFound and Forbidden `may_not_save`."""
    return _rows().filter(job=_own(user, job_id))


def saved_by(user: User) -> QuerySet[ImageSave]:
    """Select the saves of a user that are done."""
    return _rows().filter(created_by=user, state=SaveState.DONE)


def _rows() -> QuerySet[ImageSave]:
    return ImageSave.objects.select_related("created_by", "job", "vc")


def _own(user: User, job_id: UUID) -> Job:
    job = queries.find(user, job_id)
    if not queries.may_exec(user, job):
        message = "Only the owner of a job and admins may save its containers: they may look in."
        raise Forbidden(message, code="may_not_save")
    return job


def _check_reference(job: Job, reference: str) -> None:
    named, _, tag = reference.rpartition(":")
    if not can_be_pulled(reference) or "@" in reference or not named or "/" in tag:
        message = 'Name and tag of an image look like "registry.example.org/team/torch:mine".'
        raise SkepError(message, code="reference_invalid", reference=reference[:100])
    try:
        RegistryPolicy.parsed(settings.SKEP_REGISTRIES).check_name(reference)
    except RegistryRefused as error:
        raise SkepError(str(error), code="registry_not_allowed", reference=reference) from None
    found = rules.check(job.vc, reference)
    if not found["allowed"]:
        message = f"Jobs of {job.vc.name} may not use {reference}: {found['reason']}"
        raise SkepError(message, code="image_not_allowed", image=reference)


def _running(job: Job, rank: int) -> TaskAttempt:
    newest = (
        TaskAttempt.objects.filter(job=job, task__rank=rank)
        .select_related("node", "role", "task")
        .order_by("-index", "-retry")
        .first()
    )
    if newest is None and not job.tasks.filter(rank=rank).exists():
        raise NotFound(f"{job.name} has no task of rank {rank}.")
    if newest is None or newest.index != job.attempt or newest.state != AttemptState.RUNNING:
        state = newest.state if newest else job.state
        message = f"The task does not run: it is {state}. Only a running task can be saved."
        raise Conflict(message, code="not_running", state=state)
    return newest


def _check_numbers(user: User, attempt: TaskAttempt) -> None:
    mine = ImageSave.objects.filter(created_by=user)
    if ImageSave.objects.filter(attempt=attempt, state__in=OPEN).exists():
        raise _under_way()
    if (count := mine.filter(state__in=OPEN).count()) >= MAX_OPEN:
        message = f"{count} saves of yours are under way. Wait until one has ended."
        raise Conflict(message, code="too_many_saves", now=count, most=MAX_OPEN)
    since = timezone.now() - timedelta(days=1)
    if (count := mine.filter(created_at__gt=since).count()) >= MAX_A_DAY:
        message = f"You saved {count} images within a day, which is the most. Try again later."
        raise Conflict(message, code="too_many_saves", now=count, most=MAX_A_DAY)


def _under_way() -> Conflict:
    message = "This task is being saved already. Wait until that has ended."
    return Conflict(message, code="save_under_way")


# --- what nodes are sent, and what they report


def _open() -> QuerySet[ImageSave]:
    return ImageSave.objects.filter(state__in=OPEN, expires_at__gt=timezone.now()).order_by()


# The nodes with containers to save, as far as it is known and fresh.
nodes_with_work = NodesWithWork(
    lambda: frozenset(_open().values_list("node_id", flat=True).distinct())
)


NOTHING = ImageSaves(saves=[]).model_dump_json()


def frame(node_id: UUID) -> str:
    """Return what a node shall save, with the credentials for it. Four queries at most."""
    if node_id not in nodes_with_work():
        return NOTHING
    found = _open().filter(node=node_id, attempt__isnull=False).order_by("created_at", "pk")
    rows = [one for one in found.select_related("created_by", "job") if _is_permitted(one)]
    vcs = {one.vc_id for one in rows}
    logins = credentials.read({one.created_by_id for one in rows}, vcs)
    patterns = rules.of_many(vcs)
    limits = limits_of_many(vcs, LIMIT, "latest_images")
    saves = [
        ImageSaveSpec(
            save_id=str(one.pk),
            attempt_id=str(one.attempt_id),
            epoch=one.epoch,
            image=ImageSpec(
                reference=one.reference,
                **logins.login(one.created_by_id, one.vc_id, one.reference),
            ),
            max_bytes=limits[one.vc_id][LIMIT] * 1024**2,
            image_patterns=patterns.get(one.vc_id, []),
            latest_images=bool(limits[one.vc_id]["latest_images"]),
        )
        for one in rows
    ]
    return ImageSaves(saves=saves).model_dump_json()


def _is_permitted(row: ImageSave) -> bool:
    """Return whether who asked may still save the container."""
    return (
        row.job is not None
        and row.created_by.is_active
        and queries.may_exec(row.created_by, row.job)
    )


def apply_reports(node_id: UUID, reports: Sequence[ImageSaveReport]) -> None:
    """Store what a node reports of its own saves; of others, and of what ended, nothing."""
    newest: dict[UUID, ImageSaveReport] = {}
    for report in reports:
        try:
            save_id = UUID(report.save_id)
        except ValueError:
            continue
        known = newest.get(save_id)
        if known is None or known.state not in ("done", "failed"):  # progress may come late
            newest[save_id] = report
    for save_id, report in newest.items():
        with transaction.atomic():
            _apply(node_id, save_id, report)


def _apply(node_id: UUID, save_id: UUID, report: ImageSaveReport) -> None:
    row = _open().filter(pk=save_id, node=node_id).select_for_update().first()
    if row is None:
        return
    row.state = SaveState(report.state.upper())
    row.percent = min(max(report.percent, 0), 100)
    row.digest = _text(report.digest, 80)
    row.size = min(max(report.size, 0), MAX_BYTES) or None
    if row.state == SaveState.FAILED:
        row.code = _text(report.code, 64) or "save_failed"
        row.message = _text(report.message, 500)
    _store(row)


def _store(row: ImageSave, actor: User | None = None) -> None:
    """`actor`: who ended it, and is not notified of it."""
    if row.state not in OPEN:
        row.ended_at = timezone.now()
        nodes_with_work.forget()
        done = row.state == SaveState.DONE
        said = f"{row.task} was saved as the image {row.reference}."
        if not done:
            said = f"{row.task} was not saved as {row.reference}: {row.message}"
        kind = "job.image_saved" if done else "job.image_not_saved"
        if row.job_id:
            by = actor.get_username() if actor else ""
            record("job", row.job_id, kind, said, actor=by, code=row.code, digest=row.digest)
        if actor is None or actor.pk != row.created_by_id:
            _notify(row, kind, said)
    row.save()
    if row.job_id:
        notifications.notify_topic("job", str(row.job_id))


def _notify(row: ImageSave, kind: str, said: str) -> None:
    """Notify who asked, who need not be the owner of the job."""
    url = f"/jobs/{row.job_id}" if row.job_id else "/jobs"
    notify(kind, "user", row.created_by_id, said, name=row.reference, url=url)


def _text(text: str, most: int) -> str:
    return plain(text.replace("\0", ""))[:most]


def tidy() -> None:
    """End saves whose time is over, or whose user may not save any more, and delete old ones."""
    now = timezone.now()
    over = ImageSave.objects.filter(state__in=OPEN, expires_at__lte=now).order_by("pk")
    for pk in over.values_list("pk", flat=True)[:ROUND]:
        message = "The node did not report its end in time; its agent may be older."
        _end(pk, "save_timeout", message)
    # All but those of owners who are active: few are left, as those of admins.
    doubtful = Q(created_by__is_active=False) | Q(job=None) | ~Q(created_by=F("job__owner"))
    for row in _open().filter(doubtful).select_related("created_by", "job")[:ROUND]:
        if not _is_permitted(row):
            message = "Who asked for it may not save the containers of this job any more."
            _end(row.pk, "may_not_save", message)
    old = ImageSave.objects.filter(created_at__lt=now - KEPT).values("pk")[:ROUND]
    ImageSave.objects.filter(pk__in=old).delete()


@transaction.atomic
def _end(pk: UUID, code: str, message: str) -> None:
    row = ImageSave.objects.filter(pk=pk, state__in=OPEN).select_for_update().first()
    if row is not None:
        row.state, row.code, row.message = SaveState.FAILED, code, message
        _store(row)


ROUND = 500  # of rows in one round of `tidy`


def shown(row: ImageSave) -> dict[str, Any]:
    """Return what the API shows of a save."""
    return {
        "id": row.pk,
        "job": row.job_id,
        "job_name": row.job.name if row.job else "",
        "virtual_cluster": row.vc.name,
        "task": row.task,
        "reference": row.reference,
        "state": row.state,
        "percent": row.percent,
        "code": row.code,
        "message": row.message,
        "digest": row.digest,
        "size": row.size,
        "created_by": row.created_by.get_username(),
        "created_at": row.created_at,
        "ended_at": row.ended_at,
    }
