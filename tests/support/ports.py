"""Ports for what tests start."""

from __future__ import annotations

import socket

# They stay bound, without a listener, until this process ends: the kernel gives them to no other
# process that asks for any port, and to no connection, however late the server of a test begins.
# A server may listen there all the same, as servers set SO_REUSEADDR; until then connections are
# refused.
_kept: list[socket.socket] = []


def free_port() -> int:
    """Return a TCP port of the loopback that no one holds now, and that stays the caller's."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Return so many TCP ports of the loopback, one after another, that stay the caller's."""
    while True:
        found = [_bound(0)]
        first = int(found[0].getsockname()[1])
        try:
            found += [_bound(port) for port in range(first + 1, first + count)]
        except (OSError, OverflowError):
            found[0].close()
            continue
        _kept.extend(found)
        return list(range(first, first + count))


def _bound(port: int) -> socket.socket:
    """Bind a port that no one has bound: others may do so from now on, and not before."""
    found = socket.socket()
    try:
        found.bind(("127.0.0.1", port))
    except BaseException:
        found.close()
        raise
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return found
