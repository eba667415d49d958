"""Addresses of PostgreSQL and Valkey, at a TCP port or at a unix socket, as their users want them.

postgresql://user:password@host:5432/name    redis://:password@host:6379/0
postgresql://user:password@/name?host=/dir   unix://:password@/dir/valkey.sock?db=0
"""

from __future__ import annotations

from urllib.parse import parse_qs, unquote, urlsplit


def database(url: str) -> dict[str, str]:
    """Django's settings of a database; libpq takes a folder of sockets for a host."""
    parts = urlsplit(url)
    [folder] = parse_qs(parts.query).get("host", [""])[-1:]
    return {
        "HOST": folder or parts.hostname or "",
        "PORT": str(parts.port or 5432),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "NAME": parts.path.lstrip("/"),
    }


def broker(url: str) -> str:
    """The same for Celery, which has names of its own for a unix socket and its database."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return url
    [number] = parse_qs(parts.query).get("db", ["0"])[-1:]
    return f"redis+socket://{parts.netloc}{parts.path}?virtual_host={number}"
