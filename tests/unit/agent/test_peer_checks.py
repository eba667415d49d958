"""The network between two nodes, measured by their agents; here both are on the loopback."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from threading import Thread

import pytest
from tests.support.ports import free_port

from skep_agent.check_messages import PeerCheck, PeerListen
from skep_agent.shell import peer_checks
from skep_agent.shell.peer_checks import PeerListeners, check_peer

LOOPBACK = "127.0.0.1"
TOKEN = "5" * 64


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_checks, "CONNECT_S", 3.0)
    monkeypatch.setattr(peer_checks, "PAUSE_S", 0.1)


@asynccontextmanager
async def listening(
    port: int, address: str = LOOPBACK, token: str = TOKEN, **node: object
) -> AsyncIterator[PeerListeners]:
    """A node whose agent was asked to listen."""
    known: dict[str, object] = {"ports": (port, port), "held": tuple}
    listeners = PeerListeners(lambda: LOOPBACK, **known | node)  # type: ignore[arg-type]
    listeners.want([PeerListen(address=address, port=port, token=token)])
    try:
        yield listeners
    finally:
        await listeners.close()


def peer(port: int, **fields: object) -> PeerCheck:
    known = {"name": "gpu-2", "address": LOOPBACK, "port": port, "token": TOKEN}
    return PeerCheck.model_validate(known | fields)


async def test_a_network_that_carries_enough_passes_with_what_it_carried() -> None:
    port = free_port()
    async with listening(port):
        found = await check_peer(peer(port), LOOPBACK, 1.0)
        assert (found.name, found.passed, found.message) == ("peer gpu-2", True, "")
        assert found.numbers.keys() == {"latency_ms", "out_mb_s", "in_mb_s", "all_reduce_mb_s"}
        assert all(number > 0 for number in found.numbers.values())
        # A round that the agent runs again, after its restart, finds the other one still there.
        assert (await check_peer(peer(port), LOOPBACK, 1.0)).passed


async def test_a_slow_network_fails_with_its_numbers() -> None:
    port = free_port()
    async with listening(port):
        found = await check_peer(peer(port), LOOPBACK, 1e9)
    assert not found.passed
    assert f"MB/s to or from 127.0.0.1 port {port}, less than 1e+09 MB/s" in found.message
    assert found.numbers["out_mb_s"] > 0


async def test_a_peer_that_listens_later_is_waited_for_and_one_that_does_not_fails() -> None:
    port = free_port()
    early = asyncio.create_task(check_peer(peer(port), LOOPBACK, 0.0))
    await asyncio.sleep(0)
    async with listening(port) as listeners:
        assert (await early).passed
        listeners.want([])  # the round is over
        found = await check_peer(peer(port), LOOPBACK, 0.0)
    assert found.message == f"TCP 127.0.0.1 port {port} cannot be reached: Connection refused."


def connected(port: int) -> socket.socket:
    """Connect to an agent that may not listen yet."""
    for _ in range(100):
        with suppress(ConnectionRefusedError):
            return socket.create_connection((LOOPBACK, port))
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens at port {port}")


@asynccontextmanager
async def changed_by(port: int, target: int) -> AsyncIterator[None]:
    """A network that changes a bit in the middle of what the peer sends."""
    with socket.create_server((LOOPBACK, port)) as server:
        after = (peer_checks.STREAM_BLOCKS + 1) * peer_checks.BLOCK

        def copy(source: socket.socket, to: socket.socket, at: int) -> None:
            seen = 0
            while data := bytearray(source.recv(1 << 16)):
                if seen <= at < seen + len(data):
                    data[at - seen] ^= 1
                seen += len(data)
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)

        def serve() -> None:
            near, _ = server.accept()
            with near, connected(target) as far:
                there = Thread(target=copy, args=(near, far, -1))
                there.start()
                copy(far, near, after)
                there.join()

        thread = Thread(target=serve)
        thread.start()
        yield
        await asyncio.to_thread(thread.join)  # the peer closes its side in this event loop


async def test_one_bit_that_the_network_changes_is_found() -> None:
    port, between = free_port(), free_port()
    async with listening(port), changed_by(between, port):
        found = await check_peer(peer(between), LOOPBACK, 0.0)
    assert not found.passed
    assert "bytes were changed" in found.message


@pytest.mark.parametrize(
    ("address", "own"),
    [
        ("169.254.169.254", "10.0.0.1"),  # metadata of a cloud
        ("127.0.0.1", "10.0.0.1"),  # services of the node itself
        ("0.0.0.0", "127.0.0.1"),
        ("224.0.0.1", "10.0.0.1"),
        ("db.example.org", "10.0.0.1"),
    ],
)
async def test_the_agent_connects_to_nothing_that_is_no_node(address: str, own: str) -> None:
    found = await check_peer(peer(9000, address=address), own, 0.0)
    assert not found.passed
    assert "cannot be reached" not in found.message


async def test_ports_of_services_and_malformed_tokens_are_refused() -> None:
    assert "malformed" in (await check_peer(peer(22), LOOPBACK, 0.0)).message
    assert "malformed" in (await check_peer(peer(9000, token="x"), LOOPBACK, 0.0)).message


async def test_a_node_answers_only_the_token_and_the_address_that_it_was_given() -> None:
    port = free_port()
    async with listening(port):
        found = await check_peer(peer(port, token="6" * 64), LOOPBACK, 0.0)
        assert "broke" in found.message
    port = free_port()
    async with listening(port, address="127.0.0.9"):
        assert "broke" in (await check_peer(peer(port), LOOPBACK, 0.0)).message


@pytest.mark.parametrize("node", [{"ports": (1, 2)}, {"held": None}])
async def test_a_node_does_not_listen_at_a_port_that_is_not_free_for_it(node: dict) -> None:
    port = free_port()
    if "held" in node:
        node = {"held": lambda: {port}}
    async with listening(port, **node):
        found = await check_peer(peer(port), LOOPBACK, 0.0)
    assert "Connection refused" in found.message
