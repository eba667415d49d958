"""Which clusters have a living agent on this machine.

Each agent binds an abstract Unix socket whose name has the cluster's digits. The kernel frees the
name when the process dies, however it dies, and lists the names of one network namespace: the one
whose bridges and nftables tables the agent manages, also for an agent in a container with the
host's network but a file system and process ids of its own. Anybody may bind such a name; that
keeps leftovers from being removed and does nothing else.
"""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

from skep_agent.network import names

SOCKETS = Path("/proc/net/unix")
_NAME = re.compile(r"@skep-agent-(skep_[0-9a-f]{6})-(\d+)-")


class Presence:
    """Marks the agent as alive until `close`, or until the process dies."""

    def __init__(self, cluster: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # Several agents of a cluster may share a machine, and one name may be bound once.
        name = f"\0skep-agent-{names.table(cluster)}-{os.getpid()}-{os.urandom(4).hex()}"
        self._socket.bind(name)

    def close(self) -> None:
        self._socket.close()


def living_tables() -> set[str]:
    """Return the names of the nftables tables (`names.table`) whose cluster has a living agent in
    this network namespace. Raises OSError."""
    return {table for table, _ in _marks()}


def unmarked_agents() -> set[int]:
    """Return the process ids of agents that carry no mark: those of a version before the marks.
    An agent whose ids are those of a container counts as one, too. Raises OSError."""
    marked = {int(pid) for _, pid in _marks()}
    return {
        pid
        for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
        if pid not in marked and pid != os.getpid() and _runs_an_agent(pid)
    }


def _marks() -> list[tuple[str, str]]:
    return _NAME.findall(SOCKETS.read_text(errors="replace"))


def _runs_an_agent(pid: int) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False  # it ended
    named = any(
        w in (b"skep_agent", b"skep_agent.main") or w.endswith(b"/skep-agent") for w in words
    )
    return named and b"run" in words and b"mock" not in words and b"--runtime=mock" not in words
