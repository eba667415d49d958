"""The mock runtime keeps the guarantees of the `Runtime` interface, and obeys commands."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.agent_specs import spec

from skep_agent.containers import Progress, RuntimeFailure
from skep_agent.protocol import ImageSpec
from skep_agent.runtimes.mock import MockRuntime


@pytest.fixture
def runtime() -> MockRuntime:
    return MockRuntime()


async def started(runtime: MockRuntime, command: str, **fields) -> str:
    container_id = await runtime.create(spec(command=command, **fields))
    await runtime.start(container_id)
    return container_id


async def output(runtime: MockRuntime, container_id: str) -> dict[str, bytes]:
    read = {"stdout": b"", "stderr": b""}
    async for stream, data, _ in runtime.logs(container_id):
        read[stream] += data
    return read


@pytest.mark.parametrize(
    ("command", "exit_code", "oom"),
    [
        ("mock run_for=0", 0, False),
        ("set -e\nmock run_for=0 exit_code=7\necho", 7, False),
        ("mock run_for=0 oom=1", 137, True),
    ],
)
async def test_a_container_ends_as_its_command_says(
    runtime: MockRuntime, command: str, exit_code: int, oom: bool
) -> None:
    end = await runtime.wait(await started(runtime, command))
    assert (end.exit_code, end.oom_killed) == (exit_code, oom)


async def test_every_reader_gets_the_same_output_from_the_first_byte(
    runtime: MockRuntime,
) -> None:
    container_id = await started(runtime, "mock run_for=0.12 log_lines=20 stderr_lines=3")
    live = await output(runtime, container_id)
    later = await output(runtime, container_id)
    assert live == later
    assert live["stdout"].splitlines()[-1] == b"stdout line 19"
    assert live["stderr"].count(b"\n") == 3


async def test_a_stopped_container_keeps_what_it_wrote_until_then(runtime: MockRuntime) -> None:
    container_id = await started(runtime, "mock run_for=1000 log_lines=100000")
    await asyncio.sleep(0.05)
    await runtime.stop(container_id, 5)
    assert (await runtime.wait(container_id)).exit_code == 143
    live = await output(runtime, container_id)
    assert live == await output(runtime, container_id)
    assert live["stdout"].count(b"\n") < 100000


@pytest.mark.parametrize(("grace", "code"), [(60.0, 143), (0.01, 137)])
async def test_a_slow_death_is_ended_by_force(
    runtime: MockRuntime, grace: float, code: int
) -> None:
    container_id = await started(runtime, "mock run_for=forever stop_seconds=0.05")
    await runtime.stop(container_id, grace)
    assert (await runtime.wait(container_id)).exit_code == code


async def test_operations_may_be_repeated(runtime: MockRuntime) -> None:
    container_id = await runtime.create(spec(command="mock run_for=forever"))
    assert await runtime.create(spec(command="mock run_for=forever")) == container_id
    await runtime.start(container_id)
    await runtime.start(container_id)
    await runtime.stop(container_id, 0)
    await runtime.stop(container_id, 0)
    await runtime.remove(container_id)
    await runtime.remove(container_id)
    await runtime.stop(container_id, 0)
    assert await runtime.list() == []


async def test_a_list_reports_labels_status_and_exit(runtime: MockRuntime) -> None:
    await started(runtime, "mock run_for=forever", attempt_id="a1", gpu_uuids=["GPU-1"])
    ended = await started(runtime, "mock run_for=0 exit_code=3", attempt_id="a2", epoch=4)
    await runtime.create(spec("a3"))
    await runtime.wait(ended)
    found = {c.attempt_id: c for c in await runtime.list()}
    assert {name: c.status for name, c in found.items()} == {
        "a1": "running",
        "a2": "exited",
        "a3": "created",
    }
    assert found["a1"].gpu_uuids == ("GPU-1",)
    assert (found["a2"].epoch, found["a2"].exit.exit_code) == (4, 3)  # type: ignore[union-attr]


async def test_a_removed_container_wakes_who_waits_for_it(runtime: MockRuntime) -> None:
    container_id = await started(runtime, "mock run_for=forever")
    waiting = asyncio.create_task(runtime.wait(container_id))
    await asyncio.sleep(0)
    await runtime.remove(container_id)
    with pytest.raises(RuntimeFailure) as caught:
        await waiting
    assert caught.value.code == "container_gone"


async def test_a_pull_progresses_and_fails_as_the_image_says(runtime: MockRuntime) -> None:
    seen: list[Progress] = []
    image = ImageSpec(reference="x?pull_seconds=0.01&pull_error=image_auth")
    with pytest.raises(RuntimeFailure) as caught:
        await runtime.pull(image, seen.append)
    assert caught.value.code == "image_auth"
    assert [one.percent for one in seen] == list(range(0, 100, 10))
    await runtime.pull(ImageSpec(reference="busybox:1"), seen.append)


async def test_thousands_of_containers_are_cheap(runtime: MockRuntime) -> None:
    ids = [await started(runtime, "mock run_for=0.01", attempt_id=f"a{n}") for n in range(3000)]
    assert len(await asyncio.gather(*map(runtime.wait, ids))) == 3000


async def test_a_checkpoint_signal_is_received_and_survived(runtime: MockRuntime) -> None:
    container_id = await started(runtime, "mock run_for=forever")
    await runtime.signal(container_id, "SIGUSR1")
    assert runtime.containers[container_id].signals == ["SIGUSR1"]
    assert runtime.containers[container_id].status == "running"


async def test_a_container_may_end_by_itself_after_its_checkpoint(runtime: MockRuntime) -> None:
    command = "mock run_for=forever on_checkpoint=exit checkpoint_seconds=0.05"
    container_id = await started(runtime, command)
    await runtime.signal(container_id, "SIGUSR1")
    assert (await runtime.wait(container_id)).exit_code == 0
    await runtime.signal(container_id, "SIGUSR1")
    await runtime.signal("gone", "SIGUSR1")
