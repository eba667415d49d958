"""Apps of jobs, and the logins of people at them."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import models

from skep_platform.core.models import Entity
from skep_platform.jobs.models import Job, TaskAttempt

_LABEL = "abcdefghijkmnpqrstuvwxyz23456789"


def new_label() -> str:
    """Return a random DNS label, the first part of an app's host name."""
    return "".join(secrets.choice(_LABEL) for _ in range(20))


class AppType(models.TextChoices):
    """`web` is any other program that answers HTTP; a `shell` is the page's terminal."""

    JUPYTERLAB = "jupyterlab"
    CODE_SERVER = "code-server"
    TENSORBOARD = "tensorboard"
    SHELL = "shell"
    WEB = "web"


class App(Entity):
    """A program in the first task of a role of a job, which answers HTTP on a port.

    What state it is in follows from its job, and from `ready_attempt`: the task attempt in which it
    was last seen to answer."""

    job = models.ForeignKey(Job, models.CASCADE, related_name="apps")
    name = models.CharField(max_length=32)
    type = models.CharField(max_length=16, choices=AppType.choices)
    # Its host is `label`.SKEP_APPS_URL. Never used again: what a browser keeps of an origin must
    # not reach another tenant's app.
    label = models.CharField(max_length=32, unique=True, default=new_label)
    role = models.CharField(max_length=255)  # task 0 of it
    port = models.PositiveIntegerField(null=True)  # null: of a shell
    path = models.CharField(max_length=500, default="/")  # what is opened first
    # The job is stopped when no one has used the app for as long as its virtual cluster allows.
    idle_stop = models.BooleanField(default=False)
    shared = models.BooleanField(default=False)  # with those who may submit to the virtual cluster
    # Started by the platform in a task that runs, in this folder; "": the job file declares it.
    log_dir = models.CharField(max_length=500, blank=True)
    launched_attempt = models.UUIDField(null=True)
    ready_attempt = models.UUIDField(null=True)
    ready_at = models.DateTimeField(null=True)
    problem = models.CharField(max_length=500, blank=True)  # why it does not answer yet
    probed_at = models.DateTimeField(null=True)  # claims the next look at it, see `watching`
    active_at = models.DateTimeField(null=True)  # when a user worked with it last
    warned_at = models.DateTimeField(null=True)  # that it will be stopped; null: not since its use

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="app_name_per_job")]

    def __str__(self) -> str:
        return self.name

    def idle_for(self, now: datetime, attempt: TaskAttempt) -> timedelta:
        """Return for how long no one has used it: at most since it answered in this attempt."""
        begun = self.ready_at if self.ready_attempt == attempt.pk else attempt.created_at
        since = max(moment for moment in (self.active_at, begun, self.created_at) if moment)
        return now - since


class AppSession(models.Model):
    """The login of a user at the origin of one app. It begins with a code, which the user's browser
    takes from the platform's page to the app's origin and exchanges there, once, for a cookie. Code
    and cookie are stored as hashes. It ends with the login at the platform."""

    app = models.ForeignKey(App, models.CASCADE, related_name="sessions")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    login = models.ForeignKey(Session, models.CASCADE, related_name="+")
    code_digest = models.CharField(max_length=64, unique=True)
    state_digest = models.CharField(max_length=64)  # of the browser that asked
    token_digest = models.CharField(max_length=64, unique=True, null=True)  # null: code not used
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()  # of the code, then of the cookie

    class Meta:
        indexes = [models.Index(fields=["expires_at"], name="app_session_expiry")]
