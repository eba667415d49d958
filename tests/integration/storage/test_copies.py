"""Copies of buckets of a real S3 server, without an engine: what is written back, and where."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.support.docker_tasks import make_spec
from tests.support.object_store import ObjectStore, object_store

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.files import Owner
from skep_agent.isolation.mounts import StoragePolicy
from skep_agent.protocol import AttemptSpec, S3Mount
from skep_agent.runtimes import object_notes, object_stores
from skep_agent.runtimes.object_stores import ObjectStores

ME = Owner(os.getuid(), os.getgid())
ANY_DISK = 10**15  # so little has to be free that no disk of a test has less


class Gate:
    """Stands before a store: it can be down, or keep requests waiting."""

    def __init__(self, endpoint: str) -> None:
        self._store = urlsplit(endpoint)
        self.endpoint = ""
        self.refused = 0
        self.is_down = False
        self.is_open = asyncio.Event()
        self.is_open.set()

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.is_open.wait()
        if self.is_down:
            self.refused += 1
            writer.close()
            return
        answers, requests = await asyncio.open_connection(self._store.hostname, self._store.port)
        await asyncio.gather(self._copy(reader, requests), self._copy(answers, writer))

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as store:
        yield store


@pytest.fixture
async def gate(store: ObjectStore) -> AsyncIterator[Gate]:
    gate = Gate(store.endpoint)
    server = await asyncio.start_server(gate.take, "127.0.0.1", 0)
    gate.endpoint = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield gate
    gate.is_open.set()
    server.close()


@pytest.fixture
def bucket(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    return store.new_bucket(monkeypatch)


@pytest.fixture
def other(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Any:
    return store.new_bucket(monkeypatch)


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[ObjectStores]:
    copies = ObjectStores(tmp_path / "objects", StoragePolicy())
    yield copies
    copies.close()


def mount(endpoint: str, bucket: Any, name: str = "a", **fields: Any) -> S3Mount:
    whole = {"storage": name, "endpoint": endpoint, "bucket": bucket.name, "target": f"/mnt/{name}"}
    return S3Mount(**whole | {"access_key": "k", "secret_key": "s"} | fields)


async def filled(copies: ObjectStores, *mounts: S3Mount) -> AttemptSpec:
    """Return an attempt that wrote the name of each storage into it, and has ended."""
    spec = make_spec("busybox", "true", s3=list(mounts))
    await copies.fetch(key(spec), mounts, lambda _: None)
    await copies.hand_over(spec, ME)
    for one in mounts:
        (copies.source(key(spec), one) / "mine").write_text(one.storage)
    return spec


def key(spec: AttemptSpec) -> tuple[str, int]:
    return spec.attempt_id, spec.epoch


def texts(bucket: Any) -> dict[str, str]:
    return {one.key: one.get()["Body"].read().decode() for one in bucket.objects.all()}


async def until(condition: Any) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 of threads
            await asyncio.sleep(0.01)


async def test_02_files_go_back_to_where_they_are_from_whatever_is_listed_now(
    copies, store, bucket, other
):
    """The first storage was deleted meanwhile, or lies elsewhere now."""
    a, b = mount(store.endpoint, bucket), mount(store.endpoint, other, "b")
    for changed in ([b], [a.model_copy(update={"prefix": "x"}), b]):
        spec = await filled(copies, a, b)
        copies.learn([spec.model_copy(update={"s3": changed})])
        with pytest.raises(RuntimeFailure, match="Storage a is not what the task mounted") as error:
            await copies.sync(key(spec), lambda: True)
        assert error.value.code == "storage_not_synced"
        assert (texts(bucket), texts(other)) == ({}, {"mine": "b"})
        other.objects.all().delete()
    spec = await filled(copies, a, b)
    copies.learn([spec.model_copy(update={"s3": [b, a]})])
    await copies.sync(key(spec), lambda: True)
    assert (texts(bucket), texts(other)) == ({"mine": "a"}, {"mine": "b"})


async def test_02_nothing_is_written_where_the_grant_became_read_only(copies, store, bucket):
    a = mount(store.endpoint, bucket)
    spec = await filled(copies, a)
    copies.learn([spec.model_copy(update={"s3": [a.model_copy(update={"read_only": True})]})])
    with pytest.raises(RuntimeFailure, match="nothing was written"):
        await copies.sync(key(spec), lambda: True)
    assert texts(bucket) == {}


async def test_results_outlast_an_outage_of_their_store(copies, gate, bucket, other, monkeypatch):
    monkeypatch.setattr(object_stores, "BACKOFF_S", 0.01)
    spec = await filled(copies, mount(gate.endpoint, bucket))
    gate.is_down = True
    work = asyncio.create_task(copies.sync(key(spec), lambda: True))
    await until(lambda: gate.refused > 3)  # more than the client itself repeats
    assert copies.is_pending(key(spec))
    gate.is_down = False
    await work
    assert texts(bucket) == {"mine": "a"}
    assert not copies.is_pending(key(spec))


async def test_outage_without_an_end_is_given_up(copies, gate, bucket, monkeypatch):
    monkeypatch.setattr(object_stores, "SYNC_S", 0.5)
    spec = await filled(copies, mount(gate.endpoint, bucket))
    gate.is_down = True
    with pytest.raises(RuntimeFailure, match="was ended after"):
        await copies.sync(key(spec), lambda: True)


async def test_a_store_that_refuses_for_good_is_not_asked_again_and_the_files_are_kept(
    copies, store, bucket, other, tmp_path, monkeypatch
):
    """The bucket of one storage is gone; that of the other one takes its files, and what was copied
    read-only is not kept."""
    a, b = mount(store.endpoint, bucket), mount(store.endpoint, other, "b")
    other.put_object(Key="data", Body=b"much")
    c = mount(store.endpoint, other, "c", target="/mnt/c", read_only=True)
    spec = make_spec("busybox", "true", s3=[a, b, c])
    await copies.fetch(key(spec), (a, b, c), lambda _: None)
    await copies.hand_over(spec, ME)
    for one in (a, b):
        (copies.source(key(spec), one) / "mine").write_text(one.storage)
    bucket.delete()
    monkeypatch.setattr(object_notes, "FREE_PART", ANY_DISK)
    monkeypatch.setattr(object_stores, "BACKOFF_S", 10_000.0)  # a second try would not end
    with pytest.raises(RuntimeFailure) as failure:
        await copies.sync(key(spec), lambda: True)
    said = failure.value.message
    assert failure.value.code == "storage_not_synced"
    assert "Storage a: its store refuses this (NoSuchBucket): an admin should make" in said
    assert "kept on the node for 24 hours" in said
    assert "Storage b" not in said
    assert texts(other)["mine"] == "b"

    await copies.discard(key(spec))
    (kept,) = (tmp_path / "objects-kept").iterdir()
    assert kept.name == f"{spec.attempt_id}.{spec.epoch}"
    assert [one.read_text() for one in kept.glob("*/*")] == ["a"]
    assert not list((tmp_path / "objects").iterdir())
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    copies.kept.tidy()
    assert kept.exists()
    monkeypatch.setattr(object_notes, "KEPT_S", 0.0)
    copies.kept.tidy()
    assert not kept.exists()


async def test_what_is_kept_goes_when_its_space_is_needed(
    copies, store, bucket, tmp_path, monkeypatch
):
    spec = await filled(copies, mount(store.endpoint, bucket))
    bucket.delete()
    with pytest.raises(RuntimeFailure):
        await copies.sync(key(spec), lambda: True)
    monkeypatch.setattr(object_notes, "FREE_PART", ANY_DISK)
    await copies.discard(key(spec))
    assert list((tmp_path / "objects-kept").iterdir())
    monkeypatch.setattr(object_notes, "FREE_PART", 1)  # all of it would have to be free
    copies.kept.tidy()
    assert not list((tmp_path / "objects-kept").iterdir())


async def test_what_cannot_be_moved_aside_stays_and_is_moved_by_the_next_agent(
    copies, store, bucket, tmp_path, monkeypatch
):
    spec = await filled(copies, mount(store.endpoint, bucket))
    bucket.delete()
    with pytest.raises(RuntimeFailure):
        await copies.sync(key(spec), lambda: True)
    monkeypatch.setattr(object_notes, "FREE_PART", ANY_DISK)
    aside = tmp_path / "objects-kept"
    aside.touch()  # in the way of the folder
    await copies.discard(key(spec))
    (left,) = (tmp_path / "objects").iterdir()
    assert [one.read_text() for one in left.glob("*/mine")] == ["a"]
    aside.unlink()
    await copies.tidy(())
    assert not list((tmp_path / "objects").iterdir())
    assert [one.read_text() for one in aside.glob("*/*/mine")] == ["a"]


async def test_files_that_were_written_back_are_not_kept(copies, store, bucket, tmp_path):
    spec = await filled(copies, mount(store.endpoint, bucket))
    await copies.sync(key(spec), lambda: True)
    await copies.discard(key(spec))
    assert not (tmp_path / "objects-kept").exists()


async def test_what_waits_for_its_turn_does_not_stall(
    store, gate, bucket, other, tmp_path, monkeypatch
):
    monkeypatch.setattr(object_stores, "DOWNLOADS", 1)
    monkeypatch.setattr(object_stores, "QUEUED_S", 0.01)
    copies = ObjectStores(tmp_path / "objects", StoragePolicy())
    gate.is_open.clear()
    first = asyncio.create_task(filled(copies, mount(gate.endpoint, bucket)))
    await until(lambda: list((tmp_path / "objects").glob("*")))
    reports: list[Any] = []
    mounts = (mount(store.endpoint, other),)
    second = asyncio.create_task(copies.fetch(("queued", 1), mounts, reports.append))
    await until(lambda: len(reports) > 5)
    gate.is_open.set()
    await asyncio.gather(first, second)
    copies.close()


async def test_copies_go_when_their_attempt_does(copies, store, bucket, tmp_path):
    """It never had a container, or someone removed that."""
    spec = await filled(copies, mount(store.endpoint, bucket))
    assert list((tmp_path / "objects").iterdir())
    copies.forget(spec.attempt_id)
    await until(lambda: not list((tmp_path / "objects").iterdir()))


async def test_broken_notes_of_a_copy_keep_nothing_from_starting(copies, store, bucket, tmp_path):
    spec = await filled(copies, mount(store.endpoint, bucket))
    labels = {"skep.attempt": spec.attempt_id, "skep.epoch": str(spec.epoch)}
    container = {"Config": {"Labels": labels}}
    assert copies.watched(container).given_mb > 0
    for note in (tmp_path / "objects").glob("*/0.[gj]*"):
        note.write_text("")
    assert copies.watched(container).given_mb == 0
    with pytest.raises(RuntimeFailure, match="not known any more"):
        await copies.sync(key(spec), lambda: True)


async def test_16_name_that_leads_to_the_machines_themselves_is_refused(copies, store, bucket):
    port = urlsplit(store.endpoint).port
    with pytest.raises(RuntimeFailure, match="belongs to the machines"):
        await filled(copies, mount(f"http://0.0.0.0:{port}", bucket))
