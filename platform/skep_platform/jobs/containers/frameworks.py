"""What frameworks look for in the environment of a task of a gang: MPI, TensorFlow, NCCL, Gloo."""

from __future__ import annotations

import json

from skep_platform.jobs.containers.container_files import HOSTFILE, SSH_CONFIG
from skep_platform.jobs.containers.gang import Gang, Member

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
    # Containers run as root unless their image says otherwise; mpirun refuses that unless told.
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
    """For the tasks of one gang. A task that is alone is left alone: TensorFlow, for one, behaves
    differently where it finds a cluster."""

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
    """JSON; "" where there is none to tell of, or it would be told too often."""
    if gang.is_alone or not gang.is_listed:
        return ""
    cluster: dict[str, list[str]] = {role.name: [] for role in gang.roles}
    for member in gang.members:
        port = member.port("tf") or member.port("http")
        cluster[member.role].append(f"{member.host}:{port}")
    return json.dumps(cluster, separators=(",", ":"))
