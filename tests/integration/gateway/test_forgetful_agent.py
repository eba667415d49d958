"""A whole agent whose state directory or containers are lost under a running attempt."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.gateway_agent import Joined
from tests.support.gateway_server import wait_until
from tests.support.jobs_world import placed
from tests.support.platform_factories import make_user, make_vc

from skep_agent.runtimes.mock import MockRuntime
from skep_agent.statedir import Identity, StateDir
from skep_platform.cluster.models import Node, NodeState
from skep_platform.jobs.models import TaskAttempt

MODEL = "Simulated-GPU"


class CountingRuntime(MockRuntime):
    """Reports how often each container's attempt was started."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: Counter[str] = Counter()

    async def start(self, container_id: str, ports: Sequence[int] = ()) -> None:
        self.starts[self.containers[container_id].spec.attempt_id] += 1
        await super().start(container_id, ports)


class Machine:
    """A node with its agent, on an event loop of its own."""

    def __init__(self, port: int, state: Path) -> None:
        joined = Joined("alpha")
        url = f"http://127.0.0.1:{port}"
        config = config_for(state, url)
        identity = Identity(url, "alpha", str(joined.node.pk), "test", joined.credential)
        StateDir(state).save(identity)
        self.runtime = CountingRuntime()
        self.agent = AgentProcess(config, runtime=self.runtime)
        self.state = state
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def start(self) -> None:
        async def begin() -> None:
            self.agent.start()

        self._run(begin())
        wait_until(lambda: Node.objects.get().state == NodeState.ONLINE, "the agent is online")

    def kill(self) -> None:
        self._run(self.agent.kill())

    def close(self) -> None:
        self.kill()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@pytest.fixture
def machine(port: int, tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(port, tmp_path / "state")
    machine.start()
    try:
        yield machine
    finally:
        machine.close()


@pytest.fixture
def attempt(machine: Machine) -> TaskAttempt:
    """Of a job that runs until it is stopped."""
    alice = make_user()
    vc = make_vc(quotas={MODEL: 8}, members=[alice])
    placed(alice, vc, gpus=2, commands=["mock run_for=forever"])
    wait_until(lambda: TaskAttempt.objects.get().state == "RUNNING", "it runs")
    return TaskAttempt.objects.get()


def test_finding_c2_an_agent_without_its_journal_and_containers_starts_nothing_twice(
    machine: Machine, attempt: TaskAttempt
) -> None:
    machine.kill()
    (machine.state / "journal.jsonl").unlink()
    machine.runtime.containers.clear()
    machine.start()
    wait_until(lambda: TaskAttempt.objects.get().released_at, "its GPUs were looked at")
    attempt.refresh_from_db()
    assert (attempt.state, attempt.error_code) == ("LOST", "attempt_forgotten")
    assert attempt.job.state == "WAITING"
    assert attempt.job.retries_used == 0
    assert machine.runtime.starts == {str(attempt.pk): 1}


def test_finding_c2_an_agent_without_its_journal_takes_over_what_still_runs(
    machine: Machine, attempt: TaskAttempt
) -> None:
    machine.kill()
    before = Node.objects.get().session_epoch
    (machine.state / "journal.jsonl").unlink()
    machine.start()
    wait_until(lambda: Node.objects.get().session_epoch > before, "it is back")
    sent = Node.objects.get().desired_revision
    wait_until(lambda: Node.objects.get().last_heartbeat_at, "it goes on")
    attempt.refresh_from_db()
    assert (attempt.state, attempt.released_at) == ("RUNNING", None)
    assert Node.objects.get().desired_revision == sent
    assert machine.runtime.starts == {str(attempt.pk): 1}
