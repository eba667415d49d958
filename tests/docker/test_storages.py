"""Storages on a real engine: what a container sees of them, and what it never gets to see."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.isolation.mounts import StoragePolicy, mounts_dir
from skep_agent.protocol import AttemptSpec, StorageMount
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker
SECRET = "the node's own"
NODES_USERS = Path("/etc/passwd").read_text()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root that the node allows, and beside it what no task may see."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").write_text(SECRET)
    root = tmp_path / "root"
    (root / "team").mkdir(parents=True)
    (root / "team" / "hello").write_text("hello\n")
    return root


@pytest.fixture
async def runtime(cluster: str, root: Path) -> AsyncIterator[DockerRuntime]:
    node = NodeFacts(cluster, "node-1", simulated_gpus=True)
    runtime = DockerRuntime(node, storages=StoragePolicy.parsed([str(root)]))
    yield runtime
    await runtime.close()
    clear(mounts_dir(cluster, "node-1"))


def clear(folder: Path) -> None:
    """Remove what a failed test left mounted."""
    if folder.exists():
        for point in folder.iterdir():
            subprocess.run(["umount", "-l", str(point)], capture_output=True)
            point.rmdir()
        folder.rmdir()


def mounted(path: object, **fields) -> StorageMount:
    return StorageMount(**{"type": "host_path", "path": str(path), "target": "/mnt/team"} | fields)


def task(image: str, command: str, *mounts: StorageMount, **fields) -> AttemptSpec:
    return make_spec(image, command, mounts=list(mounts), **fields)


async def output(runtime: DockerRuntime, spec: AttemptSpec) -> str:
    """What it writes, and its container is removed."""
    ended = await run(runtime, spec)
    await runtime.remove(f"skep-{spec.attempt_id}")
    return ended.stdout + ended.stderr


def left(cluster: str) -> list[str]:
    """What the node has mounted, or would mount, at this moment."""
    folder = mounts_dir(cluster, "node-1")
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    points = [point.name for point in folder.iterdir()] if folder.exists() else []
    return points + [line for line in lines if str(folder) in line]


async def test_task_reads_and_writes_a_storage_and_nothing_is_left(runtime, busybox, root, cluster):
    command = "cat /mnt/team/hello; echo mine > /mnt/team/new"
    assert await output(runtime, task(busybox, command, mounted(root / "team"))) == "hello\n"
    assert (root / "team" / "new").read_text() == "mine\n"
    assert left(cluster) == []


def shell(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True)


async def test_02_read_only_is_read_only_for_root_too(runtime, busybox, root):
    command = (
        "touch /mnt/team/x; mount -o remount,rw /mnt/team; touch /mnt/team/x; "
        "echo y >> /mnt/team/hello; mkdir /mnt/team/d; chmod 777 /mnt/team; rm /mnt/team/hello"
    )
    found = await output(runtime, task(busybox, command, mounted(root / "team", read_only=True)))
    assert found.count("Read-only file system") >= 4, found
    assert sorted(path.name for path in (root / "team").iterdir()) == ["hello"]
    assert (root / "team" / "hello").read_text() == "hello\n"


async def test_02_no_set_user_id_program_and_no_device_works_from_a_storage(runtime, busybox, root):
    found = await output(runtime, task(busybox, "grep /mnt/team /proc/self/mountinfo",
                                       mounted(root / "team")))  # fmt: skip
    options = found.split()[5].split(",")
    assert {"rw", "nosuid", "nodev"} <= set(options)


async def test_02_users_have_folders_of_their_own(runtime, made_image, busybox, root):
    """Ann's is made for the user of her image, and Bob's container has no path to it."""
    bee = made_image("USER bee")
    share = mounted(root / "team", user_folder="ann")
    assert await output(runtime, task(bee, "echo hi > /mnt/team/a; id -u", share)) == "1000\n"
    folder = root / "team" / "ann"
    seen = folder.stat()
    assert (stat.S_IMODE(seen.st_mode), seen.st_uid) == (0o700, 1000)
    other = mounted(root / "team", user_folder="bob@example.org")
    command = "ls -A /mnt/team /mnt/team/..; cat /mnt/team/../ann/a /mnt/team/hello; ls /mnt"
    found = await output(runtime, task(busybox, command, other))
    assert "hi" not in found
    assert found.count("No such file") == 2, found
    assert (root / "team" / "bob@example.org").is_dir()
    assert await output(runtime, task(bee, "cat /mnt/team/a", share)) == "hi\n"


@pytest.mark.parametrize("user", ["..", ".", "a/b", "../bob", "a\0b", "a\nb", "/etc", "x" * 300])
async def test_02_folder_of_a_user_is_one_name(runtime, busybox, root, user):
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(task(busybox, "true", mounted(root / "team", user_folder=user)))
    assert refused.value.code == "spec_refused"


@pytest.mark.parametrize("name", ["link", "link/inner", "real/link", "file"])
async def test_02_no_link_on_the_way_is_followed(runtime, busybox, root, name, cluster):
    """A tenant who may write above a storage puts links there."""
    (root / "real").mkdir()
    (root / "file").write_text("x")
    (root.parent / "outside" / "inner").mkdir()
    (root / "link").symlink_to("../outside")
    (root / "real" / "link").symlink_to(root.parent / "outside")
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(task(busybox, "true", mounted(root / name)))
    assert refused.value.code == "storage_unavailable"
    assert left(cluster) == []


async def test_02_folder_of_a_user_that_is_a_link_is_not_followed(runtime, busybox, root):
    (root / "team" / "eve").symlink_to("/etc")
    (root / "team" / "bob").mkdir()
    (root / "team" / "mallory").symlink_to("bob")
    for user in ("eve", "mallory"):
        with pytest.raises(RuntimeFailure) as refused:
            await runtime.create(task(busybox, "true", mounted(root / "team", user_folder=user)))
        assert refused.value.code == "storage_unavailable"


async def test_02_link_that_comes_after_the_check_changes_nothing(runtime, busybox, root):
    """What was opened is mounted, and not what has its name when the container starts."""
    spec = task(busybox, "ls /mnt/team", mounted(root / "team"))
    container = await runtime.create(spec)
    (root / "team").rename(root / "moved")
    (root / "team").symlink_to(root.parent / "outside")
    await runtime.start(container)
    assert (await runtime.wait(container)).exit_code == 0
    pieces = [piece.data async for piece in runtime.logs(container)]
    assert b"".join(pieces) == b"hello\n"


async def test_02_link_within_a_storage_leads_nowhere_outside(runtime, busybox, root):
    (root / "team" / "out").symlink_to(root.parent / "outside" / "secret")
    (root / "team" / "passwd").symlink_to("/etc/passwd")
    found = await output(runtime, task(busybox, "cat /mnt/team/out; cat /mnt/team/passwd",
                                       mounted(root / "team")))  # fmt: skip
    assert SECRET not in found
    assert NODES_USERS not in found


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/etc", "/proc/1/root", "/var/run/docker.sock", "/run/containerd", "/dev", "/sys"),
        *("/var/lib/docker/volumes", "/root/.ssh", "/srv/../etc", "/srv//x", "srv", ""),
    ],
)
async def test_02_a_control_plane_gone_bad_mounts_no_path_of_the_system(runtime, busybox, path):
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(task(busybox, "true", mounted(path)))
    assert refused.value.code == "spec_refused"


async def test_02_nothing_is_mounted_that_the_nodes_owner_did_not_allow(
    runtime, busybox, root, cluster
):
    above, beside = root.parent, root.parent / "root2"
    beside.mkdir()
    for path in (above, beside, root.parent / "outside"):
        with pytest.raises(RuntimeFailure) as refused:
            await runtime.create(task(busybox, "true", mounted(path)))
        assert refused.value.code == "storage_unavailable"
    strict = DockerRuntime(NodeFacts(cluster, "node-2", simulated_gpus=True))
    with pytest.raises(RuntimeFailure, match="allows no storage"):
        await strict.create(task(busybox, "true", mounted(root / "team")))
    await strict.close()


@pytest.mark.parametrize(
    "target",
    [
        *("/", "/etc", "/etc/passwd", "/proc/self", "/dev/shm", "/run", "/run/skep", "/skep"),
        *("/skep/scratch", "/usr/bin", "/mnt/../etc", "mnt", "/mnt/a:b", "/sys/fs/cgroup", "/var"),
    ],
)
async def test_02_target_hides_nothing_of_the_platform(runtime, busybox, root, target):
    with pytest.raises(RuntimeFailure) as refused:
        await runtime.create(task(busybox, "true", mounted(root / "team", target=target)))
    assert refused.value.code == "spec_refused"


async def test_09_no_storage_asks_the_nvidia_runtime_for_a_gpu(runtime, busybox, root):
    for folder in ("/var/run", "/run"):
        target = f"{folder}/nvidia-container-devices/all"
        with pytest.raises(RuntimeFailure) as refused:
            await runtime.create(task(busybox, "true", mounted(root / "team", target=target)))
        assert refused.value.code == "spec_refused"


async def test_storages_do_not_overlap_in_the_container(runtime, busybox, root):
    inner = mounted(root / "team", target="/mnt/team/inner")
    with pytest.raises(RuntimeFailure, match="storages at both"):
        await runtime.create(task(busybox, "true", mounted(root / "team"), inner))


async def test_02_folder_mounted_below_a_storage_stays_outside(runtime, busybox, root):
    """A disk that the host has mounted somewhere below is not part of it."""
    inner = root / "team" / "disk"
    inner.mkdir()
    shell("mount", "--bind", root.parent / "outside", inner)
    try:
        found = await output(runtime, task(busybox, "ls -A /mnt/team/disk", mounted(root / "team")))
    finally:
        shell("umount", inner)
    assert found == ""


async def test_working_directory_in_a_storage_keeps_its_owner(runtime, made_image, root):
    (root / "team" / "bob").mkdir(mode=0o755)
    os.chown(root / "team" / "bob", 4321, 4321)
    spec = task(made_image("USER bee"), "pwd", mounted(root / "team"), work_dir="/mnt/team/bob")
    assert await output(runtime, spec) == "/mnt/team/bob\n"
    assert (root / "team" / "bob").stat().st_uid == 4321


async def test_mounts_of_a_container_that_never_starts_go_with_it(runtime, busybox, root, cluster):
    spec = task(busybox, "true", mounted(root / "team"))
    container = await runtime.create(spec)
    assert left(cluster)
    await runtime.list()
    assert left(cluster)
    await runtime.remove(container)
    assert left(cluster) == []
    assert (root / "team" / "hello").exists()


async def test_what_an_agent_left_behind_is_removed(runtime, busybox, root, cluster, docker_engine):
    container = await runtime.create(task(busybox, "true", mounted(root / "team")))
    docker_engine.containers.get(container).remove()
    await runtime.list()
    assert left(cluster) == []


async def test_a_container_whose_mount_is_lost_does_not_start(runtime, busybox, root, cluster):
    """As after a restart of the machine: it would write into an empty folder of the node."""
    container = await runtime.create(task(busybox, "true", mounted(root / "team")))
    [point] = mounts_dir(cluster, "node-1").iterdir()
    shell("umount", point)
    with pytest.raises(RuntimeFailure) as lost:
        await runtime.start(container)
    assert lost.value.code == "storage_unavailable"


async def test_second_agent_start_keeps_what_a_created_container_needs(
    runtime, busybox, root, cluster
):
    container = await runtime.create(task(busybox, "cat /mnt/team/hello", mounted(root / "team")))
    node = NodeFacts(cluster, "node-1", simulated_gpus=True)
    again = DockerRuntime(node, storages=StoragePolicy.parsed([str(root)]))
    assert [one.container_id for one in await again.list()] == [container]
    await again.start(container)
    assert (await again.wait(container)).exit_code == 0
    assert left(cluster) == []
    await again.close()


async def test_server_that_cannot_be_mounted_is_reported(runtime, busybox, cluster):
    nfs = StorageMount(type="nfs", server="127.0.0.1", path="/none", target="/mnt/x",
                       options=["vers=4.2", "soft", "timeo=1", "retrans=1"])  # fmt: skip
    with pytest.raises(RuntimeFailure, match=r"127\.0\.0\.1:/none") as lost:
        await start(runtime, task(busybox, "true", nfs))
    assert lost.value.code == "storage_unavailable"
    assert left(cluster) == []
