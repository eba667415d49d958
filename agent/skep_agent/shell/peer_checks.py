"""A check of the network between two nodes: latency, bytes a second in both directions, and an
all-reduce of two whose result both of them verify.

The server names the nodes, and gives both the same token. The agent of the node that is checked
connects, from its own address to those alone that it was given; the other one listens at a port of
its range for tasks while the server wants it to, and answers that address with that token alone.
What travels has a fixed size, and each measurement a fixed time, whatever the server asks for.

All of it is TCP between the addresses of the nodes. The all-reduce is the ring of two: each sends
the half that the other one reduces, and gets the other half reduced. Its operation is XOR, which is
exact, so that one flipped bit is found.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import random
import socket
import statistics
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

import structlog

from skep_agent.check_messages import PEER, CheckResult, PeerCheck, PeerListen
from skep_agent.shell.tasks import TaskSet

BLOCK = 1024 * 1024  # bytes
STREAM_BLOCKS = 64  # in each direction
VECTOR = 4 * BLOCK
ROUNDS = 4  # of the all-reduce
PINGS, PING = 20, 64
TOKEN = 64  # characters
MOST_PEERS = 4
MEASURE_S = 30.0
CONNECT_S, ATTEMPT_S, PAUSE_S = 60.0, 5.0, 1.0  # the other agent gets its message later
HELLO_S = 5.0
LISTEN_S, AGAIN_S = 900.0, 60.0
MOST_VISITS = 8  # of one token
LOWEST_PORT = 1024

log = structlog.get_logger(__name__)


class _Wire:
    """Bytes of a fixed number over a connected socket, until the time is over. Raises OSError."""

    def __init__(self, connected: socket.socket, seconds: float) -> None:
        self._socket = connected
        self._end = time.monotonic() + seconds

    def send(self, data: bytes | bytearray | memoryview) -> None:
        self._limit()
        self._socket.sendall(data)

    def receive(self, size: int) -> bytearray:
        found = bytearray(size)
        self.fill(memoryview(found))
        return found

    def fill(self, buffer: memoryview) -> None:
        while buffer:
            self._limit()
            got = self._socket.recv_into(buffer)
            if not got:
                raise ConnectionError("it closed the connection")
            buffer = buffer[got:]

    def _limit(self) -> None:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)


def measure(wire: _Wire, token: str) -> tuple[dict[str, float], str]:
    """Measure from the side that connects. Returns the numbers, and what is wrong. Raises
    OSError."""
    wire.send(token.encode())
    times = []
    for _ in range(PINGS):
        began = time.monotonic()
        wire.send(bytes(PING))
        wire.receive(PING)
        times.append(1000 * (time.monotonic() - began))
    block = random.Random(token).randbytes(BLOCK)  # noqa: S311 - no secret
    began = time.monotonic()
    for _ in range(STREAM_BLOCKS):
        wire.send(block)
    wire.receive(1)
    out_s = time.monotonic() - began
    began = time.monotonic()
    _take_stream(wire)
    in_s = time.monotonic() - began
    began = time.monotonic()
    same = _all_reduce(wire, token, first=True)
    reduce_s = time.monotonic() - began
    size_mb = BLOCK * STREAM_BLOCKS / 1e6
    numbers = {
        "latency_ms": round(statistics.median(times), 3),
        "out_mb_s": round(size_mb / max(out_s, 1e-6), 1),
        "in_mb_s": round(size_mb / max(in_s, 1e-6), 1),
        "all_reduce_mb_s": round(ROUNDS * VECTOR / 1e6 / max(reduce_s, 1e-6), 1),
    }
    return numbers, "" if same else "The result of an all-reduce was wrong: bytes were changed."


def answer(wire: _Wire, token: str) -> None:
    """Serve the other side of `measure`, whose token was seen. Raises OSError."""
    for _ in range(PINGS):
        wire.send(wire.receive(PING))
    _take_stream(wire)
    wire.send(b"\1")
    block = random.Random(token).randbytes(BLOCK)  # noqa: S311 - no secret
    for _ in range(STREAM_BLOCKS):
        wire.send(block)
    _all_reduce(wire, token, first=False)


def _take_stream(wire: _Wire) -> None:
    block = memoryview(bytearray(BLOCK))
    for _ in range(STREAM_BLOCKS):
        wire.fill(block)


def _all_reduce(wire: _Wire, token: str, *, first: bool) -> bool:
    """Reduce the vectors of both sides, ROUNDS times; returns whether each result was right.

    The side that is `first` sends before it receives, so that no two full buffers wait for each
    other."""
    own, other = (_vector(token, side) for side in ((0, 1) if first else (1, 0)))
    expected = _xor(own, other)
    half = VECTOR // 2
    mine, theirs = (slice(half), slice(half, None)) if first else (slice(half, None), slice(half))
    right = True
    for _ in range(ROUNDS):
        reduced = _xor(own[mine], _swap(wire, own[theirs], first=first))
        result = bytearray(VECTOR)
        result[mine] = reduced
        result[theirs] = _swap(wire, reduced, first=first)
        right = right and result == expected
    return right


def _swap(wire: _Wire, data: bytes, *, first: bool) -> bytearray:
    if first:
        wire.send(data)
        return wire.receive(len(data))
    found = wire.receive(len(data))
    wire.send(data)
    return found


def _vector(token: str, side: int) -> bytes:
    return random.Random(f"{token}{side}").randbytes(VECTOR)  # noqa: S311 - no secret


def _xor(one: bytes | bytearray, other: bytes | bytearray) -> bytes:
    found = int.from_bytes(one, "little") ^ int.from_bytes(other, "little")
    return found.to_bytes(len(one), "little")


# --- the node that is checked


async def check_peer(peer: PeerCheck, own: str, least_mb_s: float) -> CheckResult:
    """Measure the network to a node that the server named, from the address `own`."""
    name = f"{PEER}{peer.name[:63]}"
    if problem := refusal(peer, own):
        return CheckResult(name=name, passed=False, message=problem)
    where = f"{peer.address} port {peer.port}"
    try:
        connected = await _connect(peer, own)
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else "no answer"
        reason = f"TCP {where} cannot be reached: {why}."
        return CheckResult(name=name, passed=False, message=reason)
    with connected:
        try:
            wire = _Wire(connected, MEASURE_S)
            numbers, problem = await asyncio.to_thread(measure, wire, peer.token)
        except TimeoutError:
            size_mb = BLOCK * STREAM_BLOCKS / 1e6
            reason = f"{where} did not take and send {size_mb:.0f} MB within {MEASURE_S:.0f} s."
            return CheckResult(name=name, passed=False, message=reason)
        except OSError as error:
            reason = f"The connection to {where} broke: {error.strerror or error}."
            return CheckResult(name=name, passed=False, message=reason)
    slowest = min(numbers["out_mb_s"], numbers["in_mb_s"])
    if not problem and slowest < least_mb_s:
        problem = f"{slowest:g} MB/s to or from {where}, less than {least_mb_s:g} MB/s."
    return CheckResult(name=name, passed=not problem, message=problem, numbers=numbers)


def refusal(peer: PeerCheck, own: str) -> str:
    """Return why the agent does not connect there, whatever the server wants; "" when it does: a
    server that was taken over must not reach a node's own services, or a cloud's metadata."""
    try:
        address, here = ip_address(peer.address), ip_address(own)
    except ValueError:
        return f"{peer.address[:80]!r} or the own {own[:80]!r} is not an IP address."
    if _is_special(address) or address.is_loopback != here.is_loopback:
        return f"{address} is not the address of a node."
    if not LOWEST_PORT <= peer.port <= 65535 or len(peer.token) != TOKEN:
        return f"Port {peer.port} or the token is malformed."
    return ""


def _is_special(address: IPv4Address | IPv6Address) -> bool:
    return address.is_link_local or address.is_multicast or address.is_unspecified


async def _connect(peer: PeerCheck, own: str) -> socket.socket:
    """Try until CONNECT_S are over: the other agent may not listen yet. Raises OSError."""
    end = time.monotonic() + CONNECT_S
    while True:
        try:
            async with asyncio.timeout(ATTEMPT_S):
                return await _connect_once(peer, own)
        except OSError:  # a TimeoutError is one
            if time.monotonic() + PAUSE_S >= end:
                raise
        await asyncio.sleep(PAUSE_S)


async def _connect_once(peer: PeerCheck, own: str) -> socket.socket:
    made = _socket(peer.address)
    try:
        made.bind((own, 0))
        await asyncio.get_running_loop().sock_connect(made, (peer.address, peer.port))
    except BaseException:
        made.close()
        raise
    return made


def _socket(address: str) -> socket.socket:
    family = socket.AF_INET6 if ip_address(address).version == 6 else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setblocking(False)
    return made


# --- the other one


class PeerListeners:
    """Answers the nodes for which the server asked this one.

    address: returns that of this node; ports: its range for tasks; held: returns those that tasks
    have
    """

    def __init__(
        self,
        address: Callable[[], str],
        ports: tuple[int, int],
        held: Callable[[], Collection[int]],
    ) -> None:
        self._address, self._ports, self._held = address, ports, held
        self._wanted: frozenset[str] = frozenset()  # tokens
        self._tasks = TaskSet()

    def want(self, listens: list[PeerListen]) -> None:
        """Listen for these, and for no others any more."""
        known, kept = self._wanted, listens[:MOST_PEERS]
        self._wanted = frozenset(one.token for one in kept)
        for token in known - self._wanted:
            self._tasks.cancel(token)
        for one in kept:
            if one.token not in known:
                self._tasks.start(one.token, self._listen(one))

    async def close(self) -> None:
        await self._tasks.close()

    async def _listen(self, what: PeerListen) -> None:
        first, last = self._ports
        if not first <= what.port <= last or what.port in self._held() or len(what.token) != TOKEN:
            log.warning("peer_check_refused", port=what.port, ports=f"{first}-{last}")
            return
        try:
            own = self._address()
            with _socket(own) as listening:
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listening.bind((own, what.port))
                listening.listen(4)
                await self._answer_all(listening, what)
        except TimeoutError:
            return
        except (OSError, ValueError) as error:
            log.warning("peer_check_not_served", port=what.port, error=str(error)[:200])

    async def _answer_all(self, listening: socket.socket, what: PeerListen) -> None:
        """Raises TimeoutError when its time is over: soon after a measurement, for a node whose
        agent restarts meanwhile."""
        loop, visits = asyncio.get_running_loop(), 0
        end = loop.time() + LISTEN_S
        while visits < MOST_VISITS:
            async with asyncio.timeout_at(end):
                made, source = await loop.sock_accept(listening)
            with made:
                if source[0] != what.address:
                    log.warning("peer_check_refused", address=source[0])
                    continue
                visits += 1
                with suppress(OSError):  # the other side reports it
                    if await asyncio.to_thread(_answer_one, made, what.token):
                        end = min(end, loop.time() + AGAIN_S)


def _answer_one(made: socket.socket, token: str) -> bool:
    """Return whether it was the node that was named, and all was measured. Raises OSError."""
    given = _Wire(made, HELLO_S).receive(TOKEN)
    if not hmac.compare_digest(bytes(given), token.encode()):
        return False
    answer(_Wire(made, MEASURE_S), token)
    return True
