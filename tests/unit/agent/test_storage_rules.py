"""What the owner of a node allows of storages, and how an export is mounted."""

from __future__ import annotations

from pathlib import Path

import pytest

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.mounts import StoragePolicy
from skep_agent.protocol import StorageMount
from skep_agent.runtimes.storages import mount_arguments


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
