"""What MPI, TensorFlow and NCCL find in the environment and the files of a task."""

from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_ssh_private_key

from skep_agent.protocol import FILES_DIR
from skep_platform.jobs.containers.environment import MAX_TF_CONFIG, Environments
from skep_platform.jobs.containers.gang import Gang, Member, Role, files_of_gang

KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))
# `ssh-keygen -y` of the key above.
PUBLIC = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop"


def role(name: str, instances: int, gpus: int = 0) -> Role:
    return Role(name, instances, gpus, 1000, 1024, 512, 1, instances)


def member(role: str, index: int, rank: int, host: str, **ports: list[int]) -> Member:
    return Member(f"attempt-{rank}", role, index, rank, f"node-{host}", host, ports)


def gang(network: str = "host", **own: str) -> Gang:
    members = [
        member("ps", 0, 0, "10.0.0.1", ssh=[23001], http=[23002]),
        member("worker_a", 0, 1, "10.0.0.2", ssh=[23003], http=[23004], tf=[23005, 23006]),
        member("worker_a", 1, 2, "10.0.0.2", ssh=[23007], http=[23008], tf=[23009, 23010]),
    ]
    roles = [role("ps", 1), role("worker_a", 2, gpus=4)]
    return Gang("job", "train", "alice", "vision", roles, members, network=network, own=own)


def big(tasks: int) -> Gang:
    members = [
        member("worker", i, i, f"10.0.{i // 250}.{i % 250}", ssh=[20001], http=[20002])
        for i in range(tasks)
    ]
    return Gang(
        "job", "train", "alice", "vision", [role("worker", tasks, 8)], members, network="host"
    )


def alone() -> Gang:
    one = [member("worker", 0, 0, "127.0.0.1", ssh=[20001], http=[20002])]
    return Gang("job", "train", "alice", "vision", [role("worker", 1)], one)


def env(gang: Gang, rank: int = 0) -> dict[str, str]:
    return Environments(gang).of(gang.members[rank])


def files(gang: Gang, *keys: str) -> dict[str, str]:
    return {file.path: file.content for file in files_of_gang(gang, KEY, keys)}


class TestTensorFlow:
    def test_the_cluster_by_role_and_the_task(self):
        assert json.loads(env(gang(), 2)["TF_CONFIG"]) == {
            "cluster": {
                "ps": ["10.0.0.1:23002"],  # no port for it: the one of http
                "worker_a": ["10.0.0.2:23005", "10.0.0.2:23009"],
            },
            "task": {"type": "worker_a", "index": 1},
        }

    def test_a_task_alone_has_no_cluster(self):
        assert "TF_CONFIG" not in env(alone())

    def test_a_huge_gang_is_not_reported_in_each_of_its_tasks(self):
        assert len(env(big(300))["TF_CONFIG"]) < MAX_TF_CONFIG
        assert "TF_CONFIG" not in env(big(301))

    def test_the_owners_own_goes_first(self):
        assert env(gang(TF_CONFIG="mine"))["TF_CONFIG"] == "mine"


class TestMpi:
    def test_a_hostfile_has_a_slot_for_each_gpu_or_one(self):
        text = files(gang())[f"{FILES_DIR}hostfile"]
        assert text == "ps-0 slots=1\nworker-a-0 slots=4\nworker-a-1 slots=4\n"

    def test_mpirun_finds_the_hosts_and_the_way_to_them(self):
        found = env(gang())
        assert found["SKEP_HOSTFILE"] == found["OMPI_MCA_orte_default_hostfile"]
        assert found["SKEP_HOSTFILE"] == "/run/skep/hostfile"
        assert found["OMPI_MCA_plm_rsh_agent"] == "ssh -F /run/skep/ssh/config"

    def test_a_task_alone_is_left_alone(self):
        assert not [name for name in env(alone()) if name.startswith(("OMPI", "PRTE", "NCCL"))]


@pytest.mark.parametrize(("network", "interface"), [("job", "eth0"), ("host", None)])
def test_the_interface_is_known_in_a_network_of_its_own(network, interface):
    found = env(gang(network))
    assert found.get("NCCL_SOCKET_IFNAME") == found.get("GLOO_SOCKET_IFNAME") == interface


def test_the_owner_sets_what_frameworks_read_but_not_where_the_task_lies():
    found = env(gang("job", NCCL_SOCKET_IFNAME="ib0", RANK="7", MASTER_ADDR="evil", MINE="x"), 1)
    assert (found["NCCL_SOCKET_IFNAME"], found["MINE"]) == ("ib0", "x")
    assert (found["RANK"], found["MASTER_ADDR"]) == ("1", "10.0.0.1")


class TestSsh:
    def test_each_task_is_reached_by_its_name(self):
        config = files(gang())["/run/skep/ssh/config"]
        assert config.startswith(
            "Host ps-0\n  HostName 10.0.0.1\n  Port 23001\n"
            "Host worker-a-0\n  HostName 10.0.0.2\n  Port 23003\n"
            "Host worker-a-1\n  HostName 10.0.0.2\n  Port 23007\n"
            "Host ps-0 10.0.0.1 worker-a-0 10.0.0.2 worker-a-1\n"
        )

    def test_the_settings_of_a_huge_gang_have_short_lines_and_are_for_its_tasks_alone(self):
        lines = files(big(2000))["/run/skep/ssh/config"].splitlines()
        assert max(len(line) for line in lines) < 4096
        assert {"worker-1999", "10.0.7.249"} <= {word for line in lines for word in line.split()}
        assert "Host *" not in lines

    def test_tasks_know_each_other_by_the_key_of_their_gang(self):
        found = files(gang())
        assert "StrictHostKeyChecking yes" in found["/run/skep/ssh/config"]
        assert found["/run/skep/ssh/authorized_keys"] == f"{PUBLIC}\n"
        assert found["/run/skep/ssh/known_hosts"] == f"skep-job {PUBLIC}\n"
        key = load_ssh_private_key(found["/run/skep/ssh/id_ed25519"].encode(), None)
        assert key.private_bytes_raw() == bytes(32)

    def test_the_private_key_is_its_owners_alone(self):
        modes = {f.path: f.mode for f in files_of_gang(gang(), KEY)}
        assert modes.pop("/run/skep/ssh/id_ed25519") == 0o400
        assert set(modes.values()) == {0o444}

    def test_people_may_be_let_in_too(self):
        keys = files(gang(), "ssh-rsa AAAA alice")["/run/skep/ssh/authorized_keys"]
        assert keys.splitlines() == [PUBLIC, "ssh-rsa AAAA alice"]

    def test_the_files_of_2000_tasks_stay_small(self):
        assert sum(len(text) for text in files(big(2000)).values()) < 256 * 1024
