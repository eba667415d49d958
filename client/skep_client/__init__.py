"""Skep's client: `Skep` and `AsyncSkep` for Python programs, `log` for programs in jobs, and the
command line `skep`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skep_client.client import AsyncSkep, Skep
    from skep_client.errors import ServerUnreachable, SkepError
    from skep_client.user_metrics import log

__all__ = ["AsyncSkep", "ServerUnreachable", "Skep", "SkepError", "log"]


def __getattr__(name: str) -> Any:
    """Loaded when used: `skep --help` has no need of HTTP and models."""
    if name in ("Skep", "AsyncSkep"):
        from skep_client import client

        return getattr(client, name)
    if name in ("SkepError", "ServerUnreachable"):
        from skep_client import errors

        return getattr(errors, name)
    if name == "log":
        from skep_client import user_metrics

        return user_metrics.log
    raise AttributeError(name)
