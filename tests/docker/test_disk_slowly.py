"""Limits of disk use where a measurement takes long."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest
from tests.support.docker_tasks import make_spec, start

from skep_agent.runtimes import docker_disk
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


def slow_du(folder: Path) -> Path:
    """Make a du(1) that waits while a file has a part of its arguments. Returns that file."""
    hold, program = folder / "hold", folder / "bin" / "du"
    program.parent.mkdir()
    real = shutil.which("du")
    program.write_text(
        "#!/bin/sh\n"
        f'while [ -s {hold} ] && echo "$*" | grep -qF -f {hold}; do sleep 0.05; done\n'
        f'exec {real} "$@"\n'
    )
    program.chmod(0o755)
    return hold


async def warns(runtime: DockerRuntime) -> bool:
    return "disk_measured_slowly" in {one.code for one in await runtime.warnings()}


async def test_a_measurement_that_takes_long_counts_when_it_ends_and_holds_up_no_other(
    runtime: DockerRuntime,
    busybox: str,
    docker_engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOOK_S", "MEASURE_S", "SLOW_S"):
        monkeypatch.setattr(docker_disk, name, 0.1)
    hold = slow_du(tmp_path)
    monkeypatch.setenv("PATH", f"{hold.parent / 'bin'}:{os.environ['PATH']}")
    fill = "dd if=/dev/zero of=/tmp/big bs=1M count=40 2>/dev/null; sleep 3600"
    slow = await start(runtime, make_spec(busybox, fill, disk_mb=20))
    hold.write_text(docker_engine.containers.get(slow).attrs["GraphDriver"]["Data"]["UpperDir"])
    end = asyncio.ensure_future(runtime.wait(slow))
    while not await warns(runtime):  # noqa: ASYNC110 nothing gives notice
        await asyncio.sleep(0.05)
    other = await start(runtime, make_spec(busybox, fill, disk_mb=20))
    async with asyncio.timeout(120):
        assert (await runtime.wait(other)).error_code == "disk_quota_exceeded"
        assert not end.done()
        hold.write_text("")
        assert (await end).error_code == "disk_quota_exceeded"
        while await warns(runtime):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
