"""A log whose file the disk damaged."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.support.docker_tasks import make_spec, start

from skep_agent.runtimes import docker_logs
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


def damage(container_id: str, root: str) -> None:
    """Overwrite the middle of the engine's file with what is no record."""
    path = Path(root, "containers", container_id, "local-logs", "container.log")
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 64] = b"\xff" * 64
    path.write_bytes(content)


async def test_a_log_that_is_damaged_ends_where_it_can_be_read_no_further(
    runtime: DockerRuntime, busybox: str, docker_engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_logs, "BROKEN_READS", 2)
    container_id = await start(runtime, make_spec(busybox, "seq 2000"))
    await runtime.wait(container_id)
    damage(container_id, docker_engine.info()["DockerRootDir"])
    data = b""
    async with asyncio.timeout(30):
        async for piece in runtime.logs(container_id):
            data += piece.data
    whole = "".join(f"{number}\n" for number in range(1, 2001)).encode()
    assert whole.startswith(data)
    assert len(data) < len(whole)
