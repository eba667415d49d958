"""The bytes of a stream, on their way between two web servers through Valkey.

Each direction is a list that holds at most WINDOW bytes: who pushes waits for room, so a side that
does not read stops the other one's sender, and nothing is lost. Bells make it fast; whoever waits
also looks by itself every now and then. A side that shows no sign of life is taken for dead.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from weakref import WeakKeyDictionary

import redis
from channels.layers import get_channel_layer
from django.conf import settings
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from skep_platform.core import doorbells
from skep_platform.gateway import relay_scripts as scripts
from skep_platform.gateway.listener import channel_of, listener

WINDOW = 1024 * 1024  # bytes under way in one direction
AT_ONCE = 256 * 1024  # bytes taken at once
DIAL_S = 15.0  # in which the agent dials
ALIVE_S = 8.0  # without a sign of life
SIGN_S = 2.0
KEPT_S = 60.0
ANSWER_S = 5.0  # of the broker
LOOK_S = 1.0  # without a bell
MAX_PER_USER = 16
MAX_PER_NODE = 64
BELL: doorbells.Message = {"type": "stream.moved"}
ORDERED: doorbells.Message = {"type": "node.open_stream"}

Side = Literal["client", "agent"]


class Gone(Exception):
    """The stream, or its other side, is no more."""


class TooMany(Exception):
    """`whose`: "user" or "node"."""

    def __init__(self, whose: str, most: int) -> None:
        super().__init__(f"At most {most} streams of one {whose}.")


@dataclass(frozen=True, slots=True)
class Popped:
    """Frames in order; after the last one `ended` says why the other side closed."""

    frames: list[bytes]
    ended: str | None = None


def new_id() -> str:
    return secrets.token_urlsafe(32)


def valkey() -> aioredis.Redis:
    """This event loop's connections. No retry: a frame that is pushed twice is not the stream. No
    timeout of its own: it would be `asyncio.wait_for`, which may swallow being cancelled (fixed in
    Python 3.12)."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = aioredis.Redis.from_url(
            settings.SKEP_REDIS_URL,
            socket_timeout=None,
            socket_connect_timeout=2,
            retry=Retry(NoBackoff(), 0),
        )
    return _clients[loop]


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, aioredis.Redis] = WeakKeyDictionary()


async def orders_of(node_id: object) -> list[bytes]:
    """What the node's agent shall be told to dial, once."""
    found: Any = await valkey().lpop(_orders(node_id), MAX_PER_NODE)
    return found or []


def _orders(node_id: object) -> str:
    return f"skep:stream-orders:{node_id}"


@dataclass
class Pipe:
    """One side's end of a stream. The client's counts against the limits of its user and node."""

    stream_id: str
    side: Side
    node_id: object
    user_id: object = None
    moved_at: float = field(default_factory=time.monotonic)  # when a frame came or went

    def __post_init__(self) -> None:
        self._arrived, self._room = asyncio.Event(), asyncio.Event()
        self._out: str = "up" if self.side == "client" else "down"
        self._in: str = "down" if self.side == "client" else "up"

    @asynccontextmanager
    async def heard(self) -> AsyncIterator[None]:
        """Hears the bells of the stream."""
        async with listener().hearing(self._group(self.side), self._on_bell):
            yield

    async def order(self, message: str) -> None:
        """Ask the node's agent to dial; `message` is for it. Raises TooMany."""
        keys = [self._key(), self._key("client"), *self._counted, _orders(self.node_id)]
        limits = (MAX_PER_USER, MAX_PER_NODE)
        times = (_ms(DIAL_S + SIGN_S), _ms(ALIVE_S))
        refused = await self._run(
            "OPEN", keys, self.stream_id, str(self.node_id), *limits, *times, message
        )
        if refused:
            whose = "user" if refused == 3 else "node"
            raise TooMany(whose, limits[refused - 3])
        bell = _bell(ORDERED)
        await valkey().publish(channel_of(doorbells.node_group(self.node_id)), bell)

    async def dialled(self) -> None:
        """Until the agent is there. Raises TimeoutError."""
        async with asyncio.timeout(DIAL_S):
            while not await valkey().hexists(self._key(), "dialled"):
                await valkey().set(self._key("client"), 1, px=_ms(ALIVE_S))
                await _look(self._arrived)

    async def dial(self) -> bool:
        """The agent's word; True for the node that was asked, once and in time."""
        keys = [self._key(), self._key("agent")]
        times = (_ms(ALIVE_S), _ms(KEPT_S))
        return bool(await self._run("DIAL", keys, str(self.node_id), *times, *self._ring))

    async def push(self, frame: bytes) -> None:
        """Waits for room; what a side that has closed would get is dropped. Raises Gone."""
        keys = [self._key(), self._key(self._out)]
        while True:
            self._room.clear()
            taken = await self._run(
                "PUSH", keys, self._out, frame, WINDOW, _ms(KEPT_S), *self._ring
            )
            if taken < 0:
                raise Gone
            if taken:
                self.moved_at = time.monotonic()
                return
            await _look(self._room)

    async def pop(self) -> Popped:
        """What has come; waits for it. Raises Gone."""
        keys = [self._key(), self._key(self._in)]
        while True:
            self._arrived.clear()
            state, *frames = await self._run("POP", keys, self._in, AT_ONCE, *self._ring)
            if state == b"gone":
                raise Gone
            if frames:
                self.moved_at = time.monotonic()
                return Popped(frames)
            if state:
                return Popped([], state.decode().removeprefix("end:"))
            await _look(self._arrived)

    async def watch(self) -> None:
        """Shows signs of life until there are none of the other side: raises Gone."""
        keys = [self._key(), self._key(self.side), self._key(self._other)]
        keys += [self._key("up"), self._key("down"), *self._counted]
        while True:
            times = (_ms(ALIVE_S), _ms(KEPT_S))
            end = f"end:{self._other}"
            there, alive = await self._run("KEEP", keys, *times, self.stream_id, end)
            if not there or not alive:
                raise Gone
            await asyncio.sleep(SIGN_S)

    async def close(self, why: str = "") -> None:
        """The other side reads what was pushed, and then that this one closed."""
        keys = [self._key(), self._key("up"), self._key("down")]
        keys += [self._key(self.side), self._key(self._other), *self._counted]
        await self._run("CLOSE", keys, self.side, why, _ms(KEPT_S), self.stream_id, *self._ring)

    @property
    def _other(self) -> Side:
        return "agent" if self.side == "client" else "client"

    @property
    def _counted(self) -> list[str]:
        if self.side == "agent":
            return []
        return [f"skep:streams:user:{self.user_id}", f"skep:streams:node:{self.node_id}"]

    @cached_property
    def _ring(self) -> tuple[str, bytes]:
        """The channel of the other side, and what is rung there."""
        return channel_of(self._group(self._other)), _bell(BELL)

    def _group(self, side: Side) -> str:
        return f"stream.{self.stream_id}.{side}"

    def _key(self, part: str = "") -> str:
        return f"skep:stream:{self.stream_id}:{part}" if part else f"skep:stream:{self.stream_id}"

    def _on_bell(self, _: doorbells.Message) -> None:
        self._arrived.set()
        self._room.set()

    async def _run(self, name: str, keys: Sequence[str], *arguments: Any) -> Any:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await _script(name)(keys=keys, args=arguments)
        except TimeoutError as error:
            raise redis.TimeoutError("the broker does not answer") from error


def _script(name: str) -> Any:
    return valkey().register_script(getattr(scripts, name))


def _bell(message: doorbells.Message) -> bytes:
    layer: Any = get_channel_layer()
    return bytes(layer.serialize(message))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


async def _look(event: asyncio.Event) -> None:
    """Until it is set, or long enough that a bell may have been lost."""
    try:
        async with asyncio.timeout(LOOK_S):
            await event.wait()
    except TimeoutError:
        pass
