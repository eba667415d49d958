"""Hears doorbells for all sockets of this process, over one connection to the broker.

`channels_redis` keeps an unbounded queue and a subscription of its own for each consumer, leaks
both while the broker is away, and does not tell that bells were missed. Here a bell calls a plain
function, and after an outage every function is called once with `MISSED`. The wire format stays
that of the channel layer (see `core.doorbells`), so an ordinary Channels consumer hears the same.
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

from skep_platform.core.doorbells import Message

log = structlog.get_logger(__name__)

MISSED: Message = {"type": "missed"}
JOIN_S = 2.0  # how long a new listener waits for the broker's word that it will hear
QUIET_S = 5.0  # ask the broker for a sign of life after this much silence
DEAD_S = 15.0
RETRY_S = 1.0

OnBell = Callable[[Message], None]


class Listener:
    def __init__(self) -> None:
        self._ears: dict[str, set[OnBell]] = {}
        self._heard: dict[str, asyncio.Event] = {}  # set: the broker confirmed the subscription
        self._pubsub: aioredis.client.PubSub | None = None
        self._task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def hearing(self, group: str, on_bell: OnBell) -> AsyncIterator[None]:
        """Call `on_bell` for each bell of a channel group. Also without a broker: bells are heard
        from the moment it is back."""
        try:
            await self.join(group, on_bell)
            yield
        finally:
            await self.leave(group, on_bell)

    async def join(self, group: str, on_bell: OnBell) -> None:
        channel = channel_of(group)
        self._ears.setdefault(channel, set()).add(on_bell)
        confirmed = self._heard.setdefault(channel, asyncio.Event())
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        elif len(self._ears[channel]) == 1:
            await self._tell_broker(channel)
        try:
            async with asyncio.timeout(JOIN_S):
                await confirmed.wait()
        except TimeoutError:
            log.warning("doorbells_unheard", group=group)

    async def leave(self, group: str, on_bell: OnBell) -> None:
        channel = channel_of(group)
        ears = self._ears.get(channel, set())
        ears.discard(on_bell)
        if not ears and self._ears.pop(channel, None) is not None:
            del self._heard[channel]
            await self._tell_broker(channel)

    async def _tell_broker(self, channel: str) -> None:
        """Whether anybody listens to this channel now; without a connection, the next one tells."""
        async with self._lock:
            if self._pubsub is None:
                return
            try:
                if channel in self._ears:
                    await self._pubsub.subscribe(channel)
                else:
                    await self._pubsub.unsubscribe(channel)
            except (redis.RedisError, OSError):
                pass  # the reader of the same connection notices, and connects again

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (redis.RedisError, OSError) as error:
                log.warning("doorbells_lost", error=type(error).__name__)
            except Exception:
                log.exception("doorbells_failed")
            await asyncio.sleep(RETRY_S)

    async def _listen(self) -> None:
        broker = aioredis.Redis.from_url(
            settings.SKEP_REDIS_URL, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0)
        )
        try:
            pubsub = broker.pubsub()
            await pubsub.subscribe(channel_of("listener"))
            self._pubsub = pubsub  # from here on, who joins subscribes
            if self._ears:
                await pubsub.subscribe(*self._ears)
            await self._read(pubsub)
        finally:
            self._pubsub = None
            for confirmed in self._heard.values():
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
        if message["type"] == "subscribe" and channel in self._heard:
            self._heard[channel].set()
            self._ring(channel, MISSED)
        elif message["type"] == "message":
            self._ring(channel, cast(Any, get_channel_layer()).deserialize(message["data"]))

    def _ring(self, channel: str, bell: Message) -> None:
        for on_bell in tuple(self._ears.get(channel, ())):
            on_bell(bell)


def channel_of(group: str) -> str:
    """The name of a channel group at the broker."""
    return f"{settings.CHANNEL_LAYERS['default']['CONFIG']['prefix']}__group__{group}"


_listeners: WeakKeyDictionary[asyncio.AbstractEventLoop, Listener] = WeakKeyDictionary()


def listener() -> Listener:
    """The one of this event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _listeners:
        _listeners[loop] = Listener()
    return _listeners[loop]
