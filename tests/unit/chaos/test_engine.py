"""Engines of simulated nodes: what they run is theirs, and they see who uses a GPU twice."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from chaos.engine import EngineServer, Ledger, NodeEngine
from chaos.runtime import EngineRuntime
from tests.support.agent_specs import spec

from skep_agent.containers import RuntimeFailure
from skep_agent.runtimes.base import Runtime
from skep_agent.watchdog import EngineClient


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
async def server(tmp_path: Path, ledger: Ledger) -> AsyncIterator[EngineServer]:
    server = EngineServer(NodeEngine("n1", ledger), tmp_path)
    await server.start()
    yield server
    server.close()


@pytest.fixture
def runtime(server: EngineServer) -> EngineRuntime:
    return EngineRuntime(server.calls)


async def started(runtime, command: str, **fields) -> str:
    container_id = await runtime.create(spec(command=command, **fields))
    await runtime.start(container_id)
    return container_id


async def output(runtime, container_id: str) -> bytes:
    return b"".join([piece.data async for piece in runtime.logs(container_id)])


async def test_a_container_outlives_the_runtime_that_started_it(server, runtime, ledger):
    container_id = await started(runtime, "mock run_for=0.2 exit_code=3 log_lines=40")

    another = EngineRuntime(server.calls)
    [found] = await another.list()
    end = await another.wait(found.container_id)

    assert (found.container_id, found.status, end.exit_code) == (container_id, "running", 3)
    [run] = ledger.runs
    assert await output(another, container_id) == run.output("stdout")
    assert run.exit_code == 3


@pytest.mark.parametrize("call", [n for n in vars(EngineRuntime) if not n.startswith("_")])
def test_it_is_called_as_any_other_runtime(call):
    """The agent of a chaos run is the real one, and gives what the protocol has."""
    own, wanted = (inspect.signature(getattr(kind, call)) for kind in (EngineRuntime, Runtime))
    assert list(own.parameters) == list(wanted.parameters)


async def test_a_failure_of_the_engine_is_that_of_the_runtime(runtime):
    with pytest.raises(RuntimeFailure) as failure:
        await runtime.wait("none")

    assert failure.value.code == "container_gone"


async def test_an_engine_that_is_not_there_is_down(tmp_path):
    with pytest.raises(RuntimeFailure) as failure:
        await EngineRuntime(tmp_path / "none").list()

    assert failure.value.code == "engine_down"


async def test_the_watchdog_finds_and_kills_what_runs(server, runtime):
    container_id = await started(runtime, "mock run_for=forever")
    watchdog = EngineClient(f"unix://{server.docker}", "", ["skep.chaos"])

    assert await asyncio.to_thread(watchdog.running) == [container_id]
    await asyncio.to_thread(watchdog.kill, container_id)

    assert (await runtime.wait(container_id)).exit_code == 137
    assert await asyncio.to_thread(watchdog.running) == []


async def test_an_engine_that_hangs_answers_later(server, runtime):
    server.engine.available.clear()
    asked = asyncio.create_task(runtime.list())
    await asyncio.sleep(0.05)
    assert not asked.done()

    server.engine.available.set()

    assert await asked == []


@pytest.mark.parametrize(("attempt", "exit_code"), [(1, 1), (2, 1), (3, 0)])
async def test_a_job_that_fails_twice_succeeds_in_its_third_attempt(runtime, attempt, exit_code):
    env = {"SKEP_JOB_ATTEMPT": str(attempt)}
    container_id = await started(runtime, "mock run_for=0 fails=2", env=env)

    assert (await runtime.wait(container_id)).exit_code == exit_code


async def test_a_gpu_that_is_used_twice_is_a_violation(runtime, ledger, tmp_path):
    other = NodeEngine("n2", ledger)
    await started(runtime, "mock run_for=forever", attempt_id="a1", gpu_uuids=["GPU-1"], job_id="1")
    assert ledger.violations == []

    await started(other, "mock run_for=forever", attempt_id="a2", gpu_uuids=["GPU-1"], job_id="2")

    [violation] = ledger.violations
    assert "GPU GPU-1 is used twice: attempt a1 on n1 still runs when a2 begins on n2" in violation


async def test_a_task_that_runs_twice_is_a_violation(runtime, ledger):
    await started(runtime, "mock run_for=forever", attempt_id="a1", gpu_uuids=[])

    await started(NodeEngine("n2", ledger), "mock run_for=1", attempt_id="a2", gpu_uuids=[])

    assert len(ledger.violations) == 1


async def test_what_has_ended_is_used_by_the_next_one(runtime, ledger):
    first = await started(runtime, "mock run_for=0", attempt_id="a1", gpu_uuids=["GPU-1"])
    await runtime.wait(first)

    await started(runtime, "mock run_for=0", attempt_id="a2", gpu_uuids=["GPU-1"])

    assert ledger.violations == []
    assert json.dumps([run.attempt_id for run in ledger.runs]) == '["a1", "a2"]'
