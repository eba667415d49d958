"""Messages of the checks that a node runs before it is used: a part of the wire contract in
`protocol`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skep_agent.inventory import Message

PEER_CHECKS = "peer_checks"  # a feature: the agent measures the network to another node
PEER = "peer "  # and the name of the other node: how the result of such a check is named


class CheckResult(Message):
    """How one check went. `numbers` are what it measured."""

    name: str  # "disk", "network", "gpu" and its UUID, or "peer" and the name of a node
    passed: bool
    message: str = ""
    numbers: dict[str, float] = {}


class CheckReport(Message):
    """The results of the round that `NodeChecks` asked for."""

    type: Literal["check_report"] = "check_report"
    check_id: str
    results: list[CheckResult]


class PeerCheck(Message):
    """A node to which the network is measured. Its agent has a PeerListen with the same token."""

    name: str
    address: str  # of IPv4 or IPv6
    port: int
    token: str = Field(repr=False)


class PeerListen(Message):
    """That a node which checks itself may measure the network to this one, from its `address`."""

    address: str
    port: int  # of this node, in its range of ports for tasks
    token: str = Field(repr=False)


class NodeChecks(Message):
    """The round of checks that the node shall run now ("": none), and what it listens for.

    Of `peers` the network is measured; one that carries less than `least_mb_s` (10^6 bytes a
    second) in either direction fails. `listens` are for the rounds of other nodes."""

    type: Literal["node_checks"] = "node_checks"
    check_id: str = ""
    peers: list[PeerCheck] = []
    least_mb_s: float = 0.0
    listens: list[PeerListen] = []
