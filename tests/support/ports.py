"""Ports for what tests start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A TCP port of the loopback that no one holds now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def free_ports(count: int) -> list[int]:
    """Return so many TCP ports of the loopback, one after another, that no one holds now."""
    while True:
        first = free_port()
        held = []
        try:
            for port in range(first, first + count):
                held.append(socket.create_server(("127.0.0.1", port)))
        except (OSError, OverflowError):
            continue
        finally:
            for server in held:
                server.close()
        return list(range(first, first + count))
