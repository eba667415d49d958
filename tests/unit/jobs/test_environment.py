"""The environment of tasks: ranks, addresses, and OpenPAI's names with OpenPAI's values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skep_platform.jobs.containers.environment import Environments, own_ports, ports_wanted
from skep_platform.jobs.containers.gang import MAX_LISTED, Gang, Member, Role, hostname


def role(name: str, instances: int = 1) -> Role:
    return Role(name, instances, 2, 4000, 8192, 512, 1, instances)


def member(role: str, index: int, rank: int, node: str, host: str, **ports: list[int]) -> Member:
    return Member(f"attempt-{rank}", role, index, rank, node, host, ports)


def gang(roles: list[Role], members: list[Member]) -> Gang:
    return Gang("job-id", "train", "alice", "vision", roles, members)


# What openpai-runtime prints for its own test framework: the names, order and form of values.
OPENPAI = gang(
    [role("taskrole"), role("taskrole1")],
    [
        member(
            *("taskrole", 0, 0, "a", "10.151.41.8"),
            tcp=[29877, 22353, 29076],
            udp=[31903, 33486, 35953],
            ssh=[39080],
            http=[30643],
            master=[20000],
        ),
        member(
            *("taskrole1", 0, 1, "b", "10.151.41.9"),
            mpi=[20966, 21891],
            tensorflow=[22829],
            ssh=[26411],
            http=[36213],
        ),
    ],
)
OPENPAI_EXPORTS = """
PAI_PORT_LIST_taskrole_0_tcp=29877,22353,29076
PAI_taskrole_0_tcp_PORT=29877,22353,29076
PAI_PORT_LIST_taskrole_0_udp=31903,33486,35953
PAI_PORT_LIST_taskrole_0_ssh=39080
PAI_PORT_LIST_taskrole_0_http=30643
PAI_taskrole_0_http_PORT=30643
PAI_HOST_IP_taskrole_0=10.151.41.8
PAI_CURRENT_CONTAINER_IP=10.151.41.8
PAI_CURRENT_CONTAINER_PORT=30643
PAI_CONTAINER_HOST_IP=10.151.41.8
PAI_CONTAINER_HOST_PORT=30643
PAI_CONTAINER_SSH_PORT=39080
PAI_CONTAINER_HOST_tcp_PORT_LIST=29877,22353,29076
PAI_CONTAINER_HOST_http_PORT_LIST=30643
PAI_CONTAINER_HOST_PORT_LIST=tcp:29877,22353,29076;udp:31903,33486,35953;ssh:39080;http:30643;
PAI_TASK_ROLE_taskrole_HOST_LIST=10.151.41.8:30643
PAI_PORT_LIST_taskrole1_0_mpi=20966,21891
PAI_taskrole1_0_tensorflow_PORT=22829
PAI_HOST_IP_taskrole1_0=10.151.41.9
PAI_TASK_ROLE_taskrole1_HOST_LIST=10.151.41.9:36213
PAI_TASK_ROLE_INSTANCES=taskrole:0,taskrole1:0
"""


def test_names_and_values_are_those_of_openpais_runtime():
    env = Environments(OPENPAI).of(OPENPAI.members[0])
    for line in OPENPAI_EXPORTS.split():
        name, _, value = line.partition("=")
        assert env[name] == value, name


def test_the_jobs_own_names():
    env = Environments(OPENPAI).of(OPENPAI.members[1])
    expected = {
        "PAI_JOB_NAME": "alice~train",
        "PAI_USER_NAME": "alice",
        "PAI_VIRTUAL_CLUSTER": "vision",
        "PAI_TASK_ROLE_LIST": "taskrole,taskrole1",
        "PAI_TASK_ROLE_TASK_COUNT_taskrole": "1",
        "PAI_RESOURCE_taskrole": "2,4,8192,512",
        "PAI_MIN_FAILED_TASK_COUNT_taskrole": "1",
        "PAI_CURRENT_TASK_ROLE_NAME": "taskrole1",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "0",
        "SKEP_JOB_ID": "job-id",
        "SKEP_JOB_ATTEMPT": "1",
        "SKEP_ATTEMPT_ID": "attempt-1",
    }
    assert expected.items() <= env.items()


def test_ranks_count_over_roles_and_within_nodes():
    members = [
        member("chief", 0, 0, "a", "10.0.0.1", master=[20005]),
        member("worker", 0, 1, "b", "10.0.0.2"),
        member("worker", 1, 2, "a", "10.0.0.1"),
        member("worker", 2, 3, "b", "10.0.0.2"),
    ]
    envs = Environments(gang([role("chief"), role("worker", 3)], members))
    names = ("RANK", "NODE_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE")
    found = [tuple(envs.of(m)[name] for name in names) for m in members]
    assert found == [
        ("0", "0", "0", "2", "4"),
        ("1", "1", "0", "2", "4"),
        ("2", "0", "1", "2", "4"),
        ("3", "1", "1", "2", "4"),
    ]
    master = [(envs.of(m)["MASTER_ADDR"], envs.of(m)["MASTER_PORT"]) for m in members]
    assert set(master) == {("10.0.0.1", "20005")}


@pytest.mark.parametrize("tasks", [2000, 10_000])
def test_the_environment_of_a_huge_gang_stays_small(tasks):
    nodes = [f"node-{i}" for i in range(100)]
    members = [
        member("worker", i, i, nodes[i % 100], "10.100.100.100", ssh=[20000], http=[20001])
        for i in range(tasks)
    ]
    env = Environments(gang([role("worker", tasks)], members)).of(members[-1])
    assert "PAI_HOST_IP_worker_0" not in env
    assert env["WORLD_SIZE"] == env["PAI_TASK_ROLE_TASK_COUNT_worker"] == str(tasks)
    assert all(len(value) <= 100_000 for value in env.values())
    assert ("PAI_TASK_ROLE_worker_HOST_LIST" in env) == (tasks == 2000)
    assert len(env) < 60


def test_a_gang_at_the_bound_is_listed_task_by_task():
    tasks = MAX_LISTED // 5
    members = [member("worker", i, i, "n", f"10.0.0.{i}", ssh=[1], http=[2]) for i in range(tasks)]
    small = gang([role("worker", tasks)], members)
    assert f"PAI_HOST_IP_worker_{tasks - 1}" in Environments(small).of(members[0])
    more = replace(small, members=[*members, member("worker", tasks, tasks, "n", "h", ssh=[1])])
    assert "PAI_HOST_IP_worker_0" not in Environments(more).of(members[0])


def test_ports_always_have_ssh_and_http_and_rank_0_the_masters():
    assert ports_wanted({"rpc": 2, "http": 3}, 0) == {"ssh": 1, "http": 3, "rpc": 2, "master": 1}
    assert ports_wanted({}, 1) == {"ssh": 1, "http": 1}


def test_a_task_in_a_network_of_its_own_has_ports_that_do_not_collide():
    ports = own_ports(ports_wanted({"rpc": 3}, 0))
    numbers = [number for each in ports.values() for number in each]
    assert len(numbers) == len(set(numbers)) == 6
    assert ports["master"] == [29500]


@pytest.mark.parametrize(
    ("role", "expected"),
    [("worker", "worker-3"), ("param_server", "param-server-3"), ("_x_", "x-3"), ("__", "task-3")],
)
def test_host_names_are_names_of_the_dns(role, expected):
    assert hostname(role, 3) == expected
