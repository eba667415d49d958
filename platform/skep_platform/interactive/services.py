"""All writes to apps and to the logins at them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import notifications
from skep_platform.core.bulk import deletion_time
from skep_platform.core.errors import Conflict, Forbidden, SkepError, TooMany, Unavailable
from skep_platform.core.events import record
from skep_platform.interactive import queries, templates
from skep_platform.interactive.models import App, AppSession, AppType
from skep_platform.jobs import queries as jobs
from skep_platform.jobs import services as job_services
from skep_platform.jobs.lifecycle.job_state import lock
from skep_platform.jobs.lifecycle.messages import reason
from skep_platform.jobs.lifecycle.stopping import audited, stop_locked
from skep_platform.jobs.models import Job, TaskRole
from skep_platform.jobs.states import JOB, JobState
from skep_platform.tenancy import queries as tenancy

CODE_S = 60  # in which the browser brings its code to the app's origin
SESSION_S = 12 * 3600
MAX_CODES = 20  # unused ones of one user
MAX_APPS = 16  # of one job
ACTIVE_EVERY = timedelta(seconds=30)  # how exactly use is recorded


def store_declared(job: Job) -> None:
    """Store the apps that the file of a new job declares. Two inserts at most."""
    roles = list(job.spec["taskRoles"])
    declared = job.spec["extras"]["skep"]["apps"]
    App.objects.bulk_create(
        App(
            job=job,
            name=app["name"],
            type=app["type"],
            role=app.get("taskRole") or roles[0],
            port=app.get("port"),
            path=app["path"],
            idle_stop=app["idleStop"],
        )
        for app in declared
    )


def create(
    user: User,
    *,
    type: str,
    image: str,
    virtual_cluster: str,
    name: str = "",
    gpus: int = 0,
    cpus: int = 2,
    memory_mb: int = 4096,
    storages: Sequence[str] = (),
    log_dir: str = "",
) -> App:
    """Submit a job whose only work is an app. Raises what the submit of a job raises, and SkepError
    `log_dir_missing`."""
    kind = AppType(type)
    if kind == AppType.TENSORBOARD and not log_dir:
        message = "Name the folder that TensorBoard shows, such as /mnt/STORAGE/runs."
        raise SkepError(message, code="log_dir_missing")
    text = templates.job_file(
        name or f"{kind}-{secrets.token_hex(3)}",
        kind,
        image,
        virtual_cluster,
        gpus=gpus,
        cpus=cpus,
        memory_mb=memory_mb,
        storages=storages,
        log_dir=log_dir,
    )
    job = job_services.submit(user, text)
    app = queries.openable_by(user).get(job=job)
    audit.record("app.create", "job", job.pk, job.name, vc=job.vc, app=app.name, type=app.type)
    return app


@transaction.atomic
def attach_tensorboard(user: User, job_id: UUID, log_dir: str, role: str = "") -> App:
    """Show a folder of a running task in TensorBoard, which the platform starts in it. The same
    folder again gives the same app. Raises NotFound, Forbidden `may_not_run_apps`, Conflict
    `not_running` and TooMany `too_many_apps`."""
    job = jobs.find(user, job_id)
    own = job.owner_id == user.pk and tenancy.may_submit(user, job.vc)
    if not own and not tenancy.is_admin(user):
        message = "Only the owner of a job and admins may start TensorBoard in it."
        raise Forbidden(message, code="may_not_run_apps")
    if job.state != JobState.RUNNING:
        raise Conflict(f"The job is {job.state}, not running.", code="not_running", state=job.state)
    Job.objects.select_for_update().get(pk=job.pk)
    rows = TaskRole.objects.filter(job=job).order_by("position")
    roles = list(rows.values_list("name", flat=True))
    if role and role not in roles:
        message = f"The job has no task role {role}. Its roles are: {', '.join(roles[:20])}."
        raise SkepError(message, code="unknown_task_role", field="task_role")
    apps = list(App.objects.filter(job=job))
    wanted = role or roles[0]
    for app in apps:
        if (app.log_dir, app.role) == (log_dir, wanted):
            return queries.find(user, app.pk)
    if len(apps) >= MAX_APPS:
        raise TooMany(f"A job has at most {MAX_APPS} apps.", code="too_many_apps", most=MAX_APPS)
    taken = {app.port for app in apps}
    port = next(n for n in range(templates.TENSORBOARD_PORT, 65536) if n not in taken)
    names = {app.name for app in apps}
    name = next(n for n in _names() if n not in names)
    app = App.objects.create(
        job=job, name=name, type=AppType.TENSORBOARD, role=wanted, port=port, log_dir=log_dir
    )
    who = user.get_username()
    message = f"{who} started TensorBoard for {log_dir}."
    record("job", job.pk, "job.app_attached", message, actor=who, app=name)
    audit.record("app.attach", "job", job.pk, job.name, vc=job.vc, app=name, log_dir=log_dir)
    return queries.find(user, app.pk)


def _names() -> Any:
    yield "tensorboard"
    for number in range(2, MAX_APPS + 2):
        yield f"tensorboard-{number}"


@transaction.atomic
def share(user: User, app: App, shared: bool) -> App:
    """Share an app with those who may submit to its virtual cluster, or end that. Who opens a
    notebook acts in it with its owner's rights. Raises Forbidden `may_not_share`."""
    if not jobs.may_share(user, app.job):
        raise Forbidden(
            "Only the owner of its job and admins may share an app.", code="may_not_share"
        )
    if app.shared != shared:
        App.objects.filter(pk=app.pk).update(shared=shared)
        who = user.get_username()
        what = f"shared with {app.job.vc.name}" if shared else "not shared any more"
        record("job", app.job_id, "job.app_shared", f"App {app.name} is {what}.", actor=who)
        before, after = {"shared": app.shared}, {"shared": shared}
        audit.record(
            "app.share", "job", app.job_id, app.job.name, before=before, after=after, vc=app.job.vc
        )
        app.shared = shared
        notifications.notify_topic("job", str(app.job_id))
    return app


# --- logins at an app


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def app_url(app: App) -> str:
    """Return the origin of an app. Raises Unavailable `apps_not_configured`."""
    url: str = settings.SKEP_APPS_URL
    if not url:
        message = "Apps cannot be opened here: an administrator has to set SKEP_APPS_URL."
        raise Unavailable(message, code="apps_not_configured")
    scheme, _, host = url.partition("://")
    return f"{scheme}://{app.label}.{host}"


@transaction.atomic
def open_app(user: User, login_key: str, app: App, state: str) -> str:
    """Return the address at which the browser that is logged in by this session gets its cookie at
    the app's origin: it holds a code that works once and for a minute. `state` was made by that
    origin for the same browser. Raises TooMany `too_many_codes`."""
    origin = app_url(app)
    now = timezone.now()
    pending = AppSession.objects.filter(user=user, token_digest=None, expires_at__gt=now)
    if pending.count() >= MAX_CODES:
        message = "Too many apps were opened in a short time; wait a minute."
        raise TooMany(message, code="too_many_codes", retry_after_s=CODE_S)
    code = secrets.token_urlsafe(32)
    AppSession.objects.create(
        app=app,
        user=user,
        login_id=login_key,
        code_digest=digest(code),
        state_digest=digest(state),
        expires_at=now + timedelta(seconds=CODE_S),
    )
    who = user.get_username()
    record("job", app.job_id, "job.app_opened", f"{who} opened {app.name}.", actor=who)
    audit.record("app.open", "job", app.job_id, app.job.name, vc=app.job.vc, app=app.name)
    return f"{origin}/_skep/login?code={code}"


def redeem(label: str, code: str, state: str) -> str | None:
    """Exchange a code for the value of the cookie: once, in time, for the same app and browser."""
    token, now = secrets.token_urlsafe(32), timezone.now()
    changed = AppSession.objects.filter(
        code_digest=digest(code),
        state_digest=digest(state),
        app__label=label,
        token_digest=None,
        expires_at__gt=now,
    ).update(token_digest=digest(token), expires_at=now + timedelta(seconds=SESSION_S))
    return token if changed else None


def tidy() -> None:
    """Delete logins that ended, a bounded number."""
    old = AppSession.objects.filter(expires_at__lt=deletion_time()).order_by("expires_at")[:10_000]
    AppSession.objects.filter(pk__in=old.values("pk")).delete()


# --- what the watcher and the proxy find out


def used(app_id: UUID) -> None:
    """Record that a user works with an app now."""
    now = timezone.now()
    seen = App.objects.filter(pk=app_id).filter(
        Q(active_at=None) | Q(active_at__lt=now - ACTIVE_EVERY)
    )
    seen.update(active_at=now, warned_at=None)


@transaction.atomic
def answered(app: App, attempt_id: UUID) -> None:
    """Record that an app answers, for the first time in this attempt."""
    now = timezone.now()
    fields = {"ready_attempt": attempt_id, "ready_at": now, "problem": "", "warned_at": None}
    if App.objects.filter(pk=app.pk).exclude(ready_attempt=attempt_id).update(**fields):
        message = f"App {app.name} answers on port {app.port}."
        record("job", app.job_id, "job.app_ready", message, app=app.name)
        notifications.notify_topic("job", str(app.job_id))


def silent(app: App, problem: str) -> None:
    """Record why an app does not answer."""
    App.objects.filter(pk=app.pk).exclude(problem=problem[:500]).update(problem=problem[:500])


def launched(app: App, attempt_id: UUID) -> bool:
    """Claim the start of an app in an attempt. Return False where it was started already."""
    rows = App.objects.filter(pk=app.pk).exclude(launched_attempt=attempt_id)
    rows = rows | App.objects.filter(pk=app.pk, launched_attempt=None)
    return bool(rows.update(launched_attempt=attempt_id))


@transaction.atomic
def warn_idle(app: App, idle_minutes: int, left_minutes: int) -> None:
    """Write the warning that an app's job will be stopped, once."""
    seen = App.objects.filter(pk=app.pk, warned_at=None, active_at=app.active_at)
    if seen.update(warned_at=timezone.now()):
        message = (
            f"App {app.name} has not been used for {idle_minutes} minutes: the job will be stopped "
            f"in {left_minutes} minutes. Open the app to keep it."
        )
        data: dict[str, Any] = {
            "app": app.name,
            "idle_minutes": idle_minutes,
            "left_minutes": left_minutes,
        }
        record("job", app.job_id, "job.app_idle", message, **data)
        notifications.notify_topic("job", str(app.job_id))


@transaction.atomic
def stop_idle(app: App, minutes: int) -> bool:
    """Stop the job of an app that was not used for so long. Return whether it was stopped."""
    found = lock(Job.objects.filter(pk=app.job_id))
    now = timezone.now()
    fresh = App.objects.filter(pk=app.pk).first()
    if fresh is None or not found or found[0].row.state not in JOB.active:
        return False
    used_since = fresh.active_at and fresh.active_at > now - timedelta(minutes=minutes)
    if used_since or found[0].row.stop_requested_at is not None:
        return False
    message = f"Stopped because its app {app.name} was not used for {minutes} minutes."
    why = reason("app_idle", message, app=app.name, minutes=minutes)
    stop_locked(found[0], why, actor="")
    audited(app.job, "job.stop", owner=app.job.owner.get_username(), code="app_idle")
    return True
