"""Sessions, heartbeats and facts of many agents are stored together, and none holds up or spoils
those of another one."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.support.gateway_agent import Agent, Joined
from tests.support.gateway_rows import running_attempt
from tests.support.gateway_server import wait_until

from skep_agent.protocol import AttemptFact, Heartbeat, HeartbeatAck, ReportAck, Welcome
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Node
from skep_platform.gateway import concurrency, grouped
from skep_platform.gateway.grouped import Grouped
from skep_platform.gateway.socket import CLOSE_INTERNAL
from skep_platform.jobs import services as jobs
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import AttemptState


class Commits:
    """Runs `jobs.apply_facts_of_nodes`, and notes the nodes of each call. The first call waits for
    `go_on`; one with the facts of `refused` fails."""

    def __init__(self) -> None:
        self.nodes: list[set[UUID]] = []
        self.go_on = threading.Event()
        self.refused: UUID | None = None
        self._apply = jobs.apply_facts_of_nodes

    def __call__(self, batches: Mapping[UUID, Sequence[AttemptFact]]) -> None:
        self.nodes.append(set(batches))
        if len(self.nodes) == 1:
            assert self.go_on.wait(60)
        if self.refused in batches:
            raise ValueError("facts that cannot be stored")
        self._apply(batches)


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> Iterator[Commits]:
    found = Commits()
    monkeypatch.setattr(jobs, "apply_facts_of_nodes", found)
    yield found
    found.go_on.set()


def exited(attempt: TaskAttempt) -> AttemptFact:
    return AttemptFact(
        seq=1,
        attempt_id=str(attempt.pk),
        epoch=attempt.epoch,
        at=time.time(),
        phase="exited",
        exit_code=0,
    )


def connected(port: int, names: Collection[str], stack: ExitStack) -> list[tuple[Joined, Agent]]:
    found = []
    for name in names:
        joined = Joined(name, gpus=1)
        agent = stack.enter_context(joined.connect(port))
        agent.enter(joined.hello)
        found.append((joined, agent))
    return found


def report_all(agents: Collection[tuple[Joined, Agent]], attempts: Sequence[TaskAttempt]) -> None:
    """Report the end of each attempt; all reports have reached the gateway at the end."""
    for (_, agent), attempt in zip(agents, attempts, strict=True):
        agent.report(exited(attempt))
        agent.beat()


def is_acknowledged(agent: Agent) -> bool:
    """Return whether it has read that its report is stored, while it waited for something else."""
    return any(isinstance(message, ReportAck) for message in agent.other)


class Held:
    """Runs `work`, and notes the nodes of each call. Calls that begin before `go_on` wait for
    it."""

    def __init__(self, work: Callable[[Mapping[UUID, Any]], Any]) -> None:
        self.nodes: list[set[UUID]] = []
        self.go_on = threading.Event()
        self._work = work

    def __call__(self, asked: Mapping[UUID, Any]) -> Any:
        self.nodes.append(set(asked))
        assert self.go_on.wait(60)
        return self._work(asked)


def waiting(kind: str) -> int:
    """How many nodes wait for a group of this kind, in all servers of this process."""
    return sum(len(getattr(found, kind)._waiting) for found in grouped._groups.values())


def test_agents_that_connect_again_at_once_share_the_statements(port, monkeypatch):
    monkeypatch.setattr(grouped, "SLOW_S", 60.0)
    with ExitStack() as stack:
        joined = [one for one, _ in connected(port, ("a", "b", "c", "d"), stack)]
    opened = Held(cluster.reopen_sessions)
    monkeypatch.setattr(cluster, "reopen_sessions", opened)
    with ExitStack() as stack:
        agents = [stack.enter_context(one.connect(port)) for one in joined]
        for number, (one, agent) in enumerate(zip(joined, agents, strict=True)):
            agent.send(one.hello)
            wait_until(lambda n=number: waiting("_sessions") == n and opened.nodes, "it waits")
        opened.go_on.set()
        epochs = [agent.expect(Welcome).session_epoch for agent in agents]
        first, *others = (one.node.pk for one in joined)
        assert opened.nodes == [{first}, set(others)]
        assert set(Node.objects.values_list("session_epoch", flat=True)) == set(epochs)


def test_heartbeats_that_come_during_a_statement_share_the_next_one(port, monkeypatch):
    monkeypatch.setattr(grouped, "SLOW_S", 60.0)
    renewed = Held(cluster.heartbeats)
    monkeypatch.setattr(cluster, "heartbeats", renewed)
    with ExitStack() as stack:
        agents = connected(port, ("a", "b", "c", "d"), stack)
        for number, (_, agent) in enumerate(agents):
            agent.send(Heartbeat(seq=1))
            wait_until(lambda n=number: waiting("_beats") == n and renewed.nodes, "it waits")
        renewed.go_on.set()
        for _, agent in agents:
            assert agent.expect(HeartbeatAck).seq == 1
        first, *others = (joined.node.pk for joined, _ in agents)
        assert renewed.nodes == [{first}, set(others)]


def test_reports_that_come_during_a_commit_share_the_next_one(port, commits, monkeypatch):
    monkeypatch.setattr(grouped, "SLOW_S", 60.0)
    with ExitStack() as stack:
        agents = connected(port, ("a", "b", "c", "d"), stack)
        attempts = [running_attempt(joined.node) for joined, _ in agents]
        report_all(agents[:1], attempts[:1])
        wait_until(lambda: commits.nodes, "the first commit began")
        report_all(agents[1:], attempts[1:])
        commits.go_on.set()
        for _, agent in agents:
            agent.expect(ReportAck)
        first, *others = (joined.node.pk for joined, _ in agents)
        assert commits.nodes == [{first}, set(others)]
        found = TaskAttempt.objects.filter(state=AttemptState.SUCCEEDED)
        assert found.count() == len(attempts)


def test_reports_pass_a_commit_that_waits(port, commits):
    with ExitStack() as stack:
        agents = connected(port, ("a", "b"), stack)
        attempts = [running_attempt(joined.node) for joined, _ in agents]
        report_all(agents[:1], attempts[:1])
        wait_until(lambda: commits.nodes, "the first commit began")
        report_all(agents[1:], attempts[1:])
        (_, first), (_, second) = agents
        if not is_acknowledged(second):  # before its heartbeat was, on a busy machine
            second.expect(ReportAck)
        assert not is_acknowledged(first)
        commits.go_on.set()
        first.expect(ReportAck)


def test_facts_that_cannot_be_stored_end_the_session_of_their_agent_alone(
    port, commits, monkeypatch
):
    monkeypatch.setattr(grouped, "SLOW_S", 60.0)
    with ExitStack() as stack:
        agents = connected(port, ("a", "b", "c"), stack)
        attempts = [running_attempt(joined.node) for joined, _ in agents]
        commits.refused = agents[1][0].node.pk
        report_all(agents[:1], attempts[:1])
        wait_until(lambda: commits.nodes, "the first commit began")
        report_all(agents[1:], attempts[1:])
        commits.go_on.set()
        (_, first), (_, refused), (_, third) = agents
        first.expect(ReportAck)
        third.expect(ReportAck)
        assert refused.end() == ("internal", CLOSE_INTERNAL)


def test_what_comes_during_the_first_group_after_a_silence_waits_for_no_pause():
    served: list[set[UUID]] = []
    first, second, third = uuid4(), uuid4(), uuid4()
    begun, go_on = threading.Event(), threading.Event()

    def work(asked: Mapping[UUID, int]) -> int:
        served.append(set(asked))
        if len(served) == 1:
            begun.set()
            assert go_on.wait(60)
        return len(asked)

    async def ask() -> list[int]:
        grouped_work = Grouped[UUID, int, int](concurrency.facts, work, pause_s=3600.0)
        asked = [asyncio.create_task(grouped_work.run(first, 0))]
        await asyncio.to_thread(begun.wait, 60)
        asked += [asyncio.create_task(grouped_work.run(node, 0)) for node in (second, third)]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.wait_for(asyncio.gather(*asked), 60)

    assert asyncio.run(ask()) == [1, 2, 2]
    assert served == [{first}, {second, third}]


def test_what_comes_within_a_moment_after_a_silence_is_one_group():
    served: list[set[UUID]] = []
    first, second = uuid4(), uuid4()

    def work(asked: Mapping[UUID, int]) -> int:
        served.append(set(asked))
        return len(asked)

    async def ask() -> list[int]:
        gathered = Grouped[UUID, int, int](concurrency.facts, work, gather_s=0.5)
        asked = [asyncio.create_task(gathered.run(first, 0))]
        for _ in range(10):  # of the event loop: the first request has begun its group
            await asyncio.sleep(0)
        asked.append(asyncio.create_task(gathered.run(second, 0)))
        return await asyncio.wait_for(asyncio.gather(*asked), 60)

    assert asyncio.run(ask()) == [2, 2]
    assert served == [{first, second}]
