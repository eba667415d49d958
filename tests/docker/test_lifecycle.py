"""A task attempt's life on a real engine."""

from __future__ import annotations

import asyncio
import time

import docker
import pytest
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import ImageSpec
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


async def test_a_task_runs_to_its_end_with_both_streams_apart(runtime, busybox):
    ended = await run(runtime, make_spec(busybox, "echo out; echo err >&2; exit 3"))
    assert (ended.exit.exit_code, ended.exit.oom_killed) == (3, False)
    assert (ended.stdout, ended.stderr) == ("out\n", "err\n")


async def test_the_shell_sees_the_script_as_it_was_written(runtime, busybox):
    script = '#!/bin/bash\nA="it\'s"\ncat <<\'END\'\n$A `id` \\n\nEND\necho "$A" $0\n'
    assert (await run(runtime, make_spec(busybox, script))).stdout == "$A `id` \\n\nit's /bin/sh\n"


async def test_environment_and_host_name_arrive(runtime, busybox):
    spec = make_spec(busybox, "echo $GREETING; hostname", env={"GREETING": "a b"}, hostname="w-1")
    assert (await run(runtime, spec)).stdout == "a b\nw-1\n"


async def test_creating_twice_returns_the_same_container(runtime, busybox):
    spec = make_spec(busybox, "sleep 60")
    assert await runtime.create(spec) == await runtime.create(spec)


async def test_a_container_of_the_same_name_but_another_owner_is_never_adopted(
    runtime, busybox, docker_engine, cluster
):
    spec = make_spec(busybox, "true")
    stranger = docker_engine.containers.create(busybox, "true", name=f"skep-{spec.attempt_id}")
    try:
        with pytest.raises(RuntimeFailure) as refused:
            await runtime.create(spec)
        assert refused.value.code == "create_failed"
    finally:
        stranger.remove()


async def test_a_newer_epoch_does_not_adopt_the_older_container(runtime, busybox):
    spec = make_spec(busybox, "true")
    await runtime.create(spec)
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(spec.model_copy(update={"epoch": 2}))
    assert refused.value.code == "create_failed"


async def test_starting_twice_is_starting_once(runtime, busybox):
    container_id = await start(runtime, make_spec(busybox, "echo once"))
    await runtime.start(container_id)
    assert (await runtime.wait(container_id)).exit_code == 0


async def test_stop_lets_a_task_clean_up_within_its_grace(runtime, busybox):
    """The shell's child handles SIGTERM in its own time, and the shell waits for it."""
    child = "trap 'sleep 0.5; echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    spec = make_spec(busybox, f'sh -c "{child}"; echo not reached')
    container_id = await start(runtime, spec)
    await _first_output(runtime, container_id)
    await runtime.stop(container_id, 30.0)
    output = [data async for stream, data, _ in runtime.logs(container_id) if stream == "stdout"]
    assert b"".join(output) == b"ready\nsaved\n"
    assert (await runtime.wait(container_id)).exit_code == 143


async def test_stop_reaches_every_process_of_a_pipeline(runtime, busybox, docker_engine):
    script = "sleep 1000 | sleep 1000 & sleep 1000; echo not reached"
    container_id = await start(runtime, make_spec(busybox, script))
    # A shell that is about to become its child would not receive it.
    async with asyncio.timeout(60):
        while str(docker_engine.api.top(container_id)).count("'sleep 1000'") < 3:  # noqa: ASYNC110 it is in another world
            await asyncio.sleep(0.05)
    began = time.monotonic()
    await runtime.stop(container_id, 60.0)
    assert (await runtime.wait(container_id)).exit_code == 143
    assert time.monotonic() - began < 60  # not the SIGKILL at the end of the grace


async def test_a_task_that_ignores_sigterm_is_killed_after_its_grace(runtime, busybox):
    script = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    container_id = await start(runtime, make_spec(busybox, script))
    await _first_output(runtime, container_id)
    await runtime.stop(container_id, 1.0)
    assert (await runtime.wait(container_id)).exit_code == 137


async def test_stopping_and_removing_what_is_gone_succeeds(runtime, busybox):
    container_id = await runtime.create(make_spec(busybox, "true"))
    await runtime.stop(container_id, 1.0)  # never started
    await runtime.remove(container_id)
    await runtime.stop(container_id, 1.0)
    await runtime.remove(container_id)


async def test_waiting_for_a_removed_container_says_so(runtime, busybox, docker_engine):
    container_id = await start(runtime, make_spec(busybox, "sleep 60"))
    waiting = asyncio.create_task(runtime.wait(container_id))
    await asyncio.sleep(0)
    docker_engine.containers.get(container_id).remove(force=True)
    try:
        # Killed, and seen dead before it was removed; or seen only after.
        assert (await asyncio.wait_for(waiting, 60)).exit_code == 137
    except RuntimeFailure as failure:
        assert failure.code == "container_gone"  # noqa: PT017
    with pytest.raises(RuntimeFailure) as gone:
        await runtime.wait(container_id)
    assert gone.value.code == "container_gone"


async def test_many_waiters_share_one_stream_of_events(runtime, busybox):
    specs = [make_spec(busybox, f"exit {n}", memory_mb=16) for n in range(6)]
    ids = [await runtime.create(spec) for spec in specs]
    waiting = [asyncio.create_task(runtime.wait(container_id)) for container_id in ids]
    await asyncio.gather(*(runtime.start(container_id) for container_id in ids))
    exits = await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert [exit.exit_code for exit in exits] == [0, 1, 2, 3, 4, 5]


async def test_a_new_agent_process_finds_its_containers_again(runtime, busybox, cluster):
    spec = make_spec(busybox, "sleep 60", gpu_uuids=["GPU-a1", "GPU-b2"], epoch=7)
    running = await start(runtime, spec)
    ended = make_spec(busybox, "exit 4")
    await run(runtime, ended)
    created = make_spec(busybox, "true")
    await runtime.create(created)
    again = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    found = {container.attempt_id: container for container in await again.list()}
    await again.close()
    assert found[spec.attempt_id].container_id == running
    assert found[spec.attempt_id].epoch == 7
    assert found[spec.attempt_id].job_id == spec.job_id
    assert found[spec.attempt_id].gpu_uuids == ("GPU-a1", "GPU-b2")
    assert found[spec.attempt_id].status == "running"
    assert found[ended.attempt_id].status == "exited"
    assert found[ended.attempt_id].exit.exit_code == 4
    assert found[created.attempt_id].status == "created"
    assert len(found) == 3


async def test_two_nodes_on_one_engine_see_only_their_own(runtime, busybox, cluster):
    other = DockerRuntime(NodeFacts(cluster, "node-2", simulated_gpus=True))
    mine = await runtime.create(make_spec(busybox, "true"))
    theirs = await other.create(make_spec(busybox, "true"))
    assert [container.container_id for container in await runtime.list()] == [mine]
    assert [container.container_id for container in await other.list()] == [theirs]
    await other.close()


async def test_anonymous_volumes_go_with_their_container(runtime, made_image, docker_engine):
    image = made_image("VOLUME /data")
    container_id = await start(runtime, make_spec(image, "echo secret > /data/residue"))
    await runtime.wait(container_id)
    mounts = docker_engine.api.inspect_container(container_id)["Mounts"]
    assert [mount["Destination"] for mount in mounts] == ["/data"]
    await runtime.remove(container_id)
    with pytest.raises(docker.errors.NotFound):
        docker_engine.volumes.get(mounts[0]["Name"])


async def test_an_image_that_is_not_here_has_its_code(runtime):
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(make_spec("skep-test/nowhere:1", "true"))
    assert refused.value.code == "image_not_found"


async def test_pull_policies_of_an_image_that_only_this_node_has(runtime, busybox):
    seen: list[int] = []
    await runtime.pull(ImageSpec(reference=busybox, pull="never"), seen.append)
    await runtime.pull(ImageSpec(reference=busybox, pull="missing"), seen.append)
    assert [one.percent for one in seen] == [100, 100]
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.pull(ImageSpec(reference="skep-test/nowhere:1", pull="never"), seen.append)
    assert refused.value.code == "image_not_found"


async def test_an_image_without_a_shell_ends_with_a_reason(runtime, docker_engine):
    name = "skep-test/empty"
    docker_engine.api.import_image_from_data(b"\0" * 1024, repository=name, tag="1")
    try:
        ended = await run(runtime, make_spec(f"{name}:1", "true"))
        assert ended.exit.exit_code == 127
        assert "/bin/sh" in ended.stderr
    finally:
        docker_engine.images.remove(f"{name}:1", force=True)


async def test_samples_say_what_a_container_uses(runtime, busybox):
    spec = make_spec(busybox, "while :; do :; done", cpus=0.5)
    container_id = await start(runtime, spec)
    async with asyncio.timeout(60):
        while True:
            samples = await runtime.sample({spec.attempt_id: container_id, "gone": "0" * 64})
            if samples and samples[0].cpu_percent > 5:
                break
            await asyncio.sleep(0.2)
    assert [sample.attempt_id for sample in samples] == [spec.attempt_id]
    assert samples[0].memory_mb < 64
    await runtime.stop(container_id, 0.0)
    assert (await runtime.wait(container_id)).memory_peak_mb is not None


async def test_an_engine_that_is_not_there_is_down():
    runtime = DockerRuntime(NodeFacts("c", "n"), "/tmp/no-such-socket")
    with pytest.raises(RuntimeFailure) as down:
        await runtime.version()
    assert down.value.code == "engine_down"
    with pytest.raises(RuntimeFailure) as down:
        await runtime.list()
    assert down.value.code == "engine_down"
    await runtime.close()


async def _first_output(runtime: DockerRuntime, container_id: str) -> bytes:
    async for _, data, _ in runtime.logs(container_id):
        return data
    raise AssertionError("the container ended without a word")
