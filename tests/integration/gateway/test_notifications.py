"""Notifications: received by real consumers, once per transaction, at no cost to the caller."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import transaction

from skep_platform.core import notifications
from skep_platform.gateway.listener import MISSED, Listener


class Received:
    """All notifications published while it is open, in order."""

    def __init__(self) -> None:
        self.pubsub = notifications.valkey().pubsub()
        prefix = settings.CHANNEL_LAYERS["default"]["CONFIG"]["prefix"]
        self.pubsub.psubscribe(f"{prefix}__group__*")
        while self.pubsub.get_message(timeout=60)["type"] != "psubscribe":
            pass

    def notified(self, expected: int) -> list[tuple[str, dict[str, Any]]]:
        """The `expected` first notifications; an extra one would come before the last word."""
        notifications.publish({"the-end": {"type": "end"}})
        found = []
        while True:
            message = self.pubsub.get_message(timeout=60)
            assert message is not None
            group = message["channel"].decode().partition("__group__")[2]
            if group == "the-end":
                assert len(found) == expected, found
                return found
            found.append((group, get_channel_layer().deserialize(message["data"])))


@pytest.fixture
def received(db: None) -> Iterator[Received]:
    listening = Received()
    yield listening
    listening.pubsub.close()


@pytest.fixture
def commit(django_capture_on_commit_callbacks: Any) -> Callable[[], Any]:
    return lambda: django_capture_on_commit_callbacks(execute=True)


async def test_a_channels_consumer_receives_a_notification():
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(notifications.node_group("n1"), channel)
    received = asyncio.ensure_future(layer.receive(channel))
    async with asyncio.timeout(60):
        while not received.done():  # group_add does not wait for the broker
            await asyncio.to_thread(notifications.publish, {"node.n1": {"type": "node.changed"}})
            await asyncio.wait([received], timeout=0.1)
    assert received.result() == {"type": "node.changed"}
    await layer.flush()


def test_a_transaction_rings_each_notification_once_when_it_commits(received, commit):
    with commit():
        notifications.notify_nodes(["a", "b"])
        notifications.notify_nodes(["b", "c"])
        notifications.notify_topic("job", "j")
        notifications.notify_topic("job", "j")
        assert received.notified(0) == []
    assert received.notified(4) == [
        ("node.a", {"type": "node.changed"}),
        ("node.b", {"type": "node.changed"}),
        ("node.c", {"type": "node.changed"}),
        ("live.job.j", {"type": "topic.changed", "topic": "job", "id": "j"}),
    ]


def test_a_savepoint_that_is_rolled_back_rings_nothing_of_its_own(received, commit):
    with commit():
        with transaction.atomic():
            notifications.notify_nodes(["lost"])
            transaction.set_rollback(True)
        with transaction.atomic():
            notifications.notify_nodes(["kept"])
        notifications.notify_nodes(["after"])
    assert sorted(group for group, _ in received.notified(2)) == ["node.after", "node.kept"]


@pytest.mark.django_db
def test_a_burst_of_hints_is_one_tick(commit, monkeypatch):
    monkeypatch.setattr(notifications, "TICK_PENDING_S", 60)  # the burst lasts no longer
    broker = notifications.valkey()
    with commit():
        for _ in range(20):
            notifications.notify_scheduler()
    with commit():
        notifications.notify_scheduler()
    assert broker.llen("skep:scheduler") == 1
    assert 0 < broker.pttl(notifications.TICK_PENDING) <= notifications.TICK_PENDING_S * 1000


@pytest.mark.django_db
def test_a_broker_that_is_down_never_fails_the_caller(monkeypatch, commit):
    monkeypatch.setattr(notifications, "_muted_until", 0.0)
    notifications.valkey.cache_clear()
    monkeypatch.setattr(settings, "SKEP_REDIS_URL", "redis://127.0.0.1:1")
    try:
        with commit():
            notifications.notify_nodes(["a"])
            notifications.notify_scheduler()
        assert notifications._muted_until > 0  # for the next second it is not even asked
    finally:
        notifications.valkey.cache_clear()


class Notified:
    """What one listener received."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[notifications.Message] = asyncio.Queue()

    def __call__(self, notification: notifications.Message) -> None:
        self.queue.put_nowait(notification)

    async def next(self) -> notifications.Message:
        async with asyncio.timeout(60):
            return await self.queue.get()


async def ring(group: str, number: int) -> None:
    await asyncio.to_thread(notifications.publish, {group: {"type": "test", "number": number}})


async def test_a_listener_receives_its_group_only_and_until_it_leaves():
    listener, mine, other = Listener(), Notified(), Notified()
    async with listener.subscribed("g.other", other):
        async with listener.subscribed("g.mine", mine):
            assert await mine.next() == MISSED  # it may have missed notifications before it joined
            await ring("g.mine", 1)
            assert await mine.next() == {"type": "test", "number": 1}
        await ring("g.mine", 2)
        await ring("g.other", 3)
        assert await other.next() == MISSED
        assert await other.next() == {"type": "test", "number": 3}
    assert mine.queue.empty()


async def test_a_listener_that_lost_the_broker_comes_back_and_says_so():
    listener, notified = Listener(), Notified()
    async with listener.subscribed("g.mine", notified):
        assert await notified.next() == MISSED
        await asyncio.to_thread(kill_subscribers)
        assert await notified.next() == MISSED
        await ring("g.mine", 1)
        assert await notified.next() == {"type": "test", "number": 1}


def kill_subscribers() -> None:
    """Cut this database's pub/sub connections, as a broker that restarts does."""
    broker = notifications.valkey()
    mine = str(broker.connection_pool.connection_kwargs["db"])
    for client in broker.client_list(_type="pubsub"):
        if client["db"] == mine:
            broker.client_kill_filter(_id=client["id"])
