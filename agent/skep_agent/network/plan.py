"""The part of one node and one task in the network of a gang: pure.

What the server says is checked like everything else: a wrong server must not lay a bridge over the
addresses of a node's owner.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from skep_agent.containers import require
from skep_agent.network.rules import PRIVATE
from skep_agent.network.vxlan import hardware_address
from skep_agent.protocol import AttemptSpec, GangNetwork, GangNode

MAX_VNI = 2**24 - 1
MAX_TASKS = 20_000
PREFIXES = range(16, 30)

_HOSTNAME = re.compile(r"[0-9A-Za-z_]([0-9A-Za-z_-]{0,61}[0-9A-Za-z])?")
_NODE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,62}")


@dataclass(frozen=True, slots=True)
class Plan:
    """All of `here` is this node's, `task` this task's address. `others` says for the addresses of
    tasks elsewhere which node has them."""

    vni: int
    subnet: IPv4Network
    here: GangNode
    task: str
    others: dict[str, str]
    hosts: dict[str, str]  # of all tasks: host name -> address

    @property
    def mac(self) -> str:
        return hardware_address(self.task)


def plan_of(spec: AttemptSpec, node: str) -> Plan:
    """Raises RuntimeFailure "spec_refused" for what a node does not do, or where it has no part."""
    gang = spec.gang
    require(gang is not None, "no network is given for its gang")
    assert gang is not None
    subnet = _subnet(gang)
    _check_addresses(gang, subnet)
    here = next((n for n in gang.nodes if n.name == node), None)
    require(here is not None, "this node is not in the network of its gang")
    assert here is not None
    require(
        spec.hostname in here.tasks, f"{spec.hostname[:80]!r} is not in the network of its gang"
    )
    return Plan(
        vni=gang.vni,
        subnet=subnet,
        here=here,
        task=here.tasks[spec.hostname],
        others={a: n.address for n in gang.nodes if n is not here for a in n.tasks.values()},
        hosts={name: a for n in gang.nodes for name, a in n.tasks.items()},
    )


def _subnet(gang: GangNetwork) -> IPv4Network:
    require(1 <= gang.vni <= MAX_VNI, f"{gang.vni} is not a VXLAN network identifier")
    try:
        subnet = IPv4Network(gang.subnet)
    except ValueError:
        subnet = None
    require(subnet is not None, f"{gang.subnet[:40]!r} is not a subnet of IPv4")
    assert subnet is not None
    private = subnet.prefixlen in PREFIXES and any(subnet.subnet_of(p) for p in PRIVATE)
    require(private, f"{subnet} is not a private subnet of a size from /16 to /29")
    return subnet


def _check_addresses(gang: GangNetwork, subnet: IPv4Network) -> None:
    tasks = [task for node in gang.nodes for task in node.tasks.items()]
    require(len(tasks) <= MAX_TASKS, f"{len(tasks)} tasks in one network, at most {MAX_TASKS}")
    inside = [address for _, address in tasks] + [node.gateway for node in gang.nodes]
    first, last = int(subnet.network_address), int(subnet.broadcast_address)
    for address in inside:
        ok = _is_ipv4(address) and first < int(IPv4Address(address)) < last
        require(ok, f"{address[:40]!r} is not an address in {subnet}")
    require(len(set(inside)) == len(inside), "an address is given twice in the network of its gang")
    for name, _ in tasks:
        require(_HOSTNAME.fullmatch(name), f"{name[:80]!r} is not a host name")
    for node in gang.nodes:
        require(_NODE.fullmatch(node.name), f"{node.name[:80]!r} is not the name of a node")
        require(_is_ipv4(node.address), f"{node.address[:40]!r} is not an IPv4 address of a node")


def _is_ipv4(text: str) -> bool:
    try:
        IPv4Address(text)
    except ValueError:
        return False
    return True
