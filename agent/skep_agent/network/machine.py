"""A lock that all agents of one cluster on a machine share.

Agents that share an engine share the bridge of a gang: none may remove it between another's look
for it and its creating of a container there.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from skep_agent.network import names
from skep_agent.network.fence import unavailable

WAIT_S = 60.0
_POLL_S = 0.02


@asynccontextmanager
async def machine_lock(cluster: str) -> AsyncIterator[None]:
    """Raises RuntimeFailure "network_unavailable" when another agent does not give it back."""
    path = _path(cluster)
    try:
        # Not followed where it is a link: others may write to the folder of a user's agent.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unavailable(f"{path} cannot be opened: {error.strerror}") from None
    try:
        deadline = time.monotonic() + WAIT_S
        # Polled: a thread that waits for it could not be called back.
        while not _locked(file):
            if time.monotonic() > deadline:
                raise unavailable(f"another agent holds {path} for {WAIT_S:g} s")
            await asyncio.sleep(_POLL_S)
        yield
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _path(cluster: str) -> Path:
    name = f"{names.table(cluster)}.lock"
    return Path("/run") / name if os.geteuid() == 0 else Path(f"/tmp/{os.geteuid()}-{name}")  # noqa: S108
