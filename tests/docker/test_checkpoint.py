"""A preempted task on a real engine: checkpoint signal, grace, SIGTERM, grace, SIGKILL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import docker
import pytest
from tests.support.agent_process import AgentProcess, config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.docker_tasks import make_spec, start

from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import AttemptSpec
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker

# A child of the task's shell, as a training program is.
SAVES = "trap 'echo checkpoint > /tmp/saved; cat /tmp/saved' USR1"
GOES_ON = "while :; do sleep 0.1; done"


@pytest.fixture
async def server() -> AsyncIterator[FakeControlPlane]:
    async with FakeControlPlane().running() as server:
        yield server


@pytest.fixture
async def agent(
    server: FakeControlPlane, cluster: str, tmp_path: Path
) -> AsyncIterator[AgentProcess]:
    process = AgentProcess(config_for(tmp_path / "n1", server.url), runtime=node_runtime(cluster))
    async with process.running() as agent:
        await server.until(lambda: server.node().socket)
        yield agent


def task(image: str, child: str, **fields) -> AttemptSpec:
    # Long enough for a busy machine to run a trap before the next signal comes.
    known = {"checkpoint_signal": "SIGUSR1", "checkpoint_grace_s": 3.0, "stop_grace_s": 3.0}
    command = f'sh -c "{child}"; echo shell goes on'
    return make_spec(image, command, cpus=0.5, memory_mb=16, **{**known, **fields})


async def preempted(server: FakeControlPlane, spec: AttemptSpec, ready: bytes = b"ready\n") -> None:
    """Wait until it is ready, preempt it, wait for its end."""
    await server.desire(spec)
    await server.until(lambda: ready in server.node().log(spec.attempt_id).data)
    stop = {"desired": "stop", "stop_cause": "preempted"}
    await server.desire(spec.model_copy(update=stop))
    await server.until(lambda: server.node().complete(spec.attempt_id))


def found(server: FakeControlPlane, spec: AttemptSpec) -> tuple[bytes, int | None]:
    """Its output, and its exit code."""
    facts = [f for f in server.node().facts if f.attempt_id == spec.attempt_id]
    exit_code = next(f.exit_code for f in facts if f.phase == "exited")
    return bytes(server.node().log(spec.attempt_id).data), exit_code


async def test_the_signal_comes_first_then_sigterm_then_sigkill(server, agent, busybox):
    """It saves when asked, receives SIGTERM, and goes on until it is killed."""
    spec = task(busybox, f"{SAVES}; trap 'echo term' TERM; echo ready; {GOES_ON}")
    await preempted(server, spec)
    output, exit_code = found(server, spec)
    assert output == b"ready\ncheckpoint\nterm\n"
    assert exit_code == 137


async def test_a_task_that_ends_after_saving_is_not_waited_for(server, agent, busybox):
    child = "trap 'echo saved; exit 0' USR1; echo ready; while :; do sleep 0.1; done"
    spec = task(busybox, child, checkpoint_grace_s=3000.0)
    await preempted(server, spec)
    assert found(server, spec) == (b"ready\nsaved\nshell goes on\n", 0)


async def test_a_task_that_is_stopped_by_its_owner_gets_no_such_signal(server, agent, busybox):
    spec = task(busybox, f"{SAVES}; trap 'echo term; exit 0' TERM; echo ready; {GOES_ON}")
    await server.desire(spec)
    await server.until(lambda: b"ready\n" in server.node().log(spec.attempt_id).data)
    await server.desire(spec.model_copy(update={"desired": "stop"}))
    await server.until(lambda: server.node().complete(spec.attempt_id))
    assert found(server, spec)[0] == b"ready\nterm\n"


async def test_an_agent_that_dies_meanwhile_goes_on_where_it_was(
    server, cluster, busybox, tmp_path
):
    """The signal is not sent twice, and SIGTERM comes when the first agent would have sent it."""
    child = "trap 'echo checkpoint' USR1; trap 'echo term; exit 0' TERM; echo ready; " + GOES_ON
    spec = task(busybox, child, checkpoint_grace_s=4.0)
    config = config_for(tmp_path / "n1", server.url)
    async with AgentProcess(config, runtime=node_runtime(cluster)).running():
        await server.desire(spec)
        await server.until(lambda: b"ready\n" in server.node().log(spec.attempt_id).data)
        stop = {"desired": "stop", "stop_cause": "preempted"}
        await server.desire(spec.model_copy(update=stop))
        await server.until(lambda: b"checkpoint\n" in server.node().log(spec.attempt_id).data)
    async with AgentProcess(config, runtime=node_runtime(cluster)).running():
        await server.until(lambda: server.node().complete(spec.attempt_id))
    assert found(server, spec)[0] == b"ready\ncheckpoint\nterm\n"


def node_runtime(cluster: str) -> DockerRuntime:
    return DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))


async def test_a_signal_for_what_does_not_run_is_no_error(
    runtime: DockerRuntime, busybox: str, docker_engine: docker.DockerClient
):
    container_id = await start(runtime, make_spec(busybox, "exit 0"))
    await runtime.wait(container_id)
    await runtime.signal(container_id, "SIGUSR1")
    await runtime.remove(container_id)
    await runtime.signal(container_id, "SIGUSR1")
