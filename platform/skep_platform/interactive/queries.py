"""All reads of apps, and who may open one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.core.errors import NotFound
from skep_platform.gateway.callers import Credential
from skep_platform.interactive.models import App, AppSession, AppType
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import JOB, AttemptState, JobState
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Membership
from skep_platform.tenancy.queries import AnyUser

# What an app is doing, in the words of the API.
WAITING, STARTING, READY, ENDED = "waiting", "starting", "ready", "ended"
STATES = (WAITING, STARTING, READY, ENDED)


def openable_by(user: AnyUser) -> QuerySet[App]:
    """Select the apps that the user may open: those of the own jobs, where the user may still
    submit, and shared ones of the user's virtual clusters; all for an admin, who may run commands
    in every job as well."""
    apps = App.objects.select_related("job__owner", "job__vc")
    if tenancy.is_admin(user):
        return apps
    member = Membership.objects.filter(
        vc=OuterRef("job__vc"), user_id=user.pk, role__in=Membership.SUBMITTERS
    )
    return apps.filter(Exists(member), Q(job__owner_id=user.pk) | Q(shared=True))


def find(user: AnyUser, app_id: UUID) -> App:
    """Return an app that the user may open. Raises NotFound, also when it exists."""
    app = openable_by(user).filter(pk=app_id).first()
    if app is None:
        raise NotFound("There is no such app, or it is not shared with you.", code="app_not_found")
    return app


def unfinished() -> Q:
    return Q(job__state__in=JOB.active)


def attempts_of(apps: Collection[App]) -> dict[UUID, TaskAttempt]:
    """Return the running attempt of the task of each app, by the app's id. One query."""
    jobs = {app.job_id for app in apps if app.job.state == JobState.RUNNING}
    if not jobs:
        return {}
    rows = TaskAttempt.objects.filter(
        job__in=jobs, task__index=0, state=AttemptState.RUNNING
    ).select_related("role", "task", "node")
    running = {(row.job_id, row.role.name): row for row in rows}
    found = {app.pk: running.get((app.job_id, app.role)) for app in apps}
    return {pk: attempt for pk, attempt in found.items() if attempt is not None}


def answers_now() -> Exists:
    """Match apps that were seen to answer in the attempt that runs."""
    running = TaskAttempt.objects.filter(pk=OuterRef("ready_attempt"), state=AttemptState.RUNNING)
    return Exists(running)


def state_of(app: App, attempt: TaskAttempt | None) -> str:
    """Return the state of an app, given the running attempt of its task."""
    if app.job.state not in JOB.active or app.job.state == JobState.STOPPING:
        return ENDED
    if attempt is None:
        return WAITING
    if app.type == AppType.SHELL or app.ready_attempt == attempt.pk:
        return READY
    return STARTING


@dataclass(frozen=True, slots=True)
class Grant:
    """A login at an app that is valid now; `attempt` is where the app runs, if it does."""

    app: App
    user: User
    attempt: TaskAttempt | None

    @property
    def ready(self) -> bool:
        return state_of(self.app, self.attempt) == READY


def grant(label: str, token_digest: str) -> Grant | None:
    """Return what a cookie of an app's origin gives: None once the session expired, the user is
    logged out at the platform or deactivated, or may not open the app any more."""
    session = (
        AppSession.objects.filter(
            app__label=label, token_digest=token_digest, expires_at__gt=timezone.now()
        )
        .only("user_id", "login_id", "app_id")
        .first()
    )
    if session is None:
        return None
    user = Credential("", session.login_id).user()
    if user is None or user.pk != session.user_id:
        return None
    app = openable_by(user).filter(pk=session.app_id).first()
    return Grant(app, user, attempts_of([app]).get(app.pk)) if app else None


def exists(label: str) -> UUID | None:
    """Return the id of the app with this host label."""
    return App.objects.filter(label=label).values_list("pk", flat=True).first()
