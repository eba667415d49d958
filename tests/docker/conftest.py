"""A real engine, seen through the Docker SDK as a witness apart from the code under test."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress

import docker
import pytest
from tests.support import components
from tests.support.docker_images import BUSYBOX, import_busybox
from tests.support.docker_tasks import purge

from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes.docker import DockerRuntime


@pytest.fixture(scope="session")
def docker_engine() -> Iterator[docker.DockerClient]:
    """The machine's engine. Without one: a failure in CI, else a skip."""
    if reason := components.missing("docker"):
        (pytest.fail if components.must_be_complete() else pytest.skip)(reason)
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def busybox(docker_engine: docker.DockerClient) -> str:
    digest = hashlib.sha256(BUSYBOX.read_bytes()).hexdigest()[:12]
    name = f"skep-test/busybox:{digest}"
    if not docker_engine.images.list(name=name):
        import_busybox(docker_engine, name)
    return name


@pytest.fixture
def made_image(docker_engine: docker.DockerClient) -> Iterator[Callable[..., str]]:
    """Make an image with Dockerfile lines of its own; removed after the test."""
    made: list[str] = []

    def make(*changes: str) -> str:
        name = f"skep-test/made:{uuid.uuid4().hex[:12]}"
        made.append(import_busybox(docker_engine, name, changes))
        return name

    yield make
    for name in made:
        with suppress(docker.errors.ImageNotFound):  # a test may have removed it
            docker_engine.images.remove(name, force=True)


@pytest.fixture
def cluster(docker_engine: docker.DockerClient) -> Iterator[str]:
    """A cluster name of the test's own; its containers and networks go with it."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    yield name
    purge(docker_engine, name)


@pytest.fixture
async def runtime(cluster: str) -> AsyncIterator[DockerRuntime]:
    """A node with simulated GPUs on the machine's engine."""
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    yield runtime
    await runtime.close()
