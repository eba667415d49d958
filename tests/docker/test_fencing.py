"""No container outlives its node's lease, whatever becomes of the agent (finding C1), and none is
started twice (finding C2).

The server gives a node's work to others when the lease and MARGIN_S have passed: by then every
process of the containers must be dead.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime
from pathlib import Path

import docker
import pytest
from docker.models.containers import Container
from tests.support.agent_child import AgentChild
from tests.support.agent_server import FakeControlPlane
from tests.support.docker_proxy import Proxy, unix_proxy
from tests.support.docker_tasks import make_spec

from skep_agent import watchdog
from skep_agent.containers import RuntimeFailure
from skep_agent.core import instructions as do
from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.shell import lease_guard as fencing
from skep_agent.shell.lease_guard import EngineToKill, WatchdogGuard
from skep_agent.shell.operations import Operations
from skep_agent.shell.working_files import Archives
from skep_agent.statedir import Identity

pytestmark = pytest.mark.docker

ENGINE = "unix:///var/run/docker.sock"
LEASE_S = 3.0
MARGIN_S = 5.0  # the default of SKEP_LEASE_MARGIN_S, and the least that the server accepts
# It holds out against SIGTERM, and has processes in a session and in a process group of their own.
STUBBORN = "trap '' TERM HUP; setsid sleep 998 & (trap '' TERM; sleep 999) & sleep 600 & wait; wait"

Until = Callable[..., object]


async def until(condition: Until, within: float = 60.0) -> None:
    async with asyncio.timeout(within):
        while not condition():  # noqa: ASYNC110 another process gives no notice
            await asyncio.sleep(0.05)


@pytest.fixture
async def server() -> AsyncIterator[FakeControlPlane]:
    plane = FakeControlPlane()
    plane.lease_s, plane.heartbeat_interval_s = LEASE_S, 0.2
    async with plane.running() as server:
        yield server


@pytest.fixture
def agent(server: FakeControlPlane, cluster: str, tmp_path: Path) -> Iterator[AgentChild]:
    child = AgentChild(tmp_path / "n1", server.url, cluster)
    yield child
    child.close()


class Witness:
    """The engine's own word on one attempt's containers."""

    def __init__(self, client: docker.DockerClient, cluster: str) -> None:
        self._client = client
        self._filters = {"label": f"skep.cluster={cluster}"}

    def containers(self) -> list[Container]:
        return self._client.containers.list(all=True, filters=self._filters, ignore_removed=True)

    def running(self) -> list[Container]:
        return self._client.containers.list(filters=self._filters, ignore_removed=True)

    def ended_at(self) -> float:
        (container,) = self.containers()
        text = container.attrs["State"]["FinishedAt"][:26].rstrip("Z") + "+00:00"
        return datetime.fromisoformat(text).timestamp()


@pytest.fixture
def witness(docker_engine: docker.DockerClient, cluster: str) -> Witness:
    return Witness(docker_engine, cluster)


async def running(server: FakeControlPlane, agent: AgentChild, image: str, witness: Witness) -> str:
    spec = make_spec(image, STUBBORN)
    agent.start()
    server.node().specs = {spec.attempt_id: spec}
    await server.until(lambda: "running" in server.node().phases(spec.attempt_id))
    assert len(witness.running()) == 1
    return spec.attempt_id


async def test_finding_c1_a_stopped_agent_keeps_no_container_and_starts_none_again(
    server: FakeControlPlane, agent: AgentChild, busybox: str, witness: Witness
) -> None:
    key = await running(server, agent, busybox, witness)
    agent.send(signal.SIGSTOP)
    stopped_at = time.time()
    await until(lambda: not witness.running(), LEASE_S + 60)
    assert witness.ended_at() < stopped_at + LEASE_S + MARGIN_S
    await asyncio.sleep(max(stopped_at + 2 * LEASE_S - time.time(), 0))
    agent.send(signal.SIGCONT)
    node = server.node()
    await server.until(lambda: node.complete(key))
    assert node.phases(key).count("running") == 1
    failed = next(fact for fact in node.facts if fact.phase == "failed")
    assert failed.error_code == "node_lost"
    assert not witness.running()
    agent.end(signal.SIGTERM)


async def test_finding_c1_a_killed_agent_that_does_not_come_back_keeps_no_container(
    server: FakeControlPlane, agent: AgentChild, busybox: str, witness: Witness
) -> None:
    await running(server, agent, busybox, witness)
    agent.end(signal.SIGKILL)
    killed_at = time.time()
    await until(lambda: not witness.running(), LEASE_S + 60)
    assert witness.ended_at() < killed_at + LEASE_S + MARGIN_S


async def test_finding_c1_a_container_dies_with_the_lease_while_the_engine_hangs(
    server: FakeControlPlane, cluster: str, tmp_path: Path, busybox: str, witness: Witness
) -> None:
    """Also when the agent itself is well, and asks the engine in vain."""
    proxy = Proxy()
    async with unix_proxy(proxy) as engine:
        agent = AgentChild(tmp_path / "n1", server.url, cluster, engine)
        try:
            await running(server, agent, busybox, witness)
            proxy.hangs = True
            server.answer_heartbeats = server.welcome_agents = False
            silent_at = time.time()
            await until(lambda: not witness.running(), LEASE_S + 60)
            assert witness.ended_at() < silent_at + LEASE_S + MARGIN_S
        finally:
            agent.close()


async def test_finding_c1_an_agent_that_restarts_in_time_keeps_container_and_watchdog(
    server: FakeControlPlane, agent: AgentChild, busybox: str, witness: Witness
) -> None:
    server.lease_s = 30.0
    await running(server, agent, busybox, witness)
    (before,) = watchdogs(agent.state)
    agent.end(signal.SIGTERM)
    assert watchdogs(agent.state) == [before], "it watches on while no agent is there"
    lives = len(server.node().hellos)
    agent.start()
    await server.until(lambda: len(server.node().hellos) > lives)
    assert watchdogs(agent.state) == [before]
    assert len(witness.running()) == 1
    await server.desire()
    await until(lambda: not witness.containers())
    agent.end(signal.SIGTERM)
    await until(lambda: not watchdogs(agent.state))


def watchdogs(state: Path) -> list[int]:
    """Process ids of the watchdogs of this state directory."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if watchdog.__file__.encode() in words and json.dumps(str(state)).encode() in words[-2]:
            found.append(int(name))
    return found


async def test_finding_c2_an_agent_that_forgot_all_starts_no_container_a_second_time(
    server: FakeControlPlane, agent: AgentChild, busybox: str, witness: Witness, tmp_path: Path
) -> None:
    """It ended while no agent was there, and the server still wants it to run."""
    server.lease_s = 30.0
    spec = make_spec(busybox, "echo ran; while [ ! -e /tmp/end ]; do sleep 0.1; done; exit 7")
    key, node = spec.attempt_id, server.node()
    agent.start()
    node.specs = {key: spec}
    await server.until(lambda: node.log(key).data == b"ran\n")
    agent.end(signal.SIGKILL)
    (container,) = witness.running()
    container.exec_run(["touch", "/tmp/end"])
    container.wait()
    container.reload()
    started_at = container.attrs["State"]["StartedAt"]
    (agent.state / "journal.jsonl").unlink()
    server.store_logs = False  # so that the container is kept
    agent.start()
    await server.until(lambda: "released" in node.phases(key))
    (same,) = witness.containers()
    assert (same.id, same.attrs["State"]["StartedAt"]) == (container.id, started_at)
    assert [fact.exit_code for fact in node.facts if fact.phase == "exited"] == [7]


async def test_finding_c2_a_start_that_was_not_answered_is_not_made_a_second_time(
    cluster: str, busybox: str, witness: Witness
) -> None:
    """The engine started the container, which was over before it could say so."""
    proxy = Proxy()
    async with unix_proxy(proxy) as path:
        runtime = DockerRuntime(NodeFacts(cluster, "n1", simulated_gpus=True), path)
        container_id = await runtime.create(make_spec(busybox, "echo ran"))
        (container,) = witness.containers()
        container.start()
        container.wait()
        await runtime.start(container_id)
        assert (await runtime.wait(container_id)).exit_code == 0
        assert container.logs() == b"ran\n"
        assert ("POST", f"/containers/{container_id}/start") not in proxy.requests
        await runtime.close()


# --- the watchdog alone


@pytest.fixture
def fence(tmp_path: Path, cluster: str) -> Iterator[WatchdogGuard]:
    fence = WatchdogGuard(tmp_path, EngineToKill(ENGINE, "", [f"skep.cluster={cluster}"]))
    fence.set_lease(watchdog.now() + 600)
    fence.start()
    yield fence
    fence.close(idle=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_finding_c1_a_watchdog_that_does_not_watch_is_replaced(
    fence: WatchdogGuard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    monkeypatch.setattr(fencing, "BEAT_LIMIT_S", 1.5)
    await fence.ready()
    (first,) = watchdogs(tmp_path)
    os.kill(first, number)
    # Both are there for a moment where the first one is stopped, and not dead.
    await until(lambda: set(watchdogs(tmp_path)) - {first})
    await fence.ready()
    await until(lambda: first not in watchdogs(tmp_path))


async def test_finding_c1_nothing_is_started_while_no_watchdog_lives(
    tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "READY_S", 0.5)
    monkeypatch.setattr(fencing.sys, "executable", "/bin/false")
    fence = WatchdogGuard(tmp_path, EngineToKill(ENGINE, "", [f"skep.cluster={cluster}"]))
    fence.set_lease(watchdog.now() + 600)
    fence.start()
    with pytest.raises(RuntimeFailure) as refused:
        await fence.ready()
    assert (refused.value.code, "watchdog" in refused.value.message) == ("engine_down", True)
    fence.close(idle=True)


async def test_finding_c1_a_start_that_was_given_up_and_comes_late_is_killed_within_the_lease(
    fence: WatchdogGuard, cluster: str, busybox: str, witness: Witness, tmp_path: Path
) -> None:
    """The engine held it up for longer than the agent waits, and its GPUs are others' by now."""
    proxy = Proxy()
    async with unix_proxy(proxy) as path:
        runtime = DockerRuntime(NodeFacts(cluster, "n1", simulated_gpus=True), path)
        container_id = await runtime.create(make_spec(busybox, STUBBORN))
        identity = Identity("http://127.0.0.1:1", "n1", "id-n1", cluster, "secret")
        archives = Archives(tmp_path / "a", identity)
        operations = Operations(
            runtime,
            archives,
            fence,
            lambda _: None,
            lambda _: True,
            lambda _: None,
            lambda *_: None,
        )
        await fence.ready()
        proxy.holds_starts = True
        operations.run(do.Start("one", 1, container_id, ()))
        await until(lambda: ("POST", f"/containers/{container_id}/start") in proxy.requests)
        operations.cancel(do.Cancel("one", 1))
        proxy.release_starts()
        # The engine does what it was asked for, and answers.
        await until(lambda: ("POST", f"/containers/{container_id}/start") in proxy.answered)
        await until(lambda: not witness.running())
        (container,) = witness.containers()
        # Killed before or after the engine had its first process.
        assert container.attrs["State"]["ExitCode"] != 0
        await operations.close()
        await runtime.close()


@pytest.mark.long
async def test_finding_c1_a_start_that_comes_long_after_its_agent_died_is_killed(
    server: FakeControlPlane, cluster: str, tmp_path: Path, busybox: str, witness: Witness
) -> None:
    """Later than a watchdog stays that has nothing to wait for."""
    proxy = Proxy()
    async with unix_proxy(proxy) as engine:
        agent = AgentChild(tmp_path / "n1", server.url, cluster, engine)
        spec = make_spec(busybox, STUBBORN)
        try:
            proxy.holds_starts = True
            agent.start()
            server.node().specs = {spec.attempt_id: spec}
            await until(lambda: any(path.endswith("/start") for _, path in proxy.requests))
            agent.end(signal.SIGKILL)
            await asyncio.sleep(LEASE_S + watchdog.LINGER_S + 10)
            assert watchdogs(agent.state)
            (container,) = witness.containers()
            container.start()
            await until(lambda: not witness.running())
            await until(lambda: not watchdogs(agent.state), watchdog.LINGER_S + 60)
        finally:
            agent.close()


async def test_a_next_agent_keeps_what_the_one_before_condemned(tmp_path: Path) -> None:
    given_up, named, starting = "a" * 64, "b" * 64, "c" * 64
    with (tmp_path / "page").open("w+b") as file:
        page = watchdog.SharedPage(file.fileno())
        page.condemn(given_up)
        page.name(given_up)
        page.name(named)
        page.starting(starting)
        assert page.unanswered() == {given_up, starting}
        page = watchdog.SharedPage(file.fileno())
        page.take_over()
        assert (page.condemned(), page.containers()) == ({given_up}, {given_up})
        page.unname(given_up)
        assert not page.containers()


async def test_finding_c1_nothing_is_started_past_the_lease(fence: WatchdogGuard) -> None:
    fence.set_lease(watchdog.now() - 0.001)
    with pytest.raises(RuntimeFailure) as refused:
        await fence.ready()
    assert refused.value.code == "node_lost"


async def test_finding_c1_containers_that_no_one_named_are_killed_by_the_engine(
    docker_engine: docker.DockerClient, fence: WatchdogGuard, cluster: str, busybox: str
) -> None:
    """And no others; and what starts later, for as long as the lease is over."""
    labels = {"skep.cluster": cluster}
    stranger_labels = {"skep.cluster": f"{cluster}-other"}

    def begin(labels: dict[str, str]) -> Container:
        name = f"skep-test-{uuid.uuid4().hex[:12]}"
        return docker_engine.containers.run(
            busybox, ["sleep", "600"], labels=labels, name=name, detach=True
        )

    def lives(container: Container) -> bool:
        container.reload()
        return container.status == "running"

    stranger, one = begin(stranger_labels), begin(labels)
    try:
        await fence.ready()
        fence.set_lease(watchdog.now() - watchdog.KILL_AFTER_S)
        await until(lambda: not lives(one))
        late = begin(labels)
        await until(lambda: not lives(late))
        assert lives(stranger)
    finally:
        stranger.remove(force=True)


async def test_finding_c1_a_renewed_lease_ends_the_killing(
    docker_engine: docker.DockerClient, fence: WatchdogGuard, cluster: str, busybox: str
) -> None:
    fence.set_lease(watchdog.now() - 60)
    await asyncio.sleep(2 * watchdog.PERIOD_S)
    fence.set_lease(watchdog.now() + 600)
    await asyncio.sleep(2 * watchdog.ENGINE_ANSWER_S)
    container = docker_engine.containers.run(
        busybox, ["sleep", "3"], labels={"skep.cluster": cluster}, detach=True
    )
    fence.name(container.id)
    assert container.wait()["StatusCode"] == 0


async def test_finding_s3_hostile_secrets_and_a_hostile_log_cost_no_one_the_node(
    server: FakeControlPlane, agent: AgentChild, busybox: str
) -> None:
    """100 secrets that lie in one another, and 1 MiB of log that consists of them."""
    server.lease_s = 10.0  # so that other work of the machine costs it no lease either
    spec = make_spec(
        busybox,
        "busybox yes a | busybox tr -d '\\n' | head -c 1048576",
        masks=["a" * size for size in range(901, 1001)],
    )
    neighbour = make_spec(busybox, "sleep 600")
    node = server.node()
    node.specs = {spec.attempt_id: spec, neighbour.attempt_id: neighbour}
    agent.start()
    await server.until(lambda: node.complete(spec.attempt_id))
    assert bytes(node.log(spec.attempt_id).data) == b"*" * 1048576
    assert node.phases(neighbour.attempt_id)[-1] == "running"
    assert len(node.hellos) == 1
