"""Which addresses a webhook may reach.

A user chooses the address and the platform sends the request, so that without this a user could
talk to the database, to nodes, or to a cloud's metadata service with the platform's network
position (SECURITY.md, attack 16). A name is resolved once, every address of it is checked, and the
connection goes to an address that was checked: a name server that answers differently the second
time (DNS rebinding) is not asked a second time.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from skep_platform.core.errors import SkepError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
MAX_URL = 1000
RESOLVE_S = 5.0

# Addresses that look public, and are not: Azure's platform channel; and prefixes in which an IPv4
# address is embedded that another machine unpacks (NAT64, 6to4, Teredo, IPv4-compatible).
_CLOSED: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    ipaddress.IPv4Network("168.63.129.16/32"),
    ipaddress.IPv4Network("192.88.99.0/24"),
    ipaddress.IPv6Network("::/96"),
    ipaddress.IPv6Network("64:ff9b::/96"),
    ipaddress.IPv6Network("64:ff9b:1::/48"),
    ipaddress.IPv6Network("2002::/16"),
    ipaddress.IPv6Network("2001::/32"),
    ipaddress.IPv6Network("fec0::/10"),
)


class AddressRefused(SkepError):
    """A webhook may not be sent there."""

    code = "webhook_address_refused"


def parse(url: str) -> SplitResult:
    """Return the parts of a webhook's address. Raises SkepError `webhook_url_invalid`, and
    AddressRefused for an address that is a number and is not public."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _invalid("It cannot be read as an address.") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise _invalid("It begins with https:// or http://, and has a host.")
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise _invalid(f"It has at most {MAX_URL} plain characters, and no spaces.")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise _invalid("It has no user name, password or fragment (#).")
    if port == 0:
        raise _invalid("Its port is 1 to 65535.")
    literal = _literal(parts.hostname)
    if literal is not None and not allowed(literal):
        raise _refused(parts.hostname)
    return parts


def origin(parts: SplitResult) -> str:
    """Return scheme, host and port: what may be shown and logged."""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{parts.port}" if parts.port else "")


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host, all of them checked, in the order of the resolver. Raises
    AddressRefused when one of them may not be reached, and OSError when there is none."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(RESOLVE_S):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    check(host, addresses)
    return addresses


def check(host: str, addresses: Sequence[str]) -> None:
    """Raises AddressRefused unless all of these addresses may be reached, and there is one."""
    known = [_literal(address) for address in addresses]
    if not known or not all(one is not None and allowed(one) for one in known):
        raise _refused(host)


def allowed(address: Address) -> bool:
    """Return whether webhooks may reach an address: a public one, or one in a network that the
    administrator allows."""
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if any(_within(address, network) for network in settings.SKEP_WEBHOOK_NETWORKS):
        return True
    if any(_within(address, network) for network in _CLOSED):
        return False
    # `is_global` is false of private, loopback, link-local (with cloud metadata), CGNAT,
    # unspecified, documentation and reserved addresses; it is true of some multicast ones.
    return address.is_global and not address.is_multicast


def _within(address: Address, network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    return address.version == network.version and address in network


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _refused(host: str) -> AddressRefused:
    # Without the address: who chose the name shall not learn what it is inside of this network.
    message = (
        f"{host[:253]} is not a public address, and webhooks go to no other. An administrator "
        "can allow networks by SKEP_WEBHOOK_NETWORKS."
    )
    return AddressRefused(message, field="url")


def _invalid(why: str) -> SkepError:
    message = f"This is not the address of a webhook. {why}"
    return SkepError(message, code="webhook_url_invalid", field="url")
