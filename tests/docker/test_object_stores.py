"""Buckets of a real S3 server as folders of tasks, through a whole agent and a real engine."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.docker.test_storages import clear
from tests.support.agent_process import AgentProcess, config_for
from tests.support.agent_server import FakeControlPlane
from tests.support.docker_tasks import make_spec
from tests.support.object_store import ObjectStore, object_store

from skep_agent.isolation.create import NodeFacts
from skep_agent.isolation.mounts import StoragePolicy, mounts_dir
from skep_agent.protocol import AttemptFact, AttemptSpec, S3Mount
from skep_agent.runtimes import docker_disk, object_notes, object_stores
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker
ACCESS, SECRET = "AKIAEXAMPLEKEY", "s3-secret-that-stays-on-the-node"

Living = Callable[..., AbstractAsyncContextManager[AgentProcess]]


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
def bucket(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A new bucket with three objects below `team`, and others beside it."""
    bucket = store.new_bucket(monkeypatch)
    for key, text in {
        "team/hello": "hello\n",
        "team/sets/cats/1.txt": "one cat\n",
        "team/empty": "",
        "team/folder/": "",
        "team2/other": "another team's\n",
        "root": "not the team's\n",
    }.items():
        bucket.put_object(Key=key, Body=text.encode())
    return bucket


@pytest.fixture
async def server() -> AsyncIterator[FakeControlPlane]:
    async with FakeControlPlane().running() as server:
        yield server


@pytest.fixture
def living(server: FakeControlPlane, cluster: str, tmp_path: Path) -> Iterator[Living]:
    """One life of the agent, each on the same containers and the same state directory."""

    @asynccontextmanager
    async def live(policy: StoragePolicy | None = None) -> AsyncIterator[AgentProcess]:
        lives = len(server.node().hellos)
        state = tmp_path / "n1"
        node = NodeFacts(cluster, "n1", simulated_gpus=True)
        runtime = DockerRuntime(node, state=state, storages=policy)
        agent = AgentProcess(config_for(state, server.url), runtime=runtime)
        async with agent.running():
            await server.until(lambda: len(server.node().hellos) > lives)
            yield agent

    yield live
    clear(mounts_dir(cluster, "n1"))


@pytest.fixture
def task(busybox: str, bucket: Any, store: ObjectStore) -> Callable[..., AttemptSpec]:
    def make(
        command: str, *, more: dict[str, Any] | None = None, image: str = "", **fields: Any
    ) -> AttemptSpec:
        mount = {
            "storage": "team",
            "endpoint": store.endpoint,
            "bucket": bucket.name,
            "prefix": "team",
            "access_key": ACCESS,
            "secret_key": SECRET,
            "target": "/mnt/team",
        } | (more or {})
        return make_spec(image or busybox, command, s3=[S3Mount(**mount)], **fields)

    return make


def texts(bucket: Any, prefix: str = "team/") -> dict[str, str]:
    found = bucket.objects.filter(Prefix=prefix)
    return {one.key.removeprefix(prefix): one.get()["Body"].read().decode() for one in found}


def fact(server: FakeControlPlane, spec: AttemptSpec, phase: str) -> AttemptFact:
    facts = [one for one in server.node().facts if one.attempt_id == spec.attempt_id]
    return next(one for one in facts if one.phase == phase)


async def ended(server: FakeControlPlane, spec: AttemptSpec) -> str:
    """Run it to its end, and return its output."""
    await server.desire(spec)
    await server.until(lambda: server.node().complete(spec.attempt_id))
    return bytes(server.node().log(spec.attempt_id).data).decode()


async def touch(server: FakeControlPlane, spec: AttemptSpec, path: str) -> None:
    stream = await server.stream(spec.attempt_id, kind="exec", argv=["touch", path])
    async for _ in stream:
        pass


def left(tmp_path: Path) -> list[str]:
    folder = tmp_path / "n1" / "objects"
    return [path.name for path in folder.iterdir()] if folder.exists() else []


async def gone(server: FakeControlPlane, tmp_path: Path) -> None:
    """Until the agent has removed all of it."""
    await server.until(lambda: not left(tmp_path))


async def test_task_finds_the_objects_and_what_it_changes_comes_back(
    server, living, task, bucket, tmp_path
):
    spec = task(
        "cd /mnt/team && find . -type f | sort && cat hello sets/cats/1.txt && ls -d folder &&"
        " echo new > new && echo more >> hello && mkdir -p out/deep && echo r > out/deep/result &&"
        " rm empty"
    )
    async with living():
        output = await ended(server, spec)
        await gone(server, tmp_path)
    assert output.split() == [
        *("./empty", "./hello", "./sets/cats/1.txt", "hello", "one", "cat", "folder")
    ]
    assert fact(server, spec, "exited").exit_code == 0
    assert texts(bucket) == {
        "hello": "hello\nmore\n",
        "new": "new\n",
        "out/deep/result": "r\n",
        "sets/cats/1.txt": "one cat\n",
        "empty": "",  # what a task removes stays in the bucket
        "folder/": "",
    }
    assert texts(bucket, "team2/") == {"other": "another team's\n"}


async def test_what_a_task_did_not_change_is_not_written_again(server, living, task, bucket):
    """Another one changed it meanwhile."""
    spec = task("echo up; until [ -e /mnt/team/go ]; do sleep 0.1; done")
    async with living():
        await server.desire(spec)
        await server.until(lambda: server.node().log(spec.attempt_id).data)
        bucket.put_object(Key="team/hello", Body=b"changed meanwhile\n")
        await touch(server, spec, "/mnt/team/go")
        await server.until(lambda: server.node().complete(spec.attempt_id))
    assert texts(bucket)["hello"] == "changed meanwhile\n"
    assert texts(bucket)["go"] == ""


@pytest.mark.parametrize("how", ["fails", "is stopped"])
async def test_a_task_that_does_not_succeed_keeps_its_results_too(
    server, living, task, bucket, how
):
    end = "exit 3" if how == "fails" else "sleep 600"
    spec = task(f"echo step 7 > /mnt/team/checkpoint; echo up; {end}", stop_grace_s=1.0)
    async with living():
        await server.desire(spec)
        if how == "is stopped":
            await server.until(lambda: server.node().log(spec.attempt_id).data)
            await server.desire(spec.model_copy(update={"desired": "stop"}))
        await server.until(lambda: server.node().complete(spec.attempt_id))
    assert fact(server, spec, "exited").exit_code == (3 if how == "fails" else 143)
    assert texts(bucket)["checkpoint"] == "step 7\n"


async def test_read_only_is_read_only_and_nothing_comes_back(server, living, task, bucket):
    spec = task("echo x > /mnt/team/new || cat /mnt/team/hello", more={"read_only": True})
    async with living():
        assert await ended(server, spec) == "hello\n"
    assert "new" not in texts(bucket)


async def test_02_users_have_folders_of_their_own(server, living, task, bucket, made_image):
    """Bob finds nothing of Ann, and writes nothing of hers, whatever he names his files."""
    bucket.put_object(Key="team/ann/note", Body=b"ann's")
    bucket.put_object(Key="team/annex/note", Body=b"the annex's")
    script = "find . -type f; echo x > ann; id -u; mkdir annex; echo b > annex/note"
    bob = task(f"cd /mnt/team; {script}", more={"user_folder": "bob"}, image=made_image("USER bee"))
    ann = task("cd /mnt/team; find . -type f; stat -c %u note", more={"user_folder": "ann"})
    async with living():
        assert await ended(server, bob) == "1000\n"
        assert await ended(server, ann) == "./note\n0\n"
    found = texts(bucket)
    assert (found["ann/note"], found["annex/note"]) == ("ann's", "the annex's")
    assert (found["bob/ann"], found["bob/annex/note"]) == ("x\n", "b\n")


async def test_02_links_of_a_task_are_not_followed_when_it_is_written_back(
    server, living, task, bucket, tmp_path
):
    (tmp_path / "secret").write_text("the node's own")
    spec = task(
        f"cd /mnt/team; ln -s {tmp_path}/secret out; ln -s /etc/passwd passwd; ln -s / all;"
        " ln -s /proc/self/environ env; rm -r sets; ln -s /etc sets; mkfifo pipe;"
        " echo plain > plain"
    )
    async with living():
        await ended(server, spec)
    found = texts(bucket)
    assert found.keys() == {"hello", "plain", "empty", "folder/", "sets/cats/1.txt"}
    assert found["sets/cats/1.txt"] == "one cat\n"


@pytest.mark.parametrize(
    "key",
    ["../up", "a/../../up", "/absolute", "a//b", "./here", "a/./b", "x" * 256, "..", "hello/below"],
)
async def test_02_object_that_no_file_can_be_ends_the_start(server, living, task, bucket, key):
    bucket.put_object(Key=f"team/{key}", Body=b"x")
    spec = task("true")
    async with living():
        await ended(server, spec)
    failed = fact(server, spec, "failed")
    assert failed.error_code == "storage_unavailable"
    assert "Storage team has an object that" in failed.message or "whose name" in failed.message
    assert "running" not in server.node().phases(spec.attempt_id)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"bucket": "no-such-bucket"}, "NoSuchBucket"),
        ({"endpoint": "http://127.0.0.1:9"}, "does not answer"),
    ],
)
async def test_store_that_does_not_give_its_objects_is_told_by_name(
    server, living, task, more, words, tmp_path
):
    spec = task("true", more=more)
    async with living():
        await ended(server, spec)
        await gone(server, tmp_path)
    failed = fact(server, spec, "failed")
    assert failed.error_code == "storage_unavailable"
    assert "Storage team" in failed.message
    assert words in failed.message
    for hidden in (ACCESS, SECRET, "127.0.0.1"):
        assert hidden not in failed.message


async def test_results_that_cannot_be_written_back_fail_the_task_and_are_kept(
    server, living, task, bucket, tmp_path, monkeypatch
):
    monkeypatch.setattr(object_notes, "FREE_PART", 10**15)  # whatever the disk has free
    spec = task("echo r > /mnt/team/result; until [ -e /tmp/go ]; do sleep 0.1; done")
    async with living():
        await server.desire(spec)
        await server.until(lambda: "running" in server.node().phases(spec.attempt_id))
        bucket.objects.all().delete()
        bucket.delete()
        await touch(server, spec, "/tmp/go")
        await server.until(lambda: server.node().complete(spec.attempt_id))
        await gone(server, tmp_path)
    failed = fact(server, spec, "failed")
    assert failed.error_code == "storage_not_synced"
    assert "Storage team: its store refuses this (NoSuchBucket)" in failed.message
    kept = tmp_path / "n1" / "objects-kept"
    assert [one.read_text() for one in kept.glob("*/0/result")] == ["r\n"]


async def test_results_are_written_back_after_the_death_of_the_agent(
    server, living, task, bucket, docker_engine
):
    """The next agent has the keys from the server again, and the end is reported after that."""
    spec = task("echo r > /mnt/team/result; sleep 600", stop_grace_s=1.0)
    async with living():
        await server.desire(spec)
        await server.until(lambda: "running" in server.node().phases(spec.attempt_id))
    container = docker_engine.containers.get(f"skep-{spec.attempt_id}")
    container.kill()
    container.wait()
    assert "result" not in texts(bucket)
    async with living():
        await server.until(lambda: server.node().complete(spec.attempt_id))
    assert texts(bucket)["result"] == "r\n"
    assert fact(server, spec, "exited").exit_code == 137


async def test_nothing_is_written_back_for_an_attempt_that_the_server_forgot(
    server, living, task, bucket, tmp_path
):
    spec = task("echo r > /mnt/team/result; echo up; sleep 600", stop_grace_s=1.0)
    async with living():
        await server.desire(spec)
        await server.until(lambda: server.node().log(spec.attempt_id).data)
        await server.desire()
        await server.until(lambda: server.node().complete(spec.attempt_id))
        await gone(server, tmp_path)
    assert "result" not in texts(bucket)


async def test_nothing_is_written_back_once_the_lease_is_over(
    server, living, task, bucket, docker_engine
):
    """Another node may have the task by then."""
    server.lease_s = 15.0  # a busy machine starts the task within it
    spec = task("trap '' TERM; echo r > /mnt/team/result; echo up; sleep 600")
    async with living():
        await server.desire(spec)
        await server.until(lambda: server.node().log(spec.attempt_id).data)
        server.answer_heartbeats = server.welcome_agents = False
        await server.drop()
        container = docker_engine.containers.get(f"skep-{spec.attempt_id}")
        await asyncio.to_thread(container.wait)
        server.answer_heartbeats = server.welcome_agents = True
        await server.until(lambda: server.node().complete(spec.attempt_id))
    assert fact(server, spec, "failed").error_code == "node_lost"
    assert "result" not in texts(bucket)


async def test_a_task_that_fills_its_copy_is_ended_like_one_that_fills_its_root(
    server, living, task, bucket, monkeypatch
):
    """What was copied for it does not count."""
    for name in ("LOOK_S", "MEASURE_S"):
        monkeypatch.setattr(docker_disk, name, 0.1)
    monkeypatch.setattr(docker_disk, "DUTY", 1.0)
    bucket.put_object(Key="team/large", Body=bytes(30 * 1024 * 1024))
    fill = "while :; do dd if=/dev/zero of=$((n += 1)) bs=1M count=4 2>/dev/null; sleep 0.1; done"
    spec = task(f"cd /mnt/team; rm large; echo up; [ -z $FILL ] || {fill}", disk_mb=20)
    full = spec.model_copy(update={"attempt_id": str(uuid.uuid4()), "env": {"FILL": "1"}})
    async with living():
        assert await ended(server, spec) == "up\n"
        await ended(server, full)
    assert fact(server, spec, "exited").exit_code == 0
    assert fact(server, full, "exited").error_code == "disk_quota_exceeded"


async def test_27_keys_are_in_no_file_no_description_and_no_fact(
    server, living, task, bucket, docker_engine, tmp_path
):
    spec = task(
        "env; cat /proc/self/mountinfo; cat /run/skep/* 2>/dev/null; echo up; sleep 600",
        stop_grace_s=1.0,
    )
    async with living():
        await server.desire(spec)
        await server.until(lambda: b"up\n" in server.node().log(spec.attempt_id).data)
        container = docker_engine.containers.get(f"skep-{spec.attempt_id}")
        seen = [json.dumps(container.attrs), repr(spec)]
        seen += [path.read_text(errors="replace") for path in files(tmp_path / "n1")]
        await server.desire(spec.model_copy(update={"desired": "stop"}))
        await server.until(lambda: server.node().complete(spec.attempt_id))
    seen.append(bytes(server.node().log(spec.attempt_id).data).decode())
    seen += [repr(one) for one in server.node().facts]
    for hidden in (ACCESS, SECRET):
        assert not [text for text in seen if hidden in text]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_large_objects_travel_in_parts_both_ways(server, living, task, bucket):
    """And how far the copy is, is reported like a pull."""
    large = os.urandom(40 * 1024 * 1024 + 17)
    bucket.put_object(Key="team/large", Body=large)
    spec = task("cp /mnt/team/large /mnt/team/copy; sha256sum < /mnt/team/copy", memory_mb=256)
    async with living():
        output = await ended(server, spec)
    assert output.split()[0] == hashlib.sha256(large).hexdigest()
    assert bucket.Object("team/copy").get()["Body"].read() == large
    assert "-" in bucket.Object("team/copy").e_tag  # of an upload in parts
    facts = [one for one in server.node().facts if one.phase == "pulling"]
    assert max(one.pull_percent or 0 for one in facts) >= 50


async def test_disk_that_has_no_room_is_told_before_anything_is_copied(
    server, living, task, monkeypatch, tmp_path
):
    monkeypatch.setattr(object_stores, "RESERVE_PART", 0.001)
    monkeypatch.setattr(object_stores, "RESERVE_BYTES", 10**18)
    spec = task("true")
    async with living():
        await ended(server, spec)
        await gone(server, tmp_path)
    assert fact(server, spec, "failed").error_code == "disk_full"


async def test_02_node_uses_only_the_stores_that_its_owner_allows(server, living, task):
    spec = task("true")
    async with living(StoragePolicy.parsed(s3_endpoints=["https://s3.example.org"])):
        await ended(server, spec)
    failed = fact(server, spec, "failed")
    assert (failed.error_code, "does not use" in failed.message) == ("storage_unavailable", True)


@pytest.mark.parametrize(
    "more",
    [
        {"endpoint": "file:///etc"},
        {"endpoint": "http://user@host"},
        {"endpoint": "http://host/path"},
        {"bucket": "../other"},
        {"prefix": "team/../other"},
        {"prefix": "/team"},
        {"user_folder": "../ann"},
        {"region": "x.evil.example"},
    ],
)
async def test_02_a_control_plane_gone_bad_names_no_other_place(server, living, task, more):
    spec = task("true", more=more)
    async with living():
        await ended(server, spec)
    assert fact(server, spec, "failed").error_code == "spec_refused"
