"""What keeps a server from starting: settings that would leave it open. Needs no Django, so that
`skep up` says the same before it starts anything."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from skep_agent.watchdog import DEAD_WITHIN_S

SHORTEST_SECRET = 32  # characters
FEWEST_DIFFERENT = 8
ALLOW_HTTP = "SKEP_ALLOW_HTTP"


def secret_key_problem(key: str) -> str:
    """Why `key` cannot sign sessions, and how to make one that can; "" when it can."""
    if len(key) >= SHORTEST_SECRET and len(set(key)) >= FEWEST_DIFFERENT:
        return ""
    return (
        f"SKEP_SECRET_KEY needs at least {SHORTEST_SECRET} random characters and has {len(key)} "
        f"({len(set(key))} different ones); make one with: "
        'python -c "import secrets; print(secrets.token_urlsafe(48))"'
    )


def public_url_problem(url: str, allow_http: bool) -> str:
    """Why people cannot be asked to log in at `url`; "" when they can."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return f"SKEP_PUBLIC_URL is to be https://host or https://host:port, not {url!r}"
    if parts.scheme == "https" or allow_http or is_loopback(parts.hostname):
        return ""
    return (
        f"SKEP_PUBLIC_URL {url} has no TLS, and {parts.hostname} is not this machine alone: "
        "passwords, tokens and secrets of jobs would cross the network in the clear. Put a proxy "
        f"with TLS in front and use its https:// address, or set {ALLOW_HTTP}=1 for a try-out."
    )


def lease_margin_problem(margin_s: float) -> str:
    """Why a server that waits `margin_s` longer than a node's lease could run a task twice; ""
    when it could not."""
    if margin_s >= DEAD_WITHIN_S:
        return ""
    return (
        f"SKEP_LEASE_MARGIN_S is {margin_s:g}, and a node may need up to {DEAD_WITHIN_S:g} s after "
        "the end of its lease until its containers are dead: set at least 5"
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`, a name or an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
