"""Receives notifications for all sockets of this process, over one connection to the broker.

`channels_redis` keeps an unbounded queue and a subscription of its own for each consumer, leaks
both while the broker is away, and does not say that notifications were missed. Here one calls a
plain function, and after an outage every function is called once with `MISSED`. The wire format
stays that of the channel layer (see `core.notifications`), so an ordinary Channels consumer
receives the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from weakref import WeakKeyDictionary

import redis
import structlog
from channels.layers import get_channel_layer
from django.conf import settings
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from skep_platform.core import redis_clients
from skep_platform.core.notifications import Message

log = structlog.get_logger(__name__)

MISSED: Message = {"type": "missed"}
JOIN_S = 2.0  # how long a subscriber waits for the broker's confirmation
QUIET_S = 3.0  # ask the broker for a sign of life after this much silence
DEAD_S = 8.0
RETRY_S = 1.0

OnNotification = Callable[[Message], None]


class Listener:
    def __init__(self) -> None:
        self._subscribers: dict[str, set[OnNotification]] = {}
        self._confirmed: dict[str, asyncio.Event] = {}  # set: the broker confirmed the subscription
        self._pubsub: aioredis.client.PubSub | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._changed: set[str] = set()  # channels of which the broker is to be told

    @asynccontextmanager
    async def subscribed(self, group: str, notify: OnNotification) -> AsyncIterator[None]:
        """Call `notify` for each notification of a channel group. Without a broker they arrive
        from the moment it is back."""
        try:
            await self.join(group, notify)
            yield
        finally:
            await self.leave(group, notify)

    async def join(self, group: str, notify: OnNotification) -> None:
        channel = channel_of(group)
        self._subscribers.setdefault(channel, set()).add(notify)
        confirmed = self._confirmed.setdefault(channel, asyncio.Event())
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif len(self._subscribers[channel]) == 1:
            await self._update_broker(channel)
        try:
            async with asyncio.timeout(JOIN_S):
                await confirmed.wait()
        except TimeoutError:
            log.warning("subscription_unconfirmed", group=group)

    async def leave(self, group: str, notify: OnNotification) -> None:
        channel = channel_of(group)
        subscribers = self._subscribers.get(channel, set())
        subscribers.discard(notify)
        if not subscribers and self._subscribers.pop(channel, None) is not None:
            del self._confirmed[channel]
            await self._update_broker(channel)

    async def _update_broker(self, channel: str) -> None:
        """Subscribe to this channel, or end it, with all others that wait for their turn; without a
        connection, the next one does so."""
        self._changed.add(channel)
        async with self._lock:
            changed, self._changed = self._changed, set()
            if self._pubsub is None or not changed:
                return
            try:
                if wanted := changed & self._subscribers.keys():
                    await self._pubsub.subscribe(*wanted)
                if left := changed - self._subscribers.keys():
                    await self._pubsub.unsubscribe(*left)
            except (redis.RedisError, OSError):
                pass  # the reader of the same connection notices, and connects again

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (redis.RedisError, OSError) as error:
                log.warning("notifications_lost", error=type(error).__name__)
            except Exception:
                log.exception("notifications_failed")
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        retry = Retry(NoBackoff(), 0)
        broker = redis_clients.async_client(socket_connect_timeout=2, retry=retry)
        try:
            pubsub = broker.pubsub()
            await pubsub.subscribe(channel_of("listener"))
            self._pubsub = pubsub  # from here on, a new subscriber subscribes
            if self._subscribers:
                await pubsub.subscribe(*self._subscribers)
            await self._read(pubsub)
        finally:
            self._pubsub = None
            for confirmed in self._confirmed.values():
                confirmed.clear()
            await broker.aclose(close_connection_pool=True)

    async def _read(self, pubsub: aioredis.client.PubSub) -> None:
        alive = time.monotonic()
        while True:
            message = await pubsub.get_message(timeout=QUIET_S)
            if message is not None:
                alive = time.monotonic()
                self._handle(message)
            elif time.monotonic() - alive > DEAD_S:
                raise redis.ConnectionError("the broker is silent")
            else:
                await pubsub.ping()

    def _handle(self, message: dict[str, Any]) -> None:
        channel = message["channel"].decode() if message["channel"] else ""
        if message["type"] == "subscribe" and channel in self._confirmed:
            self._confirmed[channel].set()
            self._dispatch(channel, MISSED)
        elif message["type"] == "message":
            self._dispatch(channel, cast(Any, get_channel_layer()).deserialize(message["data"]))

    def _dispatch(self, channel: str, message: Message) -> None:
        for notify in tuple(self._subscribers.get(channel, ())):
            notify(message)


def channel_of(group: str) -> str:
    """Return the name of a channel group at the broker."""
    return f"{settings.CHANNEL_LAYERS['default']['CONFIG']['prefix']}__group__{group}"


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, Listener] = WeakKeyDictionary()


def listener() -> Listener:
    """Return the listener of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _listeners:
        _listeners[loop] = Listener()
    return _listeners[loop]
