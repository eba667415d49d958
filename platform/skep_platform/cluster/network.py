"""The network policy that nodes are sent: what tasks may reach beside the internet."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from ipaddress import IPv4Network, collapse_addresses
from threading import Lock
from urllib.parse import urlsplit

from django.conf import settings

from skep_agent.network.rules import CLOSED, PRIVATE, Egress
from skep_agent.protocol import NetworkPolicy
from skep_platform.cluster.models import Node, NodeState
from skep_platform.engine_urls import redis_hosts

FRESH_S = 30.0

_lock = Lock()
_known: tuple[float, str] = (0.0, "")  # until when it is fresh, and the frame


def fresh_frame() -> str | None:
    """Return the policy for agents as far as it is known and fresh: no query, no waiting."""
    until, known = _known
    return known if known and time.monotonic() < until else None


def frame() -> str:
    """The policy for agents, at most FRESH_S old but for while it is worked out anew. Safe for
    threads: one of them does it, for all."""
    global _known
    if fresh := fresh_frame():
        return fresh
    known = _known[1]
    if not _lock.acquire(blocking=not known):
        return known
    try:
        if time.monotonic() >= _known[0]:
            _known = (time.monotonic() + FRESH_S, policy().model_dump_json())
        return _known[1]
    finally:
        _lock.release()


def forget() -> None:
    """The next frame is worked out anew."""
    global _known
    _known = (0.0, "")


def policy() -> NetworkPolicy:
    """The addresses of nodes and of the control plane as far as they are not closed anyway, and
    what the admin allows. One query."""
    asked = NetworkPolicy(allowed=settings.SKEP_EGRESS_ALLOW)
    allowed = Egress.of(asked, (), ()).allowed
    shut = [*CLOSED, *PRIVATE]
    known = Node.objects.exclude(state=NodeState.REMOVED).values_list("address", flat=True)
    open_ones = {
        network
        for network in (*_networks(known.distinct()), *_networks(_control_plane()))
        if not any(network.subnet_of(s) for s in shut) or any(map(network.overlaps, allowed))
    }
    denied = [str(network) for network in collapse_addresses(open_ones)]
    return NetworkPolicy(denied=denied, allowed=asked.allowed)


def _control_plane() -> set[str]:
    """Addresses that its parts have now; a name that does not resolve has none."""
    urls = (settings.SKEP_PUBLIC_URL, settings.SKEP_GATEWAY_URL)
    hosts = {urlsplit(url).hostname or "" for url in urls}
    hosts |= redis_hosts(settings.SKEP_REDIS_URL)
    hosts |= set(str(settings.DATABASES["default"]["HOST"]).split(","))
    found = set()
    for host in hosts:
        if not host or host.startswith("/"):  # a socket on this machine
            continue
        try:
            entries = socket.getaddrinfo(host, None, family=socket.AF_INET)
        except OSError:
            continue
        found |= {str(entry[4][0]) for entry in entries}
    return found


def _networks(addresses: Iterable[str]) -> Iterable[IPv4Network]:
    """Of those that are addresses of IPv4: a node may be known by a name."""
    for address in addresses:
        try:
            yield IPv4Network(address)
        except ValueError:
            continue
