"""Who speaks to us through proxies, and where agents reach the gateway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> str:
    """The value of a header of an ASGI scope; "" where it is missing, or given more than once."""
    found = [value for key, value in headers if key.lower() == name]
    return found[0].decode("latin-1") if len(found) == 1 else ""


def client_address(scope: Mapping[str, Any]) -> str:
    """The address of who opened this connection. Of X-Forwarded-For only what our own proxies wrote
    is believed: the last `SKEP_TRUSTED_PROXIES` addresses (none by default)."""
    peer = scope.get("client")
    proxies: int = settings.SKEP_TRUSTED_PROXIES
    if proxies > 0:
        lines = [v for k, v in scope["headers"] if k.lower() == b"x-forwarded-for"]
        hops = [h.strip() for h in b",".join(lines).decode("latin-1").split(",") if h.strip()]
        if hops:
            return hops[-min(proxies, len(hops))]
    return str(peer[0]) if peer else ""


def own_origin(scope: Mapping[str, Any]) -> str:
    """Scheme and host of the page that may open this socket, such as "https://skep.example.org".
    TLS that ends at a proxy of ours counts; see `client_address` for whom we believe."""
    secure = scope["scheme"] in ("wss", "https")
    if settings.SKEP_TRUSTED_PROXIES > 0:
        secure = secure or header(scope["headers"], b"x-forwarded-proto").lower() == "https"
    host = header(scope["headers"], b"host").lower()
    return f"{'https' if secure else 'http'}://{host}"


def gateway_url(host: str) -> str:
    """What agents are told to use as the gateway's address, or "" where it is the web address.
    A setting such as ":8471" names a port of `host`, the name by which the caller knows us: one
    box does not know its own names."""
    told: str = settings.SKEP_GATEWAY_URL
    if not told.startswith(":"):
        return told.rstrip("/")
    name = urlsplit(f"//{host}").hostname or ""
    if not name:
        return ""
    return f"http://{f'[{name}]' if ':' in name else name}{told}"
