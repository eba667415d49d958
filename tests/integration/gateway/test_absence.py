"""A gateway that stops on purpose, or is killed, and the agents that it leaves behind."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now
from tests.support.gateway_agent import Joined
from tests.support.gateway_server import ProcessServer, ThreadServer, wait_until
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from skep_agent.protocol import (
    Desired,
    Heartbeat,
    HeartbeatAck,
    Leaving,
    Welcome,
    parse_server_message,
)
from skep_platform.cluster import services, sessions
from skep_platform.cluster.models import ControlPlane, Node, NodeState
from skep_platform.gateway import agent as agent_socket

pytestmark = pytest.mark.django_db(transaction=True)

FLEET, GONE = 200, 10


@pytest.fixture
def gateway() -> Iterator[ProcessServer]:
    with ProcessServer(lifespan="on") as server:
        yield server


def lease_left(node: Node) -> float:
    left = Node.objects.annotate(left=F("lease_expires_at") - Now()).get(pk=node.pk).left
    return left.total_seconds()


def test_finding_c8_a_gateway_that_is_stopped_informs_its_agents_for_how_long(
    gateway: ProcessServer, settings
) -> None:
    joined = Joined()
    with joined.connect(gateway.port) as agent:
        agent.enter(joined.hello)
        stopping = threading.Thread(target=gateway.terminate)
        stopping.start()
        leaving = agent.expect(Leaving)
        assert leaving.for_s == settings.SKEP_PLANNED_ABSENCE_S
        assert lease_left(joined.node) > leaving.for_s + settings.SKEP_LEASE_S, "stored before"
    stopping.join()
    gateway.start()
    with joined.connect(gateway.port) as agent:
        agent.enter(joined.hello)
        assert lease_left(joined.node) > settings.SKEP_PLANNED_ABSENCE_S
        agent.beat()
        assert lease_left(joined.node) <= settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S


def test_finding_c8_no_one_is_assured_what_cannot_be_stored(
    gateway: ProcessServer,
) -> None:
    """Its session was taken over: the newer gateway extends its lease."""
    joined = Joined()
    with joined.connect(gateway.port) as agent:
        agent.enter(joined.hello)
        Node.objects.update(session_epoch=F("session_epoch") + 1)
        gateway.terminate()
        assert agent.end()[1] in (1012, 4410)
        assert not any(isinstance(message, Leaving) for message in agent.other)


def test_finding_c3_a_hello_with_nothing_new_costs_three_statements(
    web: ThreadServer, port: int, queries
) -> None:
    joined = Joined(gpus=8)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
    wait_until(lambda: Node.objects.get().state == NodeState.UNREACHABLE, "closed")
    # As after a SIGKILL of the server.
    Node.objects.update(state=NodeState.ONLINE, connected=True)
    queries.sql.clear()
    with joined.connect(port) as agent:
        agent.send(joined.hello)
        agent.expect(Welcome)
        asked = [sql for sql in queries.sql if sql.startswith(("SELECT", "UPDATE", "INSERT"))]
        node = [sql for sql in asked if "cluster_" in sql.split("WHERE")[0]]
        assert len([sql for sql in node if "desired_revision" not in sql or "*" in sql]) <= 3, asked


def test_finding_c4_a_hello_costs_a_fixed_few_statements(django_assert_max_num_queries) -> None:
    """The first one: to lock the node, its GPUs known so far, the GPUs, the node, the event."""
    joined = Joined(gpus=8)
    node = Node.objects.get()
    with django_assert_max_num_queries(5 + BEGIN_COMMIT):
        agent_socket._open(node.pk, joined.hello)
    assert Node.objects.get().memory_id == joined.hello.memory_id
    services.close_session(node.pk, Node.objects.get().session_epoch)
    with django_assert_max_num_queries(4 + BEGIN_COMMIT):  # one asks what the agent forgot
        agent_socket._open(node.pk, joined.hello)


def test_finding_c4_a_join_costs_a_fixed_few_statements(django_assert_max_num_queries) -> None:
    """To look for the token and the name, to use it, the node, the event, the audit log."""
    _, token = services.issue_join_token(None, 60, nodes=2)
    with django_assert_max_num_queries(6 + BEGIN_COMMIT):
        services.join_node(token, "joins", "i1")


def test_finding_c4_the_first_desired_state_of_a_node_costs_no_statement(
    web: ThreadServer, port: int, queries
) -> None:
    joined = Joined(gpus=8)
    queries.sql.clear()
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        assert not [sql for sql in queries.sql if "jobs_taskattempt" in sql]
        Node.objects.update(desired_revision=F("desired_revision") + 1)
        agent.beat()
        assert agent.expect(Desired).revision == 1


BEGIN_COMMIT = 2


class Fleet:
    """Agents of one thread that say hello, send heartbeats and come back; they never fence."""

    def __init__(self, port: int, joined: list[Joined]) -> None:
        self._port = port
        self._joined = joined
        self.gone: set[int] = set()  # these do not come back
        self.connected: set[int] = set()

    def __enter__(self) -> Fleet:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._run(), self._loop).result(60)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        self._agents = [
            asyncio.ensure_future(self._agent(n, j)) for n, j in enumerate(self._joined)
        ]

    async def _end(self) -> None:
        for agent in self._agents:
            agent.cancel()
        await asyncio.gather(*self._agents, return_exceptions=True)

    async def _agent(self, number: int, joined: Joined) -> None:
        while True:
            await asyncio.sleep(random.uniform(0.1, 1.0))
            if number in self.gone:
                return
            try:
                await self._session(number, joined)
            except (OSError, ConnectionClosed, InvalidHandshake, TimeoutError):
                self.connected.discard(number)

    async def _session(self, number: int, joined: Joined) -> None:
        async with connect(
            f"ws://127.0.0.1:{self._port}/ws/agent",
            additional_headers={"Authorization": f"Bearer {joined.credential}"},
            compression=None,
            ping_interval=None,
            open_timeout=30,
            proxy=None,
        ) as socket:
            await socket.send(joined.hello.model_dump_json())
            beats = 0
            while True:
                message = parse_server_message(await socket.recv())
                if isinstance(message, Welcome):
                    self.connected.add(number)
                if isinstance(message, Welcome | HeartbeatAck):
                    await asyncio.sleep(1.0)
                    beats += 1
                    await socket.send(Heartbeat(seq=beats).model_dump_json())


def test_finding_c3_a_killed_server_loses_no_node_that_lives_and_later_those_that_do_not(
    settings,
) -> None:
    """200 agents, a server away for longer than the lease, ten agents that die meanwhile."""
    settings.SKEP_LEASE_S, settings.SKEP_LEASE_MARGIN_S = 8.0, 5.0
    joined = [Joined() for _ in range(FLEET)]
    with ProcessServer(lifespan="on") as server, Fleet(server.port, joined) as fleet:
        wait_until(lambda: len(fleet.connected) == FLEET, "all agents are connected")
        fleet.gone = set(range(GONE))
        server.kill()
        away_until = time.monotonic() + 15
        while time.monotonic() < away_until:  # as the reconciler does
            assert services.expire_leases() == []
            time.sleep(0.5)
        server.start()
        lost: list[object] = []

        def all_back() -> bool:
            lost.extend(services.expire_leases())
            return len(fleet.connected) == FLEET - GONE

        wait_until(all_back, "all others are back")
        assert lost == []
        dead = {joined[n].node.pk for n in range(GONE)}

        def dead_are_lost() -> bool:
            lost.extend(services.expire_leases())
            return len(lost) >= GONE

        wait_until(dead_are_lost, "the dead are judged")
        assert set(lost) == dead
    back = ControlPlane.objects.get()
    assert back.seen_at - back.since >= timedelta(seconds=8), "only after a whole lease"
    assert sessions.gap() == timedelta(seconds=2)
