"""Doorbells: hints that something changed, sent after commit and allowed to be lost.

Truth is in the database and a periodic reconcile repairs what a lost hint delayed, so a broker
that is down never fails the caller.
"""

from __future__ import annotations

from functools import lru_cache, partial

import redis
import structlog
from asgiref.sync import async_to_sync
from celery import current_app
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

log = structlog.get_logger(__name__)

TICK_TASK = "skep.scheduling.tick"
TICK_PENDING = "skep:tick-pending"
TICK_PENDING_S = 2  # a lost tick message delays the next hint by no more than this


@lru_cache(maxsize=1)
def valkey() -> redis.Redis:
    """This process's connection pool to Redis/Valkey."""
    return redis.Redis.from_url(settings.SKEP_REDIS_URL, socket_timeout=2, socket_connect_timeout=2)


def node_group(node_id: object) -> str:
    return f"node.{node_id}"


def topic_group(topic: str, subject_id: object = "") -> str:
    """Channel group of a live topic: "job", "job-logs" (with the job's id) or "cluster"."""
    return f"live.{topic}.{subject_id}" if subject_id else f"live.{topic}"


def ring_scheduler() -> None:
    """Ask for a scheduler tick after commit; a burst of hints becomes one message."""
    transaction.on_commit(_hint_tick, robust=True)


def ring_nodes(node_ids: object) -> None:
    """Tell the gateways of these nodes that their desired state changed."""
    for node_id in set(node_ids):  # type: ignore[call-overload]
        transaction.on_commit(
            partial(_send, node_group(node_id), {"type": "node.changed"}), robust=True
        )


def ring_topic(topic: str, subject_id: object = "") -> None:
    """Tell live pages that a topic changed; they read the news by REST."""
    transaction.on_commit(
        partial(
            _send,
            topic_group(topic, subject_id),
            {"type": "topic.changed", "topic": topic, "id": str(subject_id)},
        ),
        robust=True,
    )


def _hint_tick() -> None:
    try:
        if valkey().set(TICK_PENDING, 1, nx=True, ex=TICK_PENDING_S):
            current_app.send_task(TICK_TASK, queue="scheduler", expires=30)
    except (redis.RedisError, OSError) as error:
        log.warning("doorbell_lost", bell="scheduler", error=type(error).__name__)


def _send(group: str, message: dict[str, str]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(group, message)
    except (redis.RedisError, OSError) as error:
        log.warning("doorbell_lost", bell=group, error=type(error).__name__)
