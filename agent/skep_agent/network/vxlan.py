"""VXLAN devices that join the bridges of a gang over nodes, through the kernel's netlink.

Every function is blocking and short. Where the tasks are is written into the device and never
learned: a packet leaves for the one node that has its receiver, and the kernel answers ARP by
itself. Each call opens a socket of its own, so that threads share nothing.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from skep_agent.protocol import VXLAN_PORT

if TYPE_CHECKING:
    from pyroute2 import IPRoute

OVERHEAD_BYTES = 50  # of VXLAN, UDP, IPv4 and Ethernet around a packet
_PERMANENT = 0x80  # NUD_PERMANENT
_NTF_SELF = 0x02
Tasks = Mapping[str, str]  # a task's address in the gang -> the address of its node


class LinkError(Exception):
    """The kernel refused; the text says what and why."""


def hardware_address(address: str) -> str:
    """The MAC address of a task with this IPv4 address: every node can compute it."""
    return "02:42:" + ":".join(f"{byte:02x}" for byte in IPv4Address(address).packed)


def is_local(address: str) -> bool:
    """Whether this machine has the address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def underlay_mtu(address: str) -> int:
    """Of the interface that has the address, in bytes; 1500 where none is known to."""
    if IPv4Address(address).is_loopback:
        address = "127.0.0.1"
    with _netlink("look for the interface") as ip:
        for entry in ip.get_addr(family=socket.AF_INET, local=address):
            for link in ip.get_links(entry["index"]):
                return int(link.get_attr("IFLA_MTU"))
    return 1500


def join(name: str, bridge: str, vni: int, local: str, tasks: Tasks, mtu: int) -> bool:
    """See that the device `name` is on the bridge, for these remote tasks; whether it had to be
    made. Raises LinkError."""
    with _netlink(f"make the VXLAN device {name}") as ip:
        index, master = _index(ip, name), _index(ip, bridge)
        if master is None:
            raise LinkError(f"there is no bridge {bridge}")
        if index is not None and ip.get_links(index)[0].get_attr("IFLA_MASTER") == master:
            return False
        if index is None:
            _add(ip, name, vni, local)
            index = _index(ip, name)
        for address, node in tasks.items():
            mac = hardware_address(address)
            ip.fdb("replace", ifindex=index, lladdr=mac, dst=node, flags=_NTF_SELF)
            ip.neigh("replace", ifindex=index, dst=address, lladdr=mac, state=_PERMANENT)
        # Last: where this stands, all of it does.
        ip.link("set", index=index, mtu=mtu, state="up")
        ip.link("set", index=index, master=master)
    return True


def remove(name: str) -> None:
    with _netlink(f"remove {name}") as ip:
        index = _index(ip, name)
        if index is not None:
            ip.link("del", index=index)


def strays(prefix: str) -> list[str]:
    """Devices of ours whose bridge is gone."""
    if not _any(prefix):
        return []
    with _netlink("list devices") as ip:
        return [name for name, link in _ours(ip, prefix) if link.get_attr("IFLA_MASTER") is None]


def peers(prefix: str) -> set[tuple[str, int]]:
    """Return (address of a node, VNI) for all nodes that our devices send to. Raises LinkError."""
    found: set[tuple[str, int]] = set()
    if not _any(prefix):
        return found
    with _netlink("list devices") as ip:
        for _, link in _ours(ip, prefix):
            vni = int(link.get_nested("IFLA_LINKINFO", "IFLA_INFO_DATA", "IFLA_VXLAN_ID"))
            for entry in ip.fdb("dump", ifindex=link["index"]):
                if node := entry.get_attr("NDA_DST"):
                    found.add((str(node), vni))
    return found


def _any(prefix: str) -> bool:
    """Whether there is a device of ours: on most nodes there is none."""
    return any(name.startswith(f"{prefix}v") for _, name in socket.if_nameindex())


def _add(ip: IPRoute, name: str, vni: int, local: str) -> None:
    from pyroute2 import NetlinkError

    try:
        ip.link(
            "add",
            ifname=name,
            kind="vxlan",
            vxlan_id=vni,
            vxlan_local=local,
            vxlan_port=VXLAN_PORT,
            vxlan_learning=False,
            vxlan_proxy=True,
        )
    except NetlinkError as error:
        if error.code != errno.EEXIST or _index(ip, name) is None:
            raise


def _ours(ip: IPRoute, prefix: str) -> Iterator[tuple[str, Any]]:
    for link in ip.link("dump", kind="vxlan"):
        name = link.get_attr("IFLA_IFNAME")
        if name.startswith(f"{prefix}v"):
            yield name, link


def _index(ip: IPRoute, name: str) -> int | None:
    return next(iter(ip.link_lookup(ifname=name)), None)


@contextmanager
def _netlink(what: str) -> Iterator[IPRoute]:
    from pyroute2 import IPRoute, NetlinkError  # 50 ms that most nodes never need

    try:
        with IPRoute() as ip:
            yield ip
    except (NetlinkError, OSError) as error:
        raise LinkError(f"the kernel did not {what}: {error}") from None
