"""To which nodes a node that is checked measures the network, and what these listen for.

Each round has its own peers: free nodes rather than busy ones, with the same GPUs, in use rather
than cordoned. They listen at a port of their range for tasks until the round is over, for that node
alone and with a token that both are given. A round that takes longer gets new peers.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from ipaddress import ip_address
from random import SystemRandom
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from skep_agent.check_messages import PEER, PeerCheck, PeerListen
from skep_platform.cluster.models import Device, Node, NodeCheck, NodeState
from skep_platform.core import ports

LISTEN = timedelta(minutes=15)  # as long as agents do
TOKEN_BYTES = 32
MOST_PEERS = 4  # as SKEP_NODE_CHECK_PEERS may be
CANDIDATES = 64  # among which peers are chosen
_random = SystemRandom()


def of_round(check: NodeCheck) -> list[PeerCheck]:
    """Return the peers of a round that is due; they are chosen and stored when it has none, or
    these listen no longer. The caller holds the lock of its row."""
    now = timezone.now()
    if check.peers is None or (check.peers and check.peers_until and check.peers_until <= now):
        check.peers, check.peers_until = _choose(check.node), now + LISTEN
        check.save(update_fields=["peers", "peers_until", "updated_at"])
    return [PeerCheck(**{key: peer[key] for key in PEER_KEYS}) for peer in check.peers]


PEER_KEYS = ("name", "address", "port", "token")


def listens(node_id: UUID, rounds: QuerySet[NodeCheck]) -> list[PeerListen]:
    """Return what a node listens for: those of these rounds that have it as a peer."""
    return [
        PeerListen(address=check.node.address, port=peer["port"], token=peer["token"])
        for check in rounds.filter(peers_until__gt=timezone.now()).order_by("pk")
        for peer in check.peers or ()
        if peer["node"] == str(node_id)
    ]


def nodes_of(peers: Iterable[Mapping[str, Any]] | None) -> set[UUID]:
    """Return the nodes that are the peers of a round."""
    return {UUID(peer["node"]) for peer in peers or ()}


def count_as_failed(results: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the results that make a node fail. A peer that it does not reach while it reaches
    another one says more about that peer, or the way to it."""
    known = list(results)
    reached = any(one["passed"] for one in known if one["name"].startswith(PEER))
    failed = [one for one in known if not one["passed"]]
    return [one for one in failed if not (reached and one["name"].startswith(PEER))]


def _choose(node: Node) -> list[dict[str, Any]]:
    wanted = int(settings.SKEP_NODE_CHECK_PEERS)
    if wanted <= 0 or not node.peer_checks or _loopback(node.address) is None:
        return []
    online = Node.objects.filter(state=NodeState.ONLINE, connected=True, peer_checks=True)
    others = online.exclude(pk=node.pk)
    models = Device.objects.exclude(health=Device.Health.ABSENT)
    own = set(models.filter(node=node).values_list("model", flat=True))
    same = Exists(models.filter(node=OuterRef("pk"), model__in=own))
    alike = set(_some(others.filter(same)))
    near = [row for row in _rows({*alike, *_some(others)}) if _is_near(row["address"], node)]
    _random.shuffle(near)
    near.sort(key=lambda row: (row["cordoned"], row["busy"], row["id"] not in alike))
    return [
        {
            "node": str(row["id"]),
            "name": row["name"],
            "address": row["address"],
            "port": row["port_last"],
            "token": secrets.token_hex(TOKEN_BYTES),
        }
        for row in near[:wanted]
    ]


def _some(nodes: QuerySet[Node]) -> list[UUID]:
    """Return a few nodes that follow a drawn one, cordoned ones only where few are in use: a node
    that joins a cluster of 10,000 does not look at all of them."""
    found = _drawn(nodes.filter(cordoned=False))
    return found if len(found) >= MOST_PEERS else [*found, *_drawn(nodes)]


def _drawn(nodes: QuerySet[Node]) -> list[UUID]:
    first = _random.randrange(max(nodes.count() - CANDIDATES, 0) + 1)
    return list(nodes.order_by("pk").values_list("pk", flat=True)[first:][:CANDIDATES])


def _rows(node_ids: Iterable[UUID]) -> list[Mapping[str, Any]]:
    busy = Exists(ports.attempts_on.call(OuterRef("pk")))
    rows = Node.objects.filter(pk__in=list(node_ids)).annotate(busy=busy).order_by("pk")
    return list(rows.values("id", "name", "address", "port_last", "cordoned", "busy"))


def _is_near(address: str, node: Node) -> bool:
    return _loopback(address) == _loopback(node.address)


def _loopback(address: str) -> bool | None:
    """Return whether it is one of the loopback; None where it is no IP address: agents connect to
    nothing else."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return None
