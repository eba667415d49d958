"""What a node finds when it checks itself."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.support.ports import free_port

from skep_agent.accelerators.simulated import SimulatedGpus
from skep_agent.check_messages import CheckReport, NodeChecks
from skep_agent.config import AgentConfig
from skep_agent.inventory import Gpu
from skep_agent.shell import checks
from skep_agent.shell.tasks import TaskSet

GPU = Gpu(uuid="GPU-1", model="A100", memory_mb=1, index=3)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_a_disk_that_keeps_what_is_written_passes_with_its_speed(tmp_path: Path) -> None:
    (tmp_path / "disk-check-4711").write_text("of an agent that was killed")
    found = checks.check_disk(tmp_path)
    assert found.passed
    assert found.numbers.keys() == {"write_mb_s", "read_mb_s"}
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_cannot_be_written_does_not(tmp_path: Path) -> None:
    found = checks.check_disk(tmp_path / "gone")
    assert not found.passed
    assert "No such file" in found.message


async def test_a_server_that_does_not_answer_fails_the_network() -> None:
    found = await checks.check_network(f"http://127.0.0.1:{free_port()}")
    assert not found.passed
    assert "does not answer" in found.message


async def test_a_gpu_passes_when_the_command_does() -> None:
    command = python("import os; assert os.environ['SKEP_GPU_UUID'] == 'GPU-1'")
    found = await checks.check_gpu(GPU, 0, command)
    assert (found.name, found.passed, found.message) == ("gpu GPU-1", True, "")


@pytest.mark.parametrize(
    ("gpu", "errors", "command", "why"),
    [
        (GPU, 2, [], "2 errors that ECC did not correct"),
        (GPU.model_copy(update={"healthy": False, "problem": "XID 79"}), 0, [], "XID 79"),
        (GPU, 0, python("print('bit flip'); raise SystemExit(3)"), "ended with code 3: bit flip"),
        (GPU, 0, ["/nowhere/burn"], "cannot be run"),
    ],
)
async def test_a_gpu_fails_by_its_driver_or_the_command(
    gpu: Gpu, errors: int, command: list[str], why: str
) -> None:
    found = await checks.check_gpu(gpu, errors, command)
    assert not found.passed
    assert why in found.message


async def test_a_round_is_run_once_and_reported_again_when_it_is_asked_for_again(
    tmp_path: Path,
) -> None:
    sent: asyncio.Queue[CheckReport] = asyncio.Queue()
    url = f"http://127.0.0.1:{free_port()}"
    runs = checks.NodeCheckRuns(SimulatedGpus(2), AgentConfig(tmp_path), url, tuple, sent.put)
    runs.want(NodeChecks(check_id="a"))
    runs.want(NodeChecks(check_id="a"))
    first = await sent.get()
    assert [one.name for one in first.results[:2]] == ["disk", "network"]
    assert len(first.results) == 4
    runs.want(NodeChecks(check_id="a"))
    assert await sent.get() == first
    runs.want(NodeChecks(check_id=""))
    runs.want(NodeChecks(check_id="b"))
    assert (await sent.get()).check_id == "b"
    await runs.close()


async def test_a_check_that_breaks_is_reported_as_failed(tmp_path: Path) -> None:
    """Else the server would wait for the round for ever."""

    class Broken(SimulatedGpus):
        def ecc_errors(self) -> dict[str, int]:
            raise RuntimeError("the driver is of another version")

    sent: asyncio.Queue[CheckReport] = asyncio.Queue()
    url = f"http://127.0.0.1:{free_port()}"
    runs = checks.NodeCheckRuns(Broken(1), AgentConfig(tmp_path), url, tuple, sent.put)
    runs.want(NodeChecks(check_id="a"))
    async with asyncio.timeout(60):
        found = await sent.get()
    assert [one.name for one in found.results] == ["disk", "network", "agent"]
    assert "RuntimeError" in found.results[-1].message
    await runs.close()


async def test_what_a_background_task_dies_of_is_logged() -> None:
    async def breaks() -> None:
        raise RuntimeError("no one waits for it")

    with capture_logs() as logged:
        tasks = TaskSet()
        tasks.start("inventory", breaks())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    broke = [one for one in logged if one["event"] == "task_broke"]  # other threads may log, too
    assert [one["task"] for one in broke] == ["inventory"]
