"""The bytes of a stream, on their way between two web servers through Valkey.

Each direction is a list that holds at most WINDOW bytes: who pushes waits for space, so a side that
does not read stops the other one's sender, and nothing is lost. Notifications make it fast; who
waits also looks by itself every now and then. A side that shows no sign of life is taken for dead.

Each step is a script that Valkey runs as a whole. Keys of a stream `S`:

S          hash: node, dialled, up and down (bytes under way), full:up and full:down (who pushes
           waits for space), end:client and end:agent (why that side closed)
S:up       list: frames on the way to the node
S:down     list: frames on the way to the client
S:client   that side's process is alive, as S:agent
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal
from uuid import UUID
from weakref import WeakKeyDictionary

import redis
from channels.layers import get_channel_layer
from redis import asyncio as aioredis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from skep_platform.core import notifications, redis_clients
from skep_platform.gateway.listener import channel_of, listener

WINDOW = 1024 * 1024  # bytes under way in one direction
AT_ONCE = 256 * 1024  # bytes taken at once
DIAL_S = 15.0  # in which the agent dials
ALIVE_S = 8.0  # without a sign of life
SIGN_S = 2.0
KEPT_S = 60.0
ANSWER_S = 5.0  # of the broker
LOOK_S = 1.0  # without a notification
MAX_PER_USER = 16
MAX_PER_NODE = 64
ORDERS_AT_ONCE = 64
MOVED: notifications.Message = {"type": "stream.moved"}
ORDERED: notifications.Message = {"type": "node.open_stream"}

Side = Literal["client", "agent"]


class StreamGone(Exception):
    """The stream, or its other side, does not exist any more."""


class TooManyStreams(Exception):
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
    """Return the connections of this event loop. There is no retry: a frame that is pushed twice is
    not the stream. They have no time-out of their own, which would be `asyncio.wait_for`: that may
    swallow being cancelled (fixed in Python 3.12)."""
    loop = asyncio.get_running_loop()
    if loop not in _clients:
        _clients[loop] = redis_clients.async_client(
            socket_timeout=None,
            socket_connect_timeout=2,
            retry=Retry(NoBackoff(), 0),
        )
    return _clients[loop]


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, aioredis.Redis] = WeakKeyDictionary()


async def orders_of(node_id: object) -> list[bytes]:
    """Take what the node's agent is to dial, once."""
    found: Any = await valkey().lpop(_orders(node_id), ORDERS_AT_ONCE)
    return found or []


def orders_of_nodes(node_ids: Collection[UUID]) -> dict[UUID, list[bytes]]:
    """Take what the agents of these nodes are to dial, in one round trip, from a thread. Raises
    RedisError and OSError."""
    pipeline = notifications.valkey().pipeline(transaction=False)
    for node_id in node_ids:
        pipeline.lpop(_orders(node_id), ORDERS_AT_ONCE)
    answers = pipeline.execute()
    return {node_id: orders or [] for node_id, orders in zip(node_ids, answers, strict=True)}


def _orders(node_id: object) -> str:
    return f"skep:stream-orders:{node_id}"


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """How many streams there may be of one user, and of one node. `whose` keeps those that are
    counted apart from others."""

    whose: str
    of_user: int
    of_node: int


@dataclass
class Pipe:
    """One side's end of a stream. The client's counts against the limits of its user and node."""

    stream_id: str
    side: Side
    node_id: object
    user_id: object = None
    limits: StreamLimits = field(
        default_factory=lambda: StreamLimits("", MAX_PER_USER, MAX_PER_NODE)
    )
    moved_at: float = field(default_factory=time.monotonic)  # when a frame came or went

    def __post_init__(self) -> None:
        self._arrived, self._free = asyncio.Event(), asyncio.Event()
        self._out: str = "up" if self.side == "client" else "down"
        self._in: str = "down" if self.side == "client" else "up"

    @asynccontextmanager
    async def subscribed(self) -> AsyncIterator[None]:
        """Take the notifications of the stream while this context is open."""
        async with listener().subscribed(self._group(self.side), self._on_notification):
            yield

    async def order(self, message: str) -> None:
        """Ask the node's agent to dial; `message` is for it. Raises TooManyStreams."""
        keys = [self._key(), self._key("client"), *self._counted, _orders(self.node_id)]
        limits = (self.limits.of_user, self.limits.of_node)
        times = (_ms(DIAL_S + SIGN_S), _ms(ALIVE_S))
        refused = await self._run(
            "OPEN", keys, self.stream_id, str(self.node_id), *limits, *times, message
        )
        if refused:
            whose = "user" if refused == 3 else "node"
            raise TooManyStreams(whose, limits[refused - 3])
        group = notifications.node_group(self.node_id)
        await valkey().publish(channel_of(group), _packed(ORDERED))

    async def dialled(self) -> None:
        """Wait until the agent is connected. Raises TimeoutError."""
        async with asyncio.timeout(DIAL_S):
            while not await valkey().hexists(self._key(), "dialled"):
                await valkey().set(self._key("client"), 1, px=_ms(ALIVE_S))
                await _look(self._arrived)

    async def dial(self) -> bool:
        """Connect the agent's side. Return True for the node that was asked, once and in time."""
        keys = [self._key(), self._key("agent")]
        times = (_ms(ALIVE_S), _ms(KEPT_S))
        return bool(await self._run("DIAL", keys, str(self.node_id), *times, *self._ring))

    async def push(self, frame: bytes) -> None:
        """Wait for space, then send; what a side that has closed would get is dropped. Raises
        StreamGone."""
        keys = [self._key(), self._key(self._out)]
        while True:
            self._free.clear()
            taken = await self._run(
                "PUSH", keys, self._out, frame, WINDOW, _ms(KEPT_S), *self._ring
            )
            if taken < 0:
                raise StreamGone
            if taken:
                self.moved_at = time.monotonic()
                return
            await _look(self._free)

    async def pop(self) -> Popped:
        """Wait for frames and return them. Raises StreamGone."""
        keys = [self._key(), self._key(self._in)]
        while True:
            self._arrived.clear()
            state, *frames = await self._run("POP", keys, self._in, AT_ONCE, *self._ring)
            if state == b"gone":
                raise StreamGone
            if frames:
                self.moved_at = time.monotonic()
                return Popped(frames)
            if state:
                return Popped([], state.decode().removeprefix("end:"))
            await _look(self._arrived)

    async def watch(self) -> None:
        """Renew the signs of life of this side until the other one shows none: then raises
        StreamGone."""
        keys = [self._key(), self._key(self.side), self._key(self._other)]
        keys += [self._key("up"), self._key("down"), *self._counted]
        while True:
            times = (_ms(ALIVE_S), _ms(KEPT_S))
            end = f"end:{self._other}"
            there, alive = await self._run("KEEP", keys, *times, self.stream_id, end)
            if not there or not alive:
                raise StreamGone
            await asyncio.sleep(SIGN_S)

    async def close(self, why: str = "") -> None:
        """End the stream: the other side first reads what was pushed."""
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
        streams = f"skep:streams{self.limits.whose}"
        return [f"{streams}:user:{self.user_id}", f"{streams}:node:{self.node_id}"]

    @cached_property
    def _ring(self) -> tuple[str, bytes]:
        """Return the channel of the other side, and the notification for it."""
        return channel_of(self._group(self._other)), _packed(MOVED)

    def _group(self, side: Side) -> str:
        return f"stream.{self.stream_id}.{side}"

    def _key(self, part: str = "") -> str:
        return f"skep:stream:{self.stream_id}:{part}" if part else f"skep:stream:{self.stream_id}"

    def _on_notification(self, _: notifications.Message) -> None:
        self._arrived.set()
        self._free.set()

    async def _run(self, name: str, keys: Sequence[str], *arguments: Any) -> Any:
        try:
            async with asyncio.timeout(ANSWER_S):
                return await _script(name)(keys=keys, args=arguments)
        except TimeoutError as error:
            raise redis.TimeoutError("the broker does not answer") from error


def _script(name: str) -> Any:
    return valkey().register_script(_SCRIPTS[name])


def _packed(message: notifications.Message) -> bytes:
    layer: Any = get_channel_layer()
    return bytes(layer.serialize(message))


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


async def _look(event: asyncio.Event) -> None:
    """Wait until the event is set, or so long that a notification may have been lost."""
    try:
        async with asyncio.timeout(LOOK_S):
            await event.wait()
    except TimeoutError:
        pass


_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# KEYS S, S:client, of the user, of the node, orders
# ARGV id, node, most of a user, most of a node, ms to dial, ms alive, order
_OPEN = (
    _NOW
    + """
for i = 3, 4 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now)
  if redis.call('ZCARD', KEYS[i]) >= tonumber(ARGV[i]) then return i end
end
for i = 3, 4 do
  redis.call('ZADD', KEYS[i], now + ARGV[5], ARGV[1])
  redis.call('PEXPIRE', KEYS[i], 3600000)
end
redis.call('HSET', KEYS[1], 'node', ARGV[2], 'up', 0, 'down', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
redis.call('SET', KEYS[2], 1, 'PX', ARGV[6])
redis.call('RPUSH', KEYS[5], ARGV[7])
redis.call('PEXPIRE', KEYS[5], ARGV[5])
return 0
"""
)

# KEYS S, S:agent   ARGV node, ms alive, ms kept, channel, notification
_DIAL = """
if redis.call('HGET', KEYS[1], 'node') ~= ARGV[1] then return 0 end
if redis.call('HSETNX', KEYS[1], 'dialled', 1) == 0 then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], 1, 'PX', ARGV[2])
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
"""

# KEYS S, mine, theirs, S:up, S:down, of the user, of the node
# ARGV ms alive, ms kept, id, end:theirs
# Answers whether the stream is there, and whether its other side is alive, or has closed in order.
_KEEP = (
    _NOW
    + """
if redis.call('EXISTS', KEYS[1]) == 0 then return {0, 0} end
redis.call('SET', KEYS[2], 1, 'PX', ARGV[1])
for _, key in ipairs({KEYS[1], KEYS[4], KEYS[5]}) do redis.call('PEXPIRE', key, ARGV[2]) end
for i = 6, #KEYS do
  redis.call('ZADD', KEYS[i], 'XX', now + ARGV[2], ARGV[3])
  redis.call('PEXPIRE', KEYS[i], 3600000)
end
return {1, redis.call('EXISTS', KEYS[3]) + redis.call('HEXISTS', KEYS[1], ARGV[4])}
"""
)

# KEYS S, list   ARGV up or down, frame, most bytes, ms kept, channel, notification
# 1: taken, or the other side has closed and it is not wanted; 0: no space; -1: no such stream.
_PUSH = """
local size = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
local other = ARGV[1] == 'up' and 'end:agent' or 'end:client'
if not size then return -1 end
if redis.call('HEXISTS', KEYS[1], other) == 1 then return 1 end
if size > 0 and size + #ARGV[2] > tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'full:' .. ARGV[1], 1)
  return 0
end
redis.call('RPUSH', KEYS[2], ARGV[2])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('HINCRBY', KEYS[1], ARGV[1], #ARGV[2])
if size == 0 then redis.call('PUBLISH', ARGV[5], ARGV[6]) end
return 1
"""

# KEYS S, list   ARGV up or down, most bytes at once, channel, notification
# {state, frames...}. State: "" more may come, "gone", or after the last frame "end:" and why.
_POP = """
local size = tonumber(redis.call('HGET', KEYS[1], ARGV[1]))
if not size then return {'gone'} end
local answer, taken = {''}, 0
while taken < tonumber(ARGV[2]) do
  local frame = redis.call('LPOP', KEYS[2])
  if not frame then break end
  answer[#answer + 1] = frame
  taken = taken + #frame
end
if taken > 0 then
  redis.call('HINCRBY', KEYS[1], ARGV[1], -taken)
  if redis.call('HDEL', KEYS[1], 'full:' .. ARGV[1]) == 1 then
    redis.call('PUBLISH', ARGV[3], ARGV[4])
  end
elseif size > 0 then
  return {'gone'}
else
  local why = redis.call('HGET', KEYS[1], ARGV[1] == 'up' and 'end:client' or 'end:agent')
  if why then answer[1] = 'end:' .. why end
end
return answer
"""

# KEYS S, S:up, S:down, mine, theirs, of the user, of the node
# ARGV client or agent, why, ms kept, id, channel, notification
_CLOSE = """
for i = 6, #KEYS do redis.call('ZREM', KEYS[i], ARGV[4]) end
redis.call('DEL', KEYS[4])
if redis.call('EXISTS', KEYS[1]) == 0 then return end
local other = ARGV[1] == 'client' and 'end:agent' or 'end:client'
if redis.call('HEXISTS', KEYS[1], other) == 1 or redis.call('EXISTS', KEYS[5]) == 0 then
  redis.call('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[5])
else
  redis.call('HSET', KEYS[1], 'end:' .. ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
redis.call('PUBLISH', ARGV[5], ARGV[6])
"""

_SCRIPTS = {
    "OPEN": _OPEN,
    "DIAL": _DIAL,
    "KEEP": _KEEP,
    "PUSH": _PUSH,
    "POP": _POP,
    "CLOSE": _CLOSE,
}
