"""Storages whose servers do not answer, beside others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.docker.test_storages import clear, mounted, output, task
from tests.support.docker_tasks import make_spec

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.isolation.mounts import StoragePolicy, mounts_dir
from skep_agent.protocol import StorageMount
from skep_agent.runtimes import storages
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker


@pytest.fixture
async def runtime(cluster: str, tmp_path: Path) -> AsyncIterator[DockerRuntime]:
    node = NodeFacts(cluster, "node-1", simulated_gpus=True)
    runtime = DockerRuntime(node, storages=StoragePolicy.parsed([str(tmp_path)]))
    yield runtime
    await runtime.close()
    clear(mounts_dir(cluster, "node-1"))


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """mount(8) of NFS servers that do not answer while there is the file of this path."""
    silence = tmp_path / "silence"
    silence.touch()
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "hello").write_text("hello\n")
    program = tmp_path / "bin" / "mount"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho $$ >> {tmp_path}/mounting\n"
        f"while [ -e {silence} ]; do sleep 0.05; done\necho no such export >&2\nexit 32\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return silence


def answer(servers: Path) -> None:
    servers.unlink()


def mounts(folder: Path) -> int:
    """How many began."""
    found = folder / "mounting"
    return len(found.read_text().split()) if found.exists() else 0


def nfs(server: str) -> StorageMount:
    return StorageMount(type="nfs", server=server, path="/export", target="/mnt/far")


async def test_servers_that_do_not_answer_hold_up_no_other_storage(
    runtime: DockerRuntime, busybox: str, servers: Path, tmp_path: Path
) -> None:
    specs = [make_spec(busybox, "true", mounts=[nfs(f"nfs-{n % 3}")]) for n in range(15)]
    waiting = [asyncio.ensure_future(runtime.create(spec)) for spec in specs]
    while mounts(tmp_path) < 12:  # noqa: ASYNC110 processes give no notice
        await asyncio.sleep(0.05)  # four of each of the three
    near = task(busybox, "cat /mnt/team/hello", mounted(tmp_path / "team"))
    assert await output(runtime, near) == "hello\n"
    assert not any(one.done() for one in waiting)
    answer(servers)
    ends = await asyncio.gather(*waiting, return_exceptions=True)
    assert {getattr(end, "code", end) for end in ends} == {"storage_unavailable"}


async def test_the_engine_is_free_for_others_while_a_task_waits_for_its_storage(
    runtime: DockerRuntime, busybox: str, servers: Path
) -> None:
    created = asyncio.Event()
    spec = make_spec(busybox, "true", mounts=[nfs("nfs-1")])
    waiting = asyncio.ensure_future(runtime.create(spec, created=created.set))
    await created.wait()
    assert not waiting.done()
    answer(servers)
    with pytest.raises(RuntimeFailure, match="no such export"):
        await waiting


async def test_of_many_that_wait_for_a_server_few_time_out_and_the_others_fail_when_these_do(
    runtime: DockerRuntime, busybox: str, servers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storages, "MOUNT_S", 3.0)
    specs = [make_spec(busybox, "true", mounts=[nfs("nfs-1")]) for _ in range(storages.TURNS + 4)]
    ends = await asyncio.gather(*map(runtime.create, specs), return_exceptions=True)
    timed_out = [end for end in ends if "did not answer within" in str(end)]
    at_once = [end for end in ends if "did not answer a moment ago" in str(end)]
    assert len(timed_out) <= storages.TURNS
    assert len(timed_out) + len(at_once) == len(specs)


async def test_of_a_server_that_did_not_answer_one_task_tries_again_and_others_do_not_wait(
    runtime: DockerRuntime,
    busybox: str,
    servers: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(storages, "MOUNT_S", 0.2)
    spec = make_spec(busybox, "true", mounts=[nfs("nfs-1")])
    with pytest.raises(RuntimeFailure, match="did not answer within"):
        await runtime.create(spec)
    tried = mounts(tmp_path)
    for _ in range(3):
        with pytest.raises(RuntimeFailure, match="a moment ago") as caught:
            await runtime.create(spec)
        assert caught.value.code == "storage_unavailable"
    assert mounts(tmp_path) == tried
    monkeypatch.setattr(storages, "MOUNT_S", 30.0)
    runtime._storages._silent["nfs-1"] = 0.0  # later
    answer(servers)
    with pytest.raises(RuntimeFailure, match="no such export"):
        await runtime.create(spec)
