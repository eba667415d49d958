"""What the owner of a node allows of storages, and how an export is mounted."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from tests.support.agent_specs import spec

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.isolation.files import Owner
from skep_agent.isolation.mounts import StoragePolicy, check_mounts
from skep_agent.protocol import AttemptSpec, ImageSpec, StorageMount
from skep_agent.runtimes import storages
from skep_agent.runtimes.storages import THREADS, StorageMounts, mount_arguments


def nfs(server: str = "nfs.example.org", **fields) -> StorageMount:
    return StorageMount(type="nfs", server=server, path="/team", target="/mnt/team", **fields)


@pytest.mark.parametrize(
    "root", ["/", "/etc", "/var", "/var/lib/docker", "/run/x", "/proc", "srv", "/srv/../etc", "/a "]
)
def test_02_root_never_has_the_system_of_the_node(root):
    with pytest.raises(ValueError, match=r"overlaps|plain"):
        StoragePolicy.parsed([root])


@pytest.mark.parametrize("root", ["/opt", "/opt/skep", "/opt/skep/state", "/opt/skep/state/x"])
def test_02_root_never_has_the_agents_own_folder(root):
    with pytest.raises(ValueError, match="overlaps"):
        StoragePolicy.parsed([root], state=Path("/opt/skep/state"))


def test_02_path_is_below_a_root_by_whole_names():
    policy = StoragePolicy.parsed(["/srv/data"])
    assert policy.root_of("/srv/data") == policy.root_of("/srv/data/a/b") == "/srv/data"
    for path in ("/srv/data2", "/srv", "/srv/dat", "/data"):
        with pytest.raises(RuntimeFailure, match="allows no storage"):
            policy.root_of(path)


def test_02_nfs_servers_can_be_limited():
    StoragePolicy.parsed().check(nfs("any.example.org"))
    policy = StoragePolicy.parsed(nfs_servers=["nfs.example.org"])
    policy.check(nfs())
    with pytest.raises(RuntimeFailure, match="mounts nothing from evil"):
        policy.check(nfs("evil.example.org"))
    with pytest.raises(ValueError, match="host name"):
        StoragePolicy.parsed(nfs_servers=["-o suid"])


def test_02_export_is_mounted_without_its_programs_rights_and_devices():
    arguments = mount_arguments(nfs(options=["vers=4.2", "hard"]), Path("/run/x"))
    assert arguments == [
        *("mount", "-t", "nfs", "-o", "nosuid,nodev,vers=4.2,hard"),
        *("nfs.example.org:/team", "/run/x"),
    ]


@pytest.mark.parametrize(
    ("path", "inner", "export"),
    [("/team", 0, "/team"), ("/team/sets/cats", 2, "/team"), ("/sets/cats", 2, "/")],
)
def test_02_folders_that_tenants_write_are_not_the_servers_to_resolve(path, inner, export):
    """They are opened one by one below the mounted export; a link among them ends it."""
    mount = StorageMount(
        type="nfs", server="nfs.example.org", path=path, inner=inner, target="/datasets/cats"
    )
    assert mount_arguments(mount, Path("/run/x"))[-2] == f"nfs.example.org:{export}"


@pytest.mark.parametrize("inner", [-1, 3])
def test_02_path_has_the_folders_that_it_is_said_to_have(inner):
    mount = StorageMount(
        type="nfs", server="n", path="/sets/cats", inner=inner, target="/datasets/cats"
    )
    spec = AttemptSpec(
        attempt_id="a", epoch=1, job_id="j", job_name="j", task_role="w", task_index=0,
        image=ImageSpec(reference="x"), command="true", cpus=1, memory_mb=64, mounts=[mount],
    )  # fmt: skip
    with pytest.raises(RuntimeFailure, match="folders of"):
        check_mounts(spec)


async def test_servers_that_do_not_answer_hold_up_no_look_at_mounts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every look at the containers of the node asks for them, and every start and removal."""
    answered = threading.Event()
    monkeypatch.setattr(storages, "_mount", lambda *_: answered.wait())
    mounts = StorageMounts(NodeFacts("cluster", "n1"), StoragePolicy(), lambda *_: Path("/none"))
    hanging = [
        asyncio.ensure_future(mounts.mount(spec(f"a{number}", mounts=[nfs()]), Owner()))
        for number in range(2 * THREADS)
    ]
    try:
        async with asyncio.timeout(30):
            await asyncio.sleep(0)  # they begin
            assert await mounts.made() == set()
            await mounts.release(["/elsewhere"])
    finally:
        answered.set()
        await asyncio.gather(*hanging)
        mounts.close()
