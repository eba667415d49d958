"""The link to the server has a thread of its own: what the agent is busy with holds up nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from tests.support.agent_process import config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.agent_specs import spec

from skep_agent.protocol import LogAck, ReportAck, Welcome
from skep_agent.shell import inbox as inboxes
from skep_agent.shell.inbox import Acknowledged, Arrived, Connection, Inbox, Lost, Opened, Silence
from skep_agent.shell.link import Pauses

Busy = Callable[[float], AbstractAsyncContextManager[Path]]
LEASE_S = 6.0  # a busy machine pauses the agent for a second or two


@pytest.fixture
def busy(server: FakeControlPlane, tmp_path: Path) -> Busy:
    """An agent in a process of its own, with one task; it gives the file that makes it busy."""

    @asynccontextmanager
    async def busy(seconds: float) -> AsyncIterator[Path]:
        server.lease_s = LEASE_S
        state = config_for(tmp_path / "n1", server.url).state
        await server.desire(spec(command="mock run_for=forever"))
        words = [sys.executable, "-m", "tests.support.busy_agent", str(state), str(seconds)]
        with (tmp_path / "log").open("wb") as log:
            child = await asyncio.create_subprocess_exec(*words, stdout=log, stderr=log)
        try:
            await server.until(lambda: "running" in server.node().phases("a1"))
            yield state / "busy"
        finally:
            child.kill()
            await child.wait()

    return busy


async def test_finding_s3_an_agent_that_is_busy_for_longer_than_its_lease_keeps_its_node(
    server: FakeControlPlane, busy: Busy
) -> None:
    node = server.node()
    async with busy(1.5 * LEASE_S) as sign:
        sign.touch()
        await server.until(lambda: not sign.exists())
        begin, samples = node.heartbeats, len(node.samples)
        await server.until(lambda: len(node.samples) > samples)
        assert node.heartbeats - begin > 5
        assert node.phases("a1")[-1] == "running"
        assert len(node.hellos) == 1
        await server.desire(spec(desired="stop"))
        await server.until(lambda: node.complete("a1"))
        assert not [fact for fact in node.facts if fact.phase == "failed"]


async def test_finding_c1_an_agent_that_is_stuck_says_no_more_that_it_lives(
    server: FakeControlPlane, busy: Busy
) -> None:
    """Heartbeats stop, the lease ends, and the watchdog does the rest."""
    node = server.node()
    async with busy(600) as sign:
        sign.touch()
        await server.until(lambda: not sign.exists())
        begin = node.heartbeats
        await server.until(lambda: node.heartbeats > begin)
        async with asyncio.timeout(60):
            while True:
                before = node.heartbeats
                await asyncio.sleep(5 * server.heartbeat_interval_s)
                if node.heartbeats == before:
                    break
        assert node.heartbeats - begin <= 1.5 * LEASE_S / server.heartbeat_interval_s


# --- between the threads


def connection() -> Connection:
    welcome = Welcome(
        node_name="n1", session_epoch=1, lease_s=30, heartbeat_interval_s=5, sample_interval_s=5
    )
    return Connection(None, asyncio.get_running_loop(), welcome, 0.0, 0.0)  # type: ignore[arg-type]


async def test_news_arrive_in_order_and_those_of_a_lost_connection_are_forgotten() -> None:
    came: list[object] = []
    inbox, one, two = Inbox(came.append), connection(), connection()
    first = Opened(one)
    inbox.put(first)
    await asyncio.sleep(0.01)
    inbox.put(Arrived(one, ReportAck(seq=1)))
    inbox.put(Acknowledged(one, 1.0))
    rest = [Lost(one), Opened(two), Arrived(two, ReportAck(seq=2))]
    for news in rest:
        inbox.put(news)
    await asyncio.sleep(0.01)
    assert came == [first, Acknowledged(one, 1.0), *rest]


async def test_finding_s6_a_main_loop_far_behind_keeps_a_bounded_number_of_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inboxes, "INBOX_FRAMES", 10)
    inbox, one = Inbox(lambda news: None), connection()
    ack = LogAck(attempt_id="a", stream="stdout", offset=1)
    for _ in range(10):
        inbox.put(Arrived(one, ack))
    with pytest.raises(Silence):
        inbox.put(Arrived(one, ack))
    inbox.put(Lost(one))
    inbox.put(Arrived(one, ack))


async def test_finding_s6_a_main_loop_far_behind_keeps_a_bounded_number_of_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inboxes, "INBOX_BYTES", 1000)
    inbox, one = Inbox(lambda news: None), connection()
    for _ in range(2):
        inbox.put(Arrived(one, "x" * 400))
    with pytest.raises(Silence):
        inbox.put(Arrived(one, "x" * 400))
    inbox.put(Lost(one))
    inbox.put(Arrived(one, "x" * 400))


def test_connections_that_end_at_once_are_not_tried_twice_a_second_for_ever() -> None:
    pauses = Pauses(most_s=4.0)
    assert [pauses.after(served_s) for served_s in (0, 0.1, 0.1, 0, 0.1)] == [0.5, 1, 2, 4, 4]
    assert [pauses.after(served_s) for served_s in (3600, 0.1, 3600)] == [0.5, 1, 0.5]
