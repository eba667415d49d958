"""Who opened a socket of a user, whether the credential is still valid, and the notification of
live sockets whose right to subscribe may have ended; and who may open streams into which task, with
the event that records it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal
from urllib.parse import parse_qs
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.contrib.sessions.models import Session
from django.core.cache import cache
from django.db import transaction
from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.http import HttpRequest, parse_cookie
from django.http.request import split_domain_port, validate_host
from knox.crypto import hash_token

from skep_agent.protocol import OpenStream
from skep_platform.accounts import current_user, mfa
from skep_platform.accounts import queries as accounts
from skep_platform.accounts.models import ApiToken, Scope, User
from skep_platform.audit import services as audit
from skep_platform.core import notifications
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.core.middleware import session_key
from skep_platform.core.serving import own_origin
from skep_platform.gateway.socket import CLOSE_MALFORMED, Refusal, Socket
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.memberships import memberships_changed
from skep_platform.tenancy.models import Membership


@dataclass(frozen=True, slots=True)
class Credential:
    """An API token, or the session cookie of a browser."""

    token: str
    session_key: str

    @classmethod
    def of(cls, socket: Socket) -> Credential:
        cookies = parse_cookie(socket.header("cookie"))
        return cls(socket.bearer(), session_key(cookies) or "")

    def group(self) -> str:
        """Return the channel group that is notified when this credential ends."""
        return token_group(self.token) if self.token else session_group(self.session_key)

    def user(self) -> User | None:
        """Return the user, from the database: None once the credential expired or was revoked, or
        its user may not log in."""
        if self.token:
            found = accounts.living_token(self.token)
            # The token of a job opens no sockets: no shells, no ports.
            return found.user if found and found.job_id is None else None
        return _session_user(self.session_key) if self.session_key else None


def origin_allowed(socket: Socket) -> bool:
    """Return whether the caller may use its credential. A page of another site must not use a
    visitor's cookie: the browser names the page's site in the header Origin, which only a program
    with a token may leave out."""
    origin = socket.header("origin").lower()
    if not origin:
        return bool(socket.bearer())
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    domain, _ = split_domain_port(socket.header("host").lower())
    return origin == own_origin(socket.scope) and validate_host(domain, settings.ALLOWED_HOSTS)


def session_group(session_key: str) -> str:
    return f"live.login.{hashlib.sha256(session_key.encode()).hexdigest()[:40]}"


def token_group(token: str) -> str:
    return digest_group(hash_token(token))


def digest_group(digest: str) -> str:
    """Return the channel group of a token; `digest` is the key of its row."""
    return f"live.login.{digest[:40]}"


def user_group(user_id: object) -> str:
    """Return the channel group that is notified when what a user may see or do has changed."""
    return f"live.user.{user_id}"


def _session_user(session_key: str) -> User | None:
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(request)
    if not isinstance(user, User) or mfa.is_missing(user, request.session):
        return None
    return user


RIGHTS_CHANGED: notifications.Message = {"type": "rights.changed"}


@receiver(post_delete, sender=Session)
def session_ended(instance: Session, **_: Any) -> None:
    notifications.notify(session_group(instance.session_key), RIGHTS_CHANGED)


@receiver(post_delete, sender=ApiToken)
def token_revoked(instance: ApiToken, **_: Any) -> None:
    notifications.notify(digest_group(instance.digest), RIGHTS_CHANGED)


@receiver(post_save, sender=User)
def user_changed(instance: User, update_fields: frozenset[str] | None = None, **_: Any) -> None:
    if update_fields != frozenset({"last_login"}):
        notifications.notify(user_group(instance.pk), RIGHTS_CHANGED)


@receiver([post_save, post_delete], sender=Membership)
def membership_changed(instance: Membership, **_: Any) -> None:
    notifications.notify(user_group(instance.user_id), RIGHTS_CHANGED)


@receiver(memberships_changed)
def several_changed(users: Iterable[int], **_: Any) -> None:
    for user in users:
        notifications.notify(user_group(user), RIGHTS_CHANGED)


MAX_ASKED = 64 * 1024  # characters of a first frame
MAX_ARGV = 1000
MAX_CELLS = 1000  # rows and columns of a terminal
MAX_PORT = 65535
AUDITED = {"exec": "job.exec", "forward": "job.port_forward"}
RECORD_EVERY_S = 600  # a browser opens many connections, which are one event


@dataclass(frozen=True, slots=True)
class Asked:
    kind: Literal["exec", "forward"]
    argv: tuple[str, ...] = ()
    tty: bool = False
    rows: int = 24
    cols: int = 80
    port: int = 0


@dataclass(frozen=True, slots=True)
class Reach:
    """A stream that a user may open."""

    job_id: UUID
    attempt_id: UUID
    node_id: UUID
    task: str  # as in "worker-0"
    asked: Asked
    job: Job  # with `vc`

    def order(self, stream_id: str) -> str:
        """Return the message that asks the node's agent to dial."""
        asked = self.asked
        message = OpenStream(
            stream_id=stream_id,
            attempt_id=str(self.attempt_id),
            kind=asked.kind,
            argv=list(asked.argv),
            tty=asked.tty,
            rows=asked.rows,
            cols=asked.cols,
            port=asked.port,
        )
        return message.model_dump_json()

    @transaction.atomic
    def record(self, user: User) -> bool:
        """Record the beginning in an event of the job and in the audit log, without the command,
        which may hold a secret. Return whether it was recorded: connections to a port are recorded
        once in RECORD_EVERY_S."""
        who, port = user.get_username(), self.asked.port
        if self.asked.kind == "exec":
            message = f"{who} ran a command in {self.task}."
            record("job", self.job_id, "job.exec", message, actor=who, task=self.task)
        else:
            recorded = f"skep:forward-recorded:{self.attempt_id}:{user.pk}:{port}"
            if not cache.add(recorded, 1, RECORD_EVERY_S):
                return False
            message = f"{who} connected to port {port} of {self.task}."
            record("job", self.job_id, "job.forward", message, actor=who, task=self.task, port=port)
        self._audit(AUDITED[self.asked.kind])
        return True

    def record_end(self, seconds: float) -> None:
        """Record in the audit log that the stream ended, and how long it was open."""
        self._audit(f"{AUDITED[self.asked.kind]}.end", duration_s=round(seconds, 1))

    def _audit(self, action: str, **facts: Any) -> None:
        facts |= {"port": self.asked.port} if self.asked.port else {}
        audit.record(
            action,
            "job",
            self.job_id,
            self.job.name,
            vc=self.job.vc,
            task=self.task,
            attempt=self.attempt_id,
            **facts,
        )


def asked_exec(frame: str | bytes) -> Asked:
    """Parse the first frame of an exec stream. Raises Refusal."""
    try:
        if not isinstance(frame, str) or len(frame) > MAX_ASKED:
            raise ValueError
        known = {"argv": [], "tty": False, "rows": 24, "cols": 80, **json.loads(frame)}
        return Asked(
            "exec",
            argv=_argv(known["argv"]),
            tty=_typed(bool, known["tty"]),
            rows=_cells(known["rows"]),
            cols=_cells(known["cols"]),
        )
    except (ValueError, TypeError, RecursionError):
        message = 'First comes {"argv": ["..."], "tty": true, "rows": 24, "cols": 80} as text.'
        raise Refusal("message_invalid", message, CLOSE_MALFORMED) from None


def asked_forward(query: bytes) -> Asked:
    """Parse the query of a forwarded connection. Raises Refusal."""
    given = parse_qs(query.decode("latin-1")).get("port", [""])[-1]
    if not (given.isascii() and given.isdigit() and 0 < int(given[:6]) <= MAX_PORT):
        message = "Which port? Add ?port=8888 to the address."
        raise Refusal("port_invalid", message, CLOSE_MALFORMED)
    return Asked("forward", port=int(given))


def reach(user: User, attempt_id: UUID, asked: Asked) -> Reach:
    """Return the stream that the user asks for. Raises NotFound, Forbidden, and Conflict
    `not_running` or `node_unreachable`."""
    current_user.check_scope(current_user.scope_of(user), Scope.SUBMIT)
    rows = TaskAttempt.objects.filter(pk=attempt_id, job__in=jobs.visible_to(user))
    attempt = rows.select_related("job__vc", "role", "task", "node").first()
    if attempt is None:
        raise NotFound("There is no such task attempt.")
    if not _may(user, attempt.job):
        raise Forbidden("Only the owner of a job and admins may reach into its tasks.")
    task = f"{attempt.role.name}-{attempt.task.index}"
    if attempt.state != AttemptState.RUNNING:
        message = f"{task} is not running: it is {attempt.state}."
        raise Conflict(message, code="not_running", state=attempt.state)
    if not attempt.node.connected:
        message = f"Node {attempt.node.name} is not connected."
        raise Conflict(message, code="node_unreachable", node=attempt.node.name)
    if asked.kind == "forward":
        _check_port(attempt, task, asked.port)
    return Reach(attempt.job_id, attempt.pk, attempt.node_id, task, asked, attempt.job)


def may_reach(user: User, attempt_id: UUID) -> bool:
    if not current_user.scope_allows(current_user.scope_of(user), Scope.SUBMIT):
        return False
    job = jobs.visible_to(user).filter(attempts=attempt_id).first()
    return job is not None and _may(user, job)


def _may(user: User, job: Job) -> bool:
    """Return whether the user may work in the job's tasks: its owner while a member of the virtual
    cluster (who left it, or is a viewer by now, may still read the job), and admins."""
    if tenancy.is_admin(user):
        return True
    return job.owner_id == user.pk and tenancy.may_submit(user, job.vc)


def _check_port(attempt: TaskAttempt, task: str, port: int) -> None:
    """Refuse ports that belong to other processes of the node's own network."""
    own = sorted(number for numbers in attempt.ports.values() for number in numbers)
    if attempt.network == "host" and port not in own:
        listed = ", ".join(map(str, own))
        message = f"{task} is on its node's network: only its own ports are reachable, {listed}."
        error = SkepError(message, code="port_not_allowed", ports=own)
        error.status = 403
        raise error


def _argv(value: Any) -> tuple[str, ...]:
    argv = _typed(list, value)
    if len(argv) > MAX_ARGV or not all(isinstance(a, str) and "\0" not in a for a in argv):
        raise ValueError
    "".join(argv).encode()  # a lone surrogate is a ValueError, and no text for the agent
    return tuple(argv)


def _cells(value: Any) -> int:
    if isinstance(value, bool) or not 0 < _typed(int, value) <= MAX_CELLS:
        raise ValueError
    return int(value)


def _typed(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value
