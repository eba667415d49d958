"""Who may reach into which task, how, and that it is told."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qs
from uuid import UUID

from django.core.cache import cache

from skep_agent.protocol import OpenStream
from skep_platform.accounts import scopes
from skep_platform.accounts.models import User
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.gateway.frames import CLOSE_MALFORMED
from skep_platform.gateway.socket import Refusal
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState
from skep_platform.tenancy import queries as tenancy

MAX_ASKED = 64 * 1024  # characters of a first frame
MAX_ARGV = 1000
MAX_CELLS = 1000  # rows and columns of a terminal
MAX_PORT = 65535
TOLD_AGAIN_S = 600  # a browser opens many connections: one event tells of them


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
    """What a user was allowed."""

    job_id: UUID
    attempt_id: UUID
    node_id: UUID
    task: str  # as in "worker-0"
    asked: Asked

    def order(self, stream_id: str) -> str:
        """For the node's agent."""
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

    def record(self, user: User) -> None:
        """As an event of the job, without the command: it may hold a secret."""
        who, port = user.get_username(), self.asked.port
        if self.asked.kind == "exec":
            message = f"{who} ran a command in {self.task}."
            record("job", self.job_id, "job.exec", message, actor=who, task=self.task)
            return
        told = f"skep:forward-told:{self.attempt_id}:{user.pk}:{port}"
        if cache.add(told, 1, TOLD_AGAIN_S):
            message = f"{who} connected to port {port} of {self.task}."
            record("job", self.job_id, "job.forward", message, actor=who, task=self.task, port=port)


def asked_exec(frame: str | bytes) -> Asked:
    """Raises Refusal."""
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
    """Raises Refusal."""
    given = parse_qs(query.decode("latin-1")).get("port", [""])[-1]
    if not (given.isascii() and given.isdigit() and 0 < int(given[:6]) <= MAX_PORT):
        message = "Which port? Add ?port=8888 to the address."
        raise Refusal("port_invalid", message, CLOSE_MALFORMED)
    return Asked("forward", port=int(given))


def reach(user: User, attempt_id: UUID, asked: Asked) -> Reach:
    """Raises NotFound, Forbidden, and Conflict `not_running` or `node_unreachable`."""
    scopes.check(scopes.of(user), scopes.Scope.SUBMIT)
    rows = TaskAttempt.objects.filter(pk=attempt_id, job__in=jobs.visible_to(user))
    attempt = rows.select_related("job", "role", "task", "node").first()
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
    return Reach(attempt.job_id, attempt.pk, attempt.node_id, task, asked)


def may_reach(user: User, attempt_id: UUID) -> bool:
    if not scopes.allows(scopes.of(user), scopes.Scope.SUBMIT):
        return False
    job = jobs.visible_to(user).filter(attempts=attempt_id).first()
    return job is not None and _may(user, job)


def _may(user: User, job: Job) -> bool:
    """Who left the virtual cluster may read what the own jobs did, and not work there any more."""
    if tenancy.is_admin(user):
        return True
    return job.owner_id == user.pk and tenancy.role_in(user, job.vc) is not None


def _check_port(attempt: TaskAttempt, task: str, port: int) -> None:
    """On the node's own network other ports belong to others."""
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
    return tuple(argv)


def _cells(value: Any) -> int:
    if isinstance(value, bool) or not 0 < _typed(int, value) <= MAX_CELLS:
        raise ValueError
    return int(value)


def _typed(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError
    return value
