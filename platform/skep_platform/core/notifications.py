"""Notifications: hints that something changed, sent after commit and allowed to be lost.

Truth is in the database and a periodic reconcile repairs what a lost hint delayed, so a broker
that is down never fails the caller. They go straight to the broker in the channel layer's own
wire format: `async_to_sync(layer.group_send)` opens an event loop and a connection for each one
(2.5 ms outside a server, against 0.05 ms), and waits for ever on a broker that hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, cast

import redis
import structlog
from celery import current_app
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction
from kombu.exceptions import OperationalError
from redis.backoff import NoBackoff
from redis.retry import Retry

from skep_platform.core import redis_clients

log = structlog.get_logger(__name__)

Message = dict[str, Any]

TICK_TASK = "skep.scheduling.tick"
TICK_PENDING = "skep:tick-pending"
LAST_TICK = "skep:last-tick"  # seconds since the epoch
TICK_PENDING_S = 2  # a lost tick message delays the next hint by no more than this
DIAGNOSE_TASK = "skep.telemetry.diagnose"
DIAGNOSE_PENDING = "skep:diagnose-pending"
DIAGNOSE_PENDING_S = 2
CHANGED_JOBS = "skep:changed-jobs"  # a set of ids
CHANGED_JOBS_S = 120  # so that it stays small while no worker takes them
MUTED_S = 1.0  # after a failure, so that a hanging broker does not slow every commit

_muted_until = 0.0


@lru_cache(maxsize=1)
def valkey() -> redis.Redis:
    """This process's connection pool to Redis/Valkey. One retry, at once: enough for a connection
    that the broker closed, and it never sleeps."""
    return redis_clients.client(
        socket_timeout=2,
        socket_connect_timeout=2,
        retry=Retry(NoBackoff(), 1),
    )


def node_group(node_id: object) -> str:
    return f"node.{node_id}"


def topic_group(topic: str, subject_id: object = "") -> str:
    """Return the channel group of a live topic: "job", "job-logs" (with the job's id), "jobs",
    "cluster"."""
    return f"live.{topic}.{subject_id}" if subject_id else f"live.{topic}"


def notify_scheduler() -> None:
    """Ask for a scheduler tick after commit; a burst of hints becomes one message."""
    _after_commit({}, tick=True)


def notify_queue() -> None:
    """Ask for a scheduler tick and notify the pages that list jobs, after commit, in one round
    trip: outside of a transaction each notification is sent by itself."""
    _after_commit({topic_group("jobs"): topic_changed("jobs")}, tick=True)


def take_tick_hint() -> None:
    """Begin a tick: a notification from now on asks for another one."""
    _at_broker(lambda broker: broker.delete(TICK_PENDING))


def tick_hinted() -> bool:
    """Return whether the scheduler was notified since the hint was taken."""
    hinted: list[object] = []
    _at_broker(lambda broker: hinted.append(broker.exists(TICK_PENDING)))
    return bool(hinted and hinted[0])


def notify_diagnosis() -> None:
    """Ask, after commit, for the diagnosis of jobs that wait for one; a burst of hints becomes one
    message."""
    transaction.on_commit(lambda: _at_broker(_hint_diagnosis), robust=True)


def take_changed_jobs(most: int) -> list[str] | None:
    """Take the ids of jobs of which the topic "job" was notified, at most `most`. None: the broker
    is down."""
    taken: list[list[bytes]] = []
    _at_broker(lambda broker: taken.append(cast(Any, broker.spop(CHANGED_JOBS, most))))
    return [pk.decode() for pk in taken[0]] if taken else None


def take_diagnosis_hint() -> None:
    """Begin a round of diagnoses: a notification from now on asks for another one."""
    _at_broker(lambda broker: broker.delete(DIAGNOSE_PENDING))


def notify_nodes(node_ids: Iterable[object]) -> None:
    """Notify the gateways of these nodes that their desired state changed."""
    _after_commit({node_group(node_id): {"type": "node.changed"} for node_id in node_ids})


def notify_topic(topic: str, subject_id: object = "") -> None:
    """Notify live pages that a topic changed; they read it by REST."""
    _after_commit({topic_group(topic, subject_id): topic_changed(topic, subject_id)})


def note_tick() -> None:
    """Note that the scheduler plans now, for those who look whether it does."""
    _at_broker(lambda broker: broker.set(LAST_TICK, f"{time.time():.1f}"))


def topic_changed(topic: str, subject_id: object = "") -> Message:
    return {"type": "topic.changed", "topic": topic, "id": str(subject_id)}


def notify(group: str, message: Message) -> None:
    """Send `message` to a channel group after commit; of several to one group in a transaction,
    the newest is sent."""
    _after_commit({group: message})


def publish(messages: Mapping[str, Message]) -> None:
    """Send {group: message} now, in one round trip. Never raises for a broker that is down."""
    if messages:
        _at_broker(lambda broker: _publish(broker, messages))


class _Pending:
    """The notifications of one transaction: sent when it commits, each once, in one round trip."""

    def __init__(self, messages: Mapping[str, Message], tick: bool) -> None:
        self.messages = dict(messages)
        self.tick = tick

    def add(self, messages: Mapping[str, Message], tick: bool) -> None:
        self.messages |= messages
        self.tick |= tick

    def send(self) -> None:
        _at_broker(self._send)

    def _send(self, broker: redis.Redis) -> None:
        pipeline = broker.pipeline(transaction=False)
        _add(pipeline, self.messages)
        if jobs := [str(m["id"]) for m in self.messages.values() if m.get("topic") == "job"]:
            pipeline.sadd(CHANGED_JOBS, *jobs)
            pipeline.expire(CHANGED_JOBS, CHANGED_JOBS_S, nx=True)
        if self.tick:
            pipeline.set(TICK_PENDING, 1, nx=True, ex=TICK_PENDING_S)
        answers = pipeline.execute()
        if self.tick and answers[-1]:
            current_app.send_task(
                TICK_TASK, kwargs={"hinted": True}, queue="scheduler", expires=30, retry=False
            )


def _after_commit(messages: Mapping[str, Message], *, tick: bool = False) -> None:
    """Add to the notifications of the running transaction. Those collected inside a savepoint are
    only joined by others inside it: Django forgets them if that savepoint is rolled back."""
    connection = transaction.get_connection()
    open_savepoints = set(connection.savepoint_ids)
    for savepoints, hook, _ in connection.run_on_commit:
        pending = getattr(hook, "__self__", None)
        if isinstance(pending, _Pending) and savepoints <= open_savepoints:
            pending.add(messages, tick)
            return
    transaction.on_commit(_Pending(messages, tick).send, robust=True)


def _publish(broker: redis.Redis, messages: Mapping[str, Message]) -> None:
    pipeline = broker.pipeline(transaction=False)
    _add(pipeline, messages)
    pipeline.execute()


def _add(pipeline: Any, messages: Mapping[str, Message]) -> None:
    """Add {group: message} to what a pipeline sends."""
    layer = cast(Any, get_channel_layer())
    prefix = settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"]
    for group, message in messages.items():
        # as RedisPubSubLoopLayer._get_group_channel_name has it
        pipeline.publish(f"{prefix}__group__{group}", layer.serialize(message))


def _hint_diagnosis(broker: redis.Redis) -> None:
    if broker.set(DIAGNOSE_PENDING, 1, nx=True, ex=DIAGNOSE_PENDING_S):
        current_app.send_task(DIAGNOSE_TASK, expires=30, retry=False)


def _at_broker(action: Callable[[redis.Redis], object]) -> None:
    global _muted_until
    if time.monotonic() < _muted_until:
        return
    try:
        action(valkey())
    except (redis.RedisError, OperationalError, OSError) as error:
        _muted_until = time.monotonic() + MUTED_S
        log.warning("notification_lost", error=type(error).__name__)
