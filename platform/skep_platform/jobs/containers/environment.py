"""The environment of a task, and the ports it may use: pure.

Names beginning with PAI_ are OpenPAI's. A gang that would need more than MAX_LISTED variables to
name the address and the ports of each task (with no ports of its own: 300 tasks) gets the lists per
role only, PAI_TASK_ROLE_<role>_HOST_LIST and the counts: one variable per task in every task is
quadratic, and a kernel takes only so much on exec.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from skep_platform.jobs.containers.gang import HOSTFILE, MASTER, SSH_CONFIG, Gang, Member

MAX_LIST_BYTES = 100_000  # of one variable; a kernel takes 128 KiB
MASTER_PORT = 29500  # where the task has a network of its own
FIRST_OWN_PORT = 20001
# OpenPAI gives every task these two.
ALWAYS = {"ssh": 1, "http": 1}


def ports_wanted(ports: Mapping[str, int], rank: int) -> dict[str, int]:
    """Return how many ports of each label one task gets."""
    master = {MASTER: 1} if rank == 0 else {}
    return {**ALWAYS, **ports, **master}


def own_ports(wanted: Mapping[str, int]) -> dict[str, list[int]]:
    """Return port numbers for a task in a network of its own, where no other task takes them."""
    found: dict[str, list[int]] = {}
    number = FIRST_OWN_PORT
    for label, count in wanted.items():
        if label == MASTER:
            found[label] = [MASTER_PORT]
            continue
        found[label] = list(range(number, number + count))
        number += count
    return found


class Environments:
    """The environments of a gang's tasks; what they share is worked out once. Where a task lies is
    the platform's to say; what the owner asks for goes over the settings of frameworks."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self._by_node: dict[str, dict[int, int]] = {}  # node -> rank -> local rank
        for member in gang.members:
            ranks = self._by_node.setdefault(member.node, {})
            ranks[member.rank] = len(ranks)
        self._node_rank = {node: rank for rank, node in enumerate(self._by_node)}
        self._frameworks = Frameworks(gang)
        placed = {**_master(gang), **_pai_job(gang), **_pai_hosts(gang)}
        self.shared = {**self._frameworks.shared, **gang.own, **placed}

    def of(self, member: Member) -> dict[str, str]:
        return self.shared | self.own(member)

    def own(self, member: Member) -> dict[str, str]:
        """Return the variables that differ from task to task."""
        neighbours = self._by_node[member.node]
        frameworks = self._frameworks.of(member).items()
        return {
            **{name: value for name, value in frameworks if name not in self.shared},
            "RANK": str(member.rank),
            "NODE_RANK": str(self._node_rank[member.node]),
            "LOCAL_RANK": str(neighbours[member.rank]),
            "LOCAL_WORLD_SIZE": str(len(neighbours)),
            "SKEP_ATTEMPT_ID": member.attempt_id,
            **_pai_task(member),
        }


def _master(gang: Gang) -> dict[str, str]:
    first = gang.members[0]
    return {
        "MASTER_ADDR": first.host,
        "MASTER_PORT": str(first.port(MASTER) or MASTER_PORT),
        "WORLD_SIZE": str(len(gang.members)),
        "SKEP_JOB_ID": gang.job_id,
        "SKEP_JOB_ATTEMPT": str(gang.attempt),
    }


def _pai_job(gang: Gang) -> dict[str, str]:
    full_name = f"{gang.owner}~{gang.name}"
    work_dir = {"PAI_WORK_DIR": gang.work_dir} if gang.work_dir else {}
    names = ",".join(role.name for role in gang.roles)
    roles, tasks = str(len(gang.roles)), str(sum(role.instances for role in gang.roles))
    env = {
        **work_dir,
        "PAI_FRAMEWORK_NAME": full_name,
        "PAI_JOB_NAME": full_name,
        "PAI_USER_NAME": gang.owner,
        "PAI_USERNAME": gang.owner,
        "PAI_VIRTUAL_CLUSTER": gang.vc,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_TASK_ROLE_COUNT": roles,
        "PAI_TASK_ROLE_LIST": names,
        "PAI_TASK_ROLES_NUM": roles,
        "PAI_JOB_TASK_ROLE_COUNT": roles,
        "PAI_JOB_TASK_ROLE_LIST": names,
        "PAI_TASKS_NUM": tasks,
        "PAI_JOB_TASK_COUNT": tasks,
    }
    for role in gang.roles:
        cpus = f"{role.cpu_millis / 1000:g}"
        env[f"PAI_TASK_ROLE_TASK_COUNT_{role.name}"] = str(role.instances)
        env[f"PAI_RESOURCE_{role.name}"] = f"{role.gpus},{cpus},{role.memory_mb},{role.shm_mb}"
        env[f"PAI_MIN_FAILED_TASK_COUNT_{role.name}"] = str(role.min_failed)
        env[f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.name}"] = str(role.min_succeeded)
    return env


def _pai_hosts(gang: Gang) -> dict[str, str]:
    lists: dict[str, list[str]]
    lists = {f"PAI_TASK_ROLE_{role.name}_HOST_LIST": [] for role in gang.roles}
    for member in gang.members:
        lists[f"PAI_TASK_ROLE_{member.role}_HOST_LIST"].append(f"{member.host}:{_http(member)}")
    lists["PAI_TASK_ROLE_INSTANCES"] = [f"{m.role}:{m.index}" for m in gang.members]
    joined = {name: ",".join(items) for name, items in lists.items()}
    env = {name: value for name, value in joined.items() if len(value) <= MAX_LIST_BYTES}
    if not gang.is_listed:
        return env
    for member in gang.members:
        task = f"{member.role}_{member.index}"
        env[f"PAI_HOST_IP_{task}"] = member.host
        for label, numbers in _labelled(member):
            env[f"PAI_PORT_LIST_{task}_{label}"] = numbers
            env[f"PAI_{task}_{label}_PORT"] = numbers
    return env


def _pai_task(member: Member) -> dict[str, str]:
    labelled = _labelled(member)
    env = {
        "PAI_CURRENT_TASK_ROLE_NAME": member.role,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(member.index),
        "PAI_TASK_INDEX": str(member.index),
        "PAI_CURRENT_CONTAINER_IP": member.host,
        "PAI_CURRENT_CONTAINER_PORT": _http(member),
        "PAI_CONTAINER_HOST_IP": member.host,
        "PAI_CONTAINER_HOST_PORT": _http(member),
        "PAI_CONTAINER_SSH_PORT": _first(member, "ssh"),
        "PAI_CONTAINER_HOST_PORT_LIST": "".join(f"{k}:{v};" for k, v in labelled),
    }
    for label, numbers in labelled:
        env[f"PAI_CONTAINER_HOST_{label}_PORT_LIST"] = numbers
    return env


def _labelled(member: Member) -> list[tuple[str, str]]:
    """Return ("tcp", "1,2") and so on: the ports that the job asked for, and those that OpenPAI
    adds."""
    return [
        (label, ",".join(map(str, numbers)))
        for label, numbers in member.ports.items()
        if label != MASTER and numbers
    ]


def _http(member: Member) -> str:
    return _first(member, "http")


def _first(member: Member, label: str) -> str:
    port = member.port(label)
    return "" if port is None else str(port)


MAX_TF_CONFIG = 32 * 1024  # bytes
BRIDGE_INTERFACE = "eth0"  # of a container in a network of its own
REMOTE_SHELL = f"ssh -F {SSH_CONFIG}"
MPI = {
    "SKEP_HOSTFILE": HOSTFILE,
    # Open MPI up to 4, and PRRTE, which starts the processes of later ones.
    "OMPI_MCA_orte_default_hostfile": HOSTFILE,
    "OMPI_MCA_plm_rsh_agent": REMOTE_SHELL,
    "PRTE_MCA_prte_default_hostfile": HOSTFILE,
    "PRTE_MCA_plm_ssh_agent": REMOTE_SHELL,
    # Containers run as root unless their image says otherwise; mpirun refuses that by default.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
INTERFACES = {
    "NCCL_SOCKET_IFNAME": BRIDGE_INTERFACE,
    "GLOO_SOCKET_IFNAME": BRIDGE_INTERFACE,
}


class Frameworks:
    """What frameworks (MPI, TensorFlow, NCCL, Gloo) read from the environments of one gang. A task
    that is alone is left alone: TensorFlow, for one, behaves differently where it finds a
    cluster."""

    def __init__(self, gang: Gang) -> None:
        # On the node's own network the agent names the interface: it knows which.
        interfaces = INTERFACES if gang.network in ("job", "gang") else {}
        self.shared = {} if gang.is_alone else MPI | interfaces
        self._cluster = _cluster(gang)

    def of(self, member: Member) -> dict[str, str]:
        if not self._cluster:
            return {}
        task = json.dumps({"type": member.role, "index": member.index})
        text = f'{{"cluster":{self._cluster},"task":{task}}}'
        return {"TF_CONFIG": text} if len(text) <= MAX_TF_CONFIG else {}


def _cluster(gang: Gang) -> str:
    """Return the cluster as JSON; "" where a task is alone, or where the list would be repeated in
    too many environments."""
    if gang.is_alone or not gang.is_listed:
        return ""
    cluster: dict[str, list[str]] = {role.name: [] for role in gang.roles}
    for member in gang.members:
        port = member.port("tf") or member.port("http")
        cluster[member.role].append(f"{member.host}:{port}")
    return json.dumps(cluster, separators=(",", ":"))
