"""Ports for what tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A TCP port of the loopback that no one holds now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])
