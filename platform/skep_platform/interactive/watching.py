"""Looks after apps: starts those that the platform was asked to start in a running task, notices
when one answers, and stops the jobs of those that no one uses.

Runs in every proxy process. A look is claimed in the database, so that several processes share the
work; what one of them leaves undone, another one does after `LOOK_S`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from uuid import UUID

import httpcore
import structlog
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from skep_agent.frames import Channel
from skep_agent.protocol import OpenStream
from skep_platform.core.compiled import Compiled
from skep_platform.core.logs import rarely
from skep_platform.gateway import concurrency, relay
from skep_platform.gateway.relay import Pipe, StreamGone, TooManyStreams
from skep_platform.gateway.socket import first_to_end
from skep_platform.interactive import queries, services, templates
from skep_platform.interactive.models import App, AppType
from skep_platform.interactive.tunnel import LIMITS, Target, TunnelBackend
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import JobState
from skep_platform.tenancy.limits import limits_of_many

log = structlog.get_logger(__name__)
LOOK_S = 2.0  # between two looks at an app that does not answer yet
SLOW_AFTER = timedelta(minutes=5)  # without an answer, it is looked at less often
SLOW_LOOK = timedelta(seconds=20)
AT_ONCE = 16
ANSWER_S = 5.0
IDLE_EVERY_S = 30.0
LIMIT = "app_idle_minutes"
WARN_MINUTES = 10  # before the stop, or a third of what is allowed where that is less
MAX_KERNELS = 256 * 1024  # bytes

Seen = tuple[App, TaskAttempt]


async def watch_apps() -> None:
    """Look after apps until this is cancelled."""
    await asyncio.gather(_repeat(_look, LOOK_S), _repeat(_reclaim, IDLE_EVERY_S))


async def _repeat(work: Callable[[], Awaitable[None]], every_s: float) -> None:
    while True:
        try:
            await work()
        except Exception as error:
            rarely(log, work.__name__, "apps_not_looked_at", error=str(error)[:200])
        await asyncio.sleep(every_s)


# --- does it answer?


async def _look() -> None:
    found = await concurrency.control.run(claim_starting)
    await asyncio.gather(*(_look_at(app, attempt) for app, attempt in found))


def claim_starting() -> list[Seen]:
    """Claim the next look at apps whose task runs and that were not seen to answer. One query where
    no job runs that has an app."""
    return _claim_starting() if RUNNING.finds() else []


RUNNING = Compiled(lambda: App.objects.filter(job__state=JobState.RUNNING, port__isnull=False))


@transaction.atomic
def _claim_starting() -> list[Seen]:
    now = timezone.now()
    due = Q(probed_at=None) | Q(probed_at__lt=now - timedelta(seconds=LOOK_S))
    slow = Q(job__started_at__lt=now - SLOW_AFTER, probed_at__gt=now - SLOW_LOOK)
    rows = (
        App.objects.select_for_update(of=("self",), skip_locked=True)
        .filter(due, job__state=JobState.RUNNING, port__isnull=False)
        .exclude(slow)
        .filter(~queries.answers_now())
        .select_related("job__owner", "job__vc")
        .order_by(F("probed_at").asc(nulls_first=True))
    )
    apps = list(rows[:AT_ONCE])
    App.objects.filter(pk__in=[app.pk for app in apps]).update(probed_at=now)
    attempts = queries.attempts_of(apps)
    return [(app, attempts[app.pk]) for app in apps if app.pk in attempts]


async def _look_at(app: App, attempt: TaskAttempt) -> None:
    if (
        app.log_dir
        and app.launched_attempt != attempt.pk
        and await concurrency.control.run(services.launched, app, attempt.pk)
    ):
        await _launch(app, attempt)
        return
    problem = await _problem(_target(app, attempt))
    if problem:
        await concurrency.control.run(services.silent, app, problem)
    else:
        await concurrency.control.run(services.answered, app, attempt.pk)


async def _problem(target: Target) -> str:
    """Return why a port does not answer, "" where it does: with whatever status."""
    try:
        await _get(target, "/", 0)
    except httpcore.TimeoutException:
        return "It takes connections, and does not answer."
    except (httpcore.ConnectError, httpcore.ReadError, httpcore.WriteError) as error:
        return str(error) or "Nothing answers on its port yet."
    except httpcore.ProtocolError:
        return "What answers on its port is not HTTP."
    return ""


async def _get(target: Target, path: str, most: int) -> bytes:
    """Return the beginning of what an app answers. Raises errors of httpcore."""
    timeouts = {"read": ANSWER_S, "write": ANSWER_S, "connect": ANSWER_S}
    async with httpcore.AsyncConnectionPool(network_backend=TunnelBackend(target)) as pool:
        address = f"http://localhost:{target.port}{path}"
        async with pool.stream("GET", address, extensions={"timeout": timeouts}) as response:
            body = b""
            if response.status == 200 and most:
                async for piece in response.aiter_stream():
                    body += piece
                    if len(body) > most:
                        break
            return body[:most]


def _target(app: App, attempt: TaskAttempt) -> Target:
    return Target(app.pk, attempt.pk, attempt.node_id, app.port or 0)


# --- starting what is started beside the task's own program


async def _launch(app: App, attempt: TaskAttempt) -> None:
    command = templates.tensorboard(app.log_dir, app.port or 0)
    # A session of its own: it goes on when this stream ends.
    log_file = f"/tmp/skep-{app.name}.log"  # noqa: S108 in the container
    script = (
        f"{templates.NO_TENSORBOARD}\n"
        f'(setsid sh -c "{command}" > {log_file} 2>&1 < /dev/null &)\nsleep 1'
    )
    said = await run_in_task(app.pk, attempt, ("/bin/sh", "-c", script))
    if said.strip():
        problem = said.decode(errors="replace").strip().splitlines()[-1]
        await concurrency.control.run(services.silent, app, problem)


async def run_in_task(app_id: UUID, attempt: TaskAttempt, argv: tuple[str, ...]) -> bytes:
    """Run a short command in a task and return the beginning of what it printed."""
    pipe = Pipe(relay.new_id(), "client", attempt.node_id, app_id, LIMITS)
    order = OpenStream(
        stream_id=pipe.stream_id, attempt_id=str(attempt.pk), kind="exec", argv=list(argv)
    )
    said = bytearray()

    async def read() -> None:
        while True:
            popped = await pipe.pop()
            for frame in popped.frames:
                if frame[:1] in (bytes([Channel.OUTPUT]), bytes([Channel.ERROR])):
                    said.extend(frame[1:])
            if popped.ended is not None or len(said) > MAX_KERNELS:
                return

    try:
        async with asyncio.timeout(30), pipe.subscribed():
            try:
                await pipe.order(order.model_dump_json())
                await pipe.dialled()
                await first_to_end(read(), pipe.watch())
            finally:
                await asyncio.shield(pipe.close())
    except (TimeoutError, StreamGone, TooManyStreams) as error:
        log.info("command_in_task_failed", error=type(error).__name__)
    return bytes(said)


# --- is it used?


async def _reclaim() -> None:
    due = await concurrency.control.run(idle_candidates)
    for first in range(0, len(due), AT_ONCE):
        await asyncio.gather(*(_tried(*one) for one in due[first : first + AT_ONCE]))


def idle_candidates() -> list[tuple[App, TaskAttempt, int]]:
    """Return the apps that were not used for longer than the warning needs, with their running
    attempt and the minutes that their virtual cluster allows."""
    now = timezone.now()
    apps = (
        App.objects.select_related("job__owner", "job__vc")
        .filter(idle_stop=True, job__state=JobState.RUNNING, job__stop_requested_at=None)
        .filter(Q(job__vc__limits__name=LIMIT, job__vc__limits__value__gt=0))
        .filter(Q(active_at=None) | Q(active_at__lt=now - timedelta(seconds=40)))
        .distinct()
    )[:5000]
    found = list(apps)
    limits = limits_of_many({app.job.vc_id for app in found}, LIMIT)
    attempts = queries.attempts_of(found)
    due = []
    for app in found:
        attempt, allowed = attempts.get(app.pk), limits[app.job.vc_id][LIMIT]
        if attempt is None or allowed <= 0:
            continue
        if app.idle_for(now, attempt) >= timedelta(minutes=allowed - warn_minutes(allowed)):
            due.append((app, attempt, allowed))
    return due


def warn_minutes(allowed: int) -> float:
    return min(WARN_MINUTES, allowed / 3)


async def _tried(app: App, attempt: TaskAttempt, allowed: int) -> None:
    """One app that cannot be asked, or stopped, holds up none of the others."""
    try:
        await _reclaim_one(app, attempt, allowed)
    except Exception as error:
        rarely(log, "reclaim", "app_not_reclaimed", app=str(app.pk), error=str(error)[:200])


async def _reclaim_one(app: App, attempt: TaskAttempt, allowed: int) -> None:
    if app.type == AppType.JUPYTERLAB and await _busy(_target(app, attempt)):
        await concurrency.control.run(services.used, app.pk)
        return
    idle = app.idle_for(timezone.now(), attempt)
    if idle >= timedelta(minutes=allowed) and app.warned_at is not None:
        await concurrency.control.run(services.stop_idle, app, allowed)
    elif app.warned_at is None:
        minutes = int(idle.total_seconds() // 60)
        left = max(1, round(allowed - idle.total_seconds() / 60))
        await concurrency.control.run(services.warn_idle, app, minutes, left)


async def _busy(target: Target) -> bool:
    """Return whether a kernel of a Jupyter server computes."""
    try:
        kernels = json.loads(await _get(target, "/api/kernels", MAX_KERNELS))
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, ValueError):
        return False
    if not isinstance(kernels, list):
        return False
    return any(isinstance(k, dict) and k.get("execution_state") == "busy" for k in kernels)
