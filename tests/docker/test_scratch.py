"""A task's scratch on a real engine: it outlives attempts, and goes when the server says so."""

from __future__ import annotations

import pytest
from tests.support.docker_tasks import make_spec, run

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts, scratch_volume
from skep_agent.protocol import SCRATCH_DIR
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


@pytest.fixture
def scratch(cluster, docker_engine):
    """What the tests make goes with them."""
    yield
    for volume in docker_engine.volumes.list(filters={"label": f"skep.cluster={cluster}"}):
        volume.remove()


def task(image: str, command: str, job: str = "j1", **fields):
    return make_spec(image, command, job_id=job, scratch_mb=100, **fields)


async def ended(runtime: DockerRuntime, spec) -> str:
    """Its output; and its container is removed."""
    result = await run(runtime, spec)
    await runtime.remove(f"skep-{spec.attempt_id}")
    assert result.exit.exit_code == 0, result.stderr
    return result.stdout


async def test_finding_j4_the_next_attempt_of_the_task_finds_what_the_last_one_left(
    runtime, busybox, scratch
):
    spec = task(busybox, 'echo step 7 > "$SKEP_SCRATCH_DIR/checkpoint"')
    await ended(runtime, spec)

    look = f"cat {SCRATCH_DIR}/checkpoint 2>/dev/null || echo nothing"
    assert await ended(runtime, task(busybox, look)) == "step 7\n"
    assert await ended(runtime, task(busybox, look, task_index=1)) == "nothing\n"
    assert await ended(runtime, task(busybox, look, task_role="ps")) == "nothing\n"
    assert await ended(runtime, task(busybox, look, job="j2")) == "nothing\n"


async def test_finding_j4_the_user_of_the_image_may_write(runtime, made_image, scratch):
    image = made_image("USER bee")
    assert await ended(runtime, task(image, f"touch {SCRATCH_DIR}/a && id -u")) == "1000\n"
    assert await ended(runtime, task(image, f"touch {SCRATCH_DIR}/b; ls {SCRATCH_DIR}")) == "a\nb\n"


async def test_finding_j4_scratch_is_removed_by_job_and_only_this_nodes(
    runtime, busybox, cluster, scratch
):
    other = DockerRuntime(NodeFacts(cluster, "node-2", simulated_gpus=True))
    for node, job in ((runtime, "j1"), (runtime, "j2"), (other, "j1")):
        await ended(node, task(busybox, "true", job=job))
    assert (await runtime.scratch_jobs(), await other.scratch_jobs()) == ({"j1", "j2"}, {"j1"})

    held = task(busybox, "sleep 60", job="j2")
    container_id = await runtime.create(held)
    await runtime.remove_scratch({"j1", "j2"})
    assert (await runtime.scratch_jobs(), await other.scratch_jobs()) == ({"j2"}, {"j1"})
    await runtime.remove(container_id)
    await runtime.remove_scratch({"j2"})
    assert await runtime.scratch_jobs() == set()
    await other.close()


async def test_a_volume_of_this_name_that_is_not_the_tasks_is_never_mounted(
    runtime, busybox, cluster, docker_engine
):
    spec = task(busybox, "true")
    stranger = docker_engine.volumes.create(scratch_volume(spec, NodeFacts(cluster, "node-1")))
    try:
        with pytest.raises(RuntimeFailure, match="is not this task's"):
            await runtime.create(spec)
    finally:
        stranger.remove()
