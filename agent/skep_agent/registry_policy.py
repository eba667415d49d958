"""Which registries images may come from: an image reference must not make a node, or the server,
talk to services of the network that its owner could not reach.

A list of names as `registry.example.org`, `registry.example.org:5000`, `*.example.org` and address
ranges as `10.1.0.0/16`, and the word `public`: every registry at public addresses. Loopback,
link-local and private addresses are refused unless they are listed. The server looks at the
reference alone; the node, which pulls, also at the addresses behind the name.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

DOCKER_HUB = "docker.io"
DOCKER_HUB_NAMES = frozenset({"docker.io", "index.docker.io", "registry-1.docker.io"})
PUBLIC = "public"
DEFAULT = (PUBLIC,)
RESOLVE_S = 5.0
Address = IPv4Address | IPv6Address
Resolver = Callable[[str], Awaitable[list[str]]]


class RegistryRefused(ValueError):
    """The message says which registry, and what an admin would have to list."""


@dataclass(frozen=True, slots=True)
class RegistryPolicy:
    allowed: tuple[str, ...] = DEFAULT

    @classmethod
    def parsed(cls, text: str) -> RegistryPolicy:
        """Of a comma list; empty is the default. Raises ValueError for a range that is none."""
        words = tuple(word.strip().lower() for word in text.split(",") if word.strip())
        for word in words:
            if "/" in word:
                ip_network(word)
        return cls(words or DEFAULT)

    def check_name(self, reference: str) -> None:
        """By what the reference says. Raises RegistryRefused."""
        registry = registry_of(reference)
        if self._names(registry):
            return
        host = _host(registry)
        literal = literal_address(host)
        if literal is not None:
            self._check_address(registry, literal)
        elif PUBLIC not in self.allowed:
            raise RegistryRefused(f"The registry {registry} is not among those allowed here.")
        elif host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
            raise RegistryRefused(_PRIVATE.format(registry=registry))

    async def check(self, reference: str, resolve: Resolver | None = None) -> None:
        """Also by the addresses that the name has now. A name without one passes: the pull will
        say so. Raises RegistryRefused."""
        self.check_name(reference)
        registry = registry_of(reference)
        host = _host(registry)
        if self._names(registry) or literal_address(host) is not None:
            return
        try:
            found = await asyncio.wait_for((resolve or _resolve)(host), RESOLVE_S)
        except (OSError, TimeoutError):
            return
        self.check_addresses(registry, found)

    def check_addresses(self, registry: str, addresses: Iterable[str]) -> None:
        """By the addresses that a registry was found at. Raises RegistryRefused."""
        if not self._names(registry):
            for address in addresses:
                self._check_address(registry, ip_address(address.partition("%")[0]))

    def _names(self, registry: str) -> bool:
        host = _host(registry)
        return any(
            word in (registry, host) or (word.startswith("*.") and host.endswith(word[1:]))
            for word in self.allowed
        )

    def _check_address(self, registry: str, address: Address) -> None:
        address = getattr(address, "ipv4_mapped", None) or address
        ranges = (ip_network(word) for word in self.allowed if "/" in word)
        if any(address.version == one.version and address in one for one in ranges):
            return
        if PUBLIC not in self.allowed:
            raise RegistryRefused(f"The registry {registry} is not among those allowed here.")
        if not address.is_global or address.is_multicast:
            raise RegistryRefused(_PRIVATE.format(registry=registry))


_PRIVATE = (
    "The registry {registry} is at a loopback, link-local or private address. An admin allows it "
    "by SKEP_REGISTRIES."
)


def registry_of(reference: str) -> str:
    """The registry that an engine would ask, in lower case."""
    first, slash, _ = reference.partition("/")
    is_host = "." in first or ":" in first or first == "localhost" or first != first.lower()
    return first.lower() if slash and is_host else DOCKER_HUB


def literal_address(host: str) -> Address | None:
    """Return the address that the text is, if it is one. Resolvers also take forms such as 127.1,
    0x7f.1 and 2130706433 for addresses."""
    try:
        return ip_address(host.strip("[]"))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host)) if host else None
    except OSError:
        return None


def _host(registry: str) -> str:
    host, colon, port = registry.rpartition(":")
    return (host if colon and port.isdigit() else registry).rstrip(".")


async def _resolve(host: str) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]
