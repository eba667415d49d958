"""Whether ports of the node itself are free for a task that was promised them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

from skep_agent.runtimes.base import RuntimeFailure

_ANY = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104


def check_free(ports: Iterable[int]) -> None:
    """Raises RuntimeFailure "port_conflict" for the first that a process of this node uses."""
    for port in ports:
        for family, address in _ANY:
            if _is_taken(family, address, port):
                raise RuntimeFailure(
                    "port_conflict", f"Port {port} of this node is used by another process."
                )


def _is_taken(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            # What a connection that is over leaves behind is in nobody's way.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
    except OSError as error:
        return error.errno == errno.EADDRINUSE  # else, this machine has no such addresses
    return False
