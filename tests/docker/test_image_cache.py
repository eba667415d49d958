"""Images are removed when the disk fills up: only the agent's own, and none that is used."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack

import docker
import pytest
from tests.support import docker_registry
from tests.support.docker_images import import_busybox, random_bytes
from tests.support.docker_tasks import make_spec

from skep_agent.config import Watermarks
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import ImageSpec
from skep_agent.runtimes import image_cache
from skep_agent.runtimes.docker import DockerRuntime

pytestmark = pytest.mark.docker
FULL = (10, 100)  # free and total MiB


@pytest.fixture
def pushed(tmp_path, docker_engine) -> Iterator[Callable[[], str]]:
    """Push an image to an open registry, and remove it from the node; returns its reference."""
    names: list[str] = []
    with ExitStack() as stack:
        registry = stack.enter_context(docker_registry.registry(tmp_path, is_open=True))

        def push() -> str:
            repository = f"{registry.address}/cache/image-{uuid.uuid4().hex[:8]}"
            files = {"blob": random_bytes(100)}
            name = import_busybox(docker_engine, f"{repository}:1", files=files)
            assert "errorDetail" not in docker_engine.api.push(repository, tag="1")
            docker_engine.images.remove(name)
            names.append(name)
            return name

        yield push
        for name in names:
            for image in docker_engine.images.list(name=name.rsplit(":", 1)[0]):
                docker_engine.images.remove(image.id, force=True)


def node(cluster: str) -> NodeFacts:
    return NodeFacts(cluster, "node-1", simulated_gpus=True)


@pytest.fixture
async def caching(cluster, tmp_path, monkeypatch) -> AsyncIterator[DockerRuntime]:
    """A node whose disk is 90 % full whatever is removed, and that forgets at once who asked."""
    monkeypatch.setattr(image_cache, "RECENT_S", 0.0)
    monkeypatch.setattr(DockerRuntime, "disk_mb", lambda self: FULL)
    runtime = DockerRuntime(node(cluster), state=tmp_path, watermarks=Watermarks(85, 80))
    yield runtime
    await runtime.close()


async def pull(runtime: DockerRuntime, *names: str) -> None:
    for name in names:
        await runtime.pull(ImageSpec(reference=name), lambda _: None)


def present(docker_engine: docker.DockerClient, name: str) -> bool:
    return bool(docker_engine.images.list(name=name))


async def test_what_no_container_uses_is_removed_and_what_one_uses_stays(
    caching, pushed, docker_engine
):
    unused, used = pushed(), pushed()
    await pull(caching, unused, used)
    await caching.create(make_spec(used, "true"))  # never started: a container all the same
    await caching.clean_images()
    assert not present(docker_engine, unused)
    assert present(docker_engine, used)
    await pull(caching, unused)
    assert present(docker_engine, unused)


async def test_what_the_machine_had_before_and_what_its_owner_tagged_stays(
    caching, pushed, docker_engine
):
    before, tagged, loaded = pushed(), pushed(), pushed()
    docker_engine.api.pull(before.removesuffix(":1"), "1")
    import_busybox(docker_engine, loaded)
    await pull(caching, before, tagged, loaded)
    await caching.pull(ImageSpec(reference=before, pull="always"), lambda _: None)
    docker_engine.images.get(tagged).tag(tagged.removesuffix(":1"), "owners")
    await caching.clean_images()
    assert all(present(docker_engine, name) for name in (before, tagged, loaded))


async def test_the_least_recently_used_goes_first_and_no_more_than_needed(
    caching, pushed, docker_engine, monkeypatch
):
    first, second, third = pushed(), pushed(), pushed()
    await pull(caching, first, second, third, first)
    gone = [second, third]
    monkeypatch.setattr(
        DockerRuntime,
        "disk_mb",
        lambda self: FULL if present(docker_engine, gone[0]) else (30, 100),
    )
    await caching.clean_images()
    assert not present(docker_engine, second)
    assert present(docker_engine, third)
    assert present(docker_engine, first)


async def test_a_task_that_is_about_to_start_finds_its_image(
    caching, pushed, docker_engine, monkeypatch
):
    monkeypatch.setattr(image_cache, "RECENT_S", 600.0)
    name = pushed()
    await pull(caching, name)
    await caching.clean_images()
    assert present(docker_engine, name)
    await caching.create(make_spec(name, "true"))


async def test_below_the_watermark_nothing_is_removed_and_the_next_agent_knows_what_is_its_own(
    caching, cluster, pushed, docker_engine, tmp_path, monkeypatch
):
    name = pushed()
    await pull(caching, name)
    monkeypatch.setattr(DockerRuntime, "disk_mb", lambda self: (20, 100))
    await caching.clean_images()
    assert present(docker_engine, name)
    monkeypatch.setattr(DockerRuntime, "disk_mb", lambda self: FULL)
    stranger = DockerRuntime(node(cluster), watermarks=Watermarks(85, 80))
    await stranger.clean_images()
    await stranger.close()
    assert present(docker_engine, name)
    successor = DockerRuntime(node(cluster), state=tmp_path, watermarks=Watermarks(85, 80))
    await successor.clean_images()
    await successor.close()
    assert not present(docker_engine, name)


@pytest.mark.parametrize(("high", "low", "good"), [(85, 80, True), (0, 80, True), (80, 85, False)])
def test_watermarks_have_an_order(high, low, good):
    assert (Watermarks(high, low).problem == "") == good
