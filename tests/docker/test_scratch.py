"""A task's scratch on a real engine: it outlives attempts, and goes when the server says so."""

from __future__ import annotations

import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.docker.test_storages import clear
from tests.support.docker_tasks import make_spec, run

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts, scratch_volume
from skep_agent.isolation.mounts import mounts_dir
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


@pytest.fixture
async def limited(cluster, docker_engine, tmp_path: Path, scratch) -> AsyncIterator[DockerRuntime]:
    """A runtime of an agent that may mount files, on a file system without project quotas."""
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), state=tmp_path)
    runtime._scratches._quotas = False
    if not runtime._scratches._images.available:
        pytest.skip("no loop devices here")
    yield runtime
    await runtime.close()
    clear(mounts_dir(cluster, "node-1"))


def attached(folder: Path) -> list[str]:
    """The loop devices of the files below a folder."""
    found = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if str(folder) in line]


async def test_scratch_holds_what_was_asked_for_and_no_more(limited, busybox, tmp_path):
    fill = f"dd if=/dev/zero of={SCRATCH_DIR}/a bs=1M count=%d 2>&1 | tail -1; ls {SCRATCH_DIR}"
    assert "No space" not in await ended(limited, task(busybox, fill % 95))
    more = f"dd if=/dev/zero of={SCRATCH_DIR}/b bs=1M count=60 2>&1; du -sm {SCRATCH_DIR}"
    over = await ended(limited, task(busybox, f"{more} | cut -f1"))
    assert "No space left on device" in over
    assert 95 <= int(re.findall(r"^(\d+)$", over, re.M)[-1]) <= 130
    assert attached(tmp_path) == []
    assert not list(mounts_dir(limited._node.cluster, "node-1").iterdir())


async def test_limited_scratch_is_kept_for_the_task_and_wiped_with_the_job(
    limited, busybox, made_image, docker_engine, cluster, tmp_path
):
    image = made_image("USER bee")
    write = f"echo step 7 > {SCRATCH_DIR}/checkpoint; id -u; ls -A {SCRATCH_DIR}"
    assert await ended(limited, task(image, write)) == "1000\ncheckpoint\n"
    look = f"cat {SCRATCH_DIR}/checkpoint 2>/dev/null || echo nothing"
    assert await ended(limited, task(image, look)) == "step 7\n"
    assert await ended(limited, task(image, look, task_index=1)) == "nothing\n"
    assert docker_engine.volumes.list(filters={"label": f"skep.cluster={cluster}"}) == []

    held = await limited.create(task(busybox, "sleep 60", job="j2"))
    await limited.start(held)
    assert await limited.scratch_jobs() == {"j1", "j2"}
    await limited.remove_scratch({"j1", "j2"})
    assert await limited.scratch_jobs() == {"j2"}
    await limited.remove(held)
    await limited.remove_scratch({"j2"})
    assert (await limited.scratch_jobs(), list((tmp_path / "scratch").iterdir())) == (set(), [])


async def test_limited_scratch_runs_no_set_user_id_program_and_no_device(limited, busybox):
    found = await ended(limited, task(busybox, f"grep {SCRATCH_DIR} /proc/self/mountinfo"))
    assert {"nosuid", "nodev"} <= set(found.split()[5].split(","))


async def test_volume_of_an_older_agent_is_used_on(limited, runtime, busybox):
    await ended(runtime, task(busybox, f"echo old > {SCRATCH_DIR}/a"))
    assert await ended(limited, task(busybox, f"cat {SCRATCH_DIR}/a")) == "old\n"
