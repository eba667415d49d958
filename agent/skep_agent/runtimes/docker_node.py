"""The node's own ports, disk and restarts, as far as containers meet them."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from skep_agent.containers import RuntimeFailure
from skep_agent.inventory import NodeWarning
from skep_agent.runtimes.docker_engine import Engine, EngineError

FULL_BYTES = 64 * 1024 * 1024  # less space than this counts as none

_ANY = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))  # noqa: S104
# Newer and older names of its command line.
TOOLKIT_COMMANDS = (("nvidia-ctk", "--version"), ("nvidia-container-cli", "--version"))
TOOLKIT_TIMEOUT_S = 10.0
LIVE_RESTORE_S, LIVE_RESTORE_EVERY_S = 5.0, 300.0
LIVE_RESTORE_OFF = NodeWarning(
    code="live_restore_off",
    message="A restart of the engine, as for an update of its package, ends all tasks.",
    action='Set "live-restore": true in /etc/docker/daemon.json, and reload dockerd (SIGHUP).',
)
NO_EXIT_CODE = 255  # of the engine, for a container whose end it did not see
_VERSION = re.compile(r"version:?\s+v?(\d+(?:\.\d+)+\S*)", re.IGNORECASE)


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
            # What a connection that is over leaves behind does not block the port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            probe.bind((address, port))
    except OSError as error:
        return error.errno == errno.EADDRINUSE  # else, this machine has no such addresses
    return False


def space_mb(folder: str) -> tuple[int, int] | None:
    """Free and total MiB; None where the folder cannot be seen from here. May hang as the disk
    does: not to be called on the event loop."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize >> 20, disk.f_blocks * disk.f_frsize >> 20


def is_full(folder: str) -> bool:
    """Return whether the disk has too few bytes or inodes left. False where the folder cannot be
    seen from here."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_BYTES or (disk.f_files > 0 and disk.f_favail == 0)


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a container ended that did not end by itself."""

    code: str
    message: str


def ended_with_machine(state: Mapping[str, Any]) -> Reason | None:
    """Return whether a container, whose state is as the engine describes it, ended because the
    machine went down: the engine then finds it dead at its next start, and calls that its end."""
    if state["ExitCode"] != NO_EXIT_CODE:
        return None
    up = timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))
    try:
        started, finished = map(datetime.fromisoformat, (state["StartedAt"], state["FinishedAt"]))
        # An engine on a machine whose clock lost the time may date the end before the beginning.
        if not (started < datetime.now(UTC) - up <= finished or finished < started):
            return None
    except (ValueError, TypeError):  # no time with its zone
        return None
    return Reason("node_lost", "The machine restarted while the task ran.")


class LiveRestore:
    """Whether the engine lets containers go on while it restarts. Asked from time to time: the
    engine takes it over from its file without a restart, too."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._due_at = 0.0  # on the monotonic clock
        self._is_off = False  # also where an engine does not say

    async def warnings(self) -> list[NodeWarning]:
        """Ask the engine where that is due; while it does not answer, what it said last counts."""
        if time.monotonic() >= self._due_at:
            with suppress(EngineError, RuntimeFailure, TimeoutError):
                async with asyncio.timeout(LIVE_RESTORE_S):
                    info = await self._engine.call(lambda api: api.info())
                self._is_off = info.get("LiveRestoreEnabled") is False
                self._due_at = time.monotonic() + LIVE_RESTORE_EVERY_S
        return [LIVE_RESTORE_OFF] if self._is_off else []


async def toolkit_version() -> str:
    """Return the version of NVIDIA's container toolkit, whose hook runs as root on the node, such
    as "1.17.8"; "" where it is not installed or does not say."""
    for command in TOOLKIT_COMMANDS:
        if found := _VERSION.search(await _output(*command)):
            return found[1]
    return ""


async def _output(*command: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(TOOLKIT_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return ""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output.decode(errors="replace")
