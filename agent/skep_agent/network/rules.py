"""The rules of the fence, as a script for nft: pure.

Whatever may pass must pass here *and* in the rules of Docker and of the machine's owner: nftables
drops a packet that any table drops. Hence nothing here opens what others close.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, collapse_addresses, ip_address, ip_network

from skep_agent.network import names
from skep_agent.protocol import VXLAN_PORT, NetworkPolicy

# Never opened by an allow list. The metadata address of clouds is link-local.
CLOSED = tuple(map(IPv4Network, ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16")))
# Closed unless listed: where nodes, switches, storage and other machines of the owner are.
PRIVATE = tuple(
    map(
        IPv4Network,
        (
            *("10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16"),
            *("192.0.0.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
        ),
    )
)
Peer = tuple[str, int]  # a node's address, and the VNI under which it may send


@dataclass(frozen=True, slots=True)
class Egress:
    """What containers reach outside, beyond the fixed rules."""

    denied: tuple[IPv4Network, ...] = ()  # nodes and control plane
    allowed: tuple[IPv4Network, ...] = ()
    allowed_ports: tuple[tuple[IPv4Network, int], ...] = ()
    resolvers: tuple[IPv4Address, ...] = ()  # of the node; their port 53 is open

    @classmethod
    def of(
        cls, policy: NetworkPolicy, control_plane: Iterable[str], resolvers: Iterable[str]
    ) -> Egress:
        """Raises ValueError for an entry that is no address, network or address:port."""
        denied = [*_networks(policy.denied), *_networks(control_plane)]
        with_port = [entry for entry in policy.allowed if _has_port(entry)]
        plain = [entry for entry in policy.allowed if not _has_port(entry)]
        split = (entry.rpartition(":") for entry in with_port)
        return cls(
            tuple(collapse_addresses(denied)),
            tuple(collapse_addresses(_networks(plain))),
            # The kernel refuses an element that is there already.
            tuple(dict.fromkeys((n, _port(p)) for host, _, p in split for n in _networks([host]))),
            tuple(sorted({n.network_address for n in _networks(resolvers)})),
        )


def script(cluster: str, egress: Egress, peers: Collection[Peer]) -> str:
    """Replaces the table of the cluster as a whole, in one transaction."""
    table = names.table(cluster)
    # Deleting a table that is not there is an error.
    return f"table inet {table}\ndelete table inet {table}\n" + _inet(cluster, egress, peers)


def _inet(cluster: str, egress: Egress, peers: Collection[Peer]) -> str:
    ours = f'"{names.prefix(cluster)}*"'
    lonely = f'"{names.prefix(cluster)}i*"'
    ports = [f"{network} . {port}" for network, port in egress.allowed_ports]
    vnis = sorted({vni for _, vni in peers})
    sources = [f"{address} . {vni:#x}" for address, vni in sorted(peers)]
    return f"""\
table inet {names.table(cluster)} {{
  set closed {{ type ipv4_addr; flags interval; auto-merge; {_elements(CLOSED)} }}
  set denied {{ type ipv4_addr; flags interval; auto-merge; {_elements(egress.denied)} }}
  set allowed {{ type ipv4_addr; flags interval; auto-merge; {_elements(egress.allowed)} }}
  set allowed_ports {{ type ipv4_addr . inet_service; flags interval; {_elements(ports)} }}
  set private {{ type ipv4_addr; flags interval; auto-merge; {_elements(PRIVATE)} }}
  set resolvers {{ type ipv4_addr; {_elements(egress.resolvers)} }}
  set vnis {{ typeof @th,96,24; {_elements(map(hex, vnis))} }}
  set peers {{ typeof ip saddr . @th,96,24; {_elements(sources)} }}

  chain input {{
    type filter hook input priority filter - 10; policy accept;
    udp dport {VXLAN_PORT} @th,96,24 @vnis ip saddr . @th,96,24 != @peers drop
    iifname != {ours} accept
    ct state established,related accept
    icmp type echo-request accept
    meta l4proto {{ tcp, udp }} th dport 53 ip daddr @resolvers accept
    drop
  }}

  chain forward {{
    type filter hook forward priority filter - 10; policy accept;
    iifname != {ours} oifname != {ours} accept
    iifname {lonely} oifname {lonely} drop
    iifname {ours} oifname {ours} fib daddr . iif oif exists accept
    iifname {ours} udp dport {VXLAN_PORT} drop
    ct state established,related accept
    oifname {ours} drop
    meta nfproto ipv6 drop
    meta l4proto {{ tcp, udp }} th dport 53 ip daddr @resolvers accept
    ip daddr @closed drop
    meta l4proto {{ tcp, udp }} ip daddr . th dport @allowed_ports accept
    ip daddr @denied drop
    ip daddr @allowed accept
    ip daddr @private drop
  }}
}}
"""


def _elements(items: Iterable[object]) -> str:
    listed = ", ".join(map(str, items))
    return f"elements = {{ {listed} }}" if listed else ""


def _networks(entries: Iterable[str]) -> list[IPv4Network]:
    """Those of IPv4; all IPv6 is closed anyway."""
    found = (ip_network(entry, strict=False) for entry in entries)
    return [network for network in found if isinstance(network, IPv4Network)]


def _port(text: str) -> int:
    port = int(text)
    if not 1 <= port <= 65535:
        raise ValueError(f"{text!r} is not a port")
    return port


def _has_port(entry: str) -> bool:
    try:
        ip_address(entry.partition("/")[0])
    except ValueError:
        return True
    return False
