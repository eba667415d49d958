"""One whole Skep for all tests of this folder: two nodes of eight simulated GPUs, a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import httpx
import pytest
from tests.support.docker_images import import_busybox, python_files
from tests.support.stack import Stack, stack


@pytest.fixture(scope="session")
def image() -> str:
    return import_busybox(docker.from_env(), "skep-test/stack:1")


@pytest.fixture(scope="session")
def python_image() -> str:
    return import_busybox(docker.from_env(), "skep-test/python:1", files=python_files())


@pytest.fixture(scope="session")
def storage_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of which the agents may mount folders into jobs, and the server shows files."""
    return tmp_path_factory.mktemp("storages")


@pytest.fixture(scope="session")
def skep(storage_root: Path) -> Iterator[Stack]:
    """Leases short enough to see a node lost, long enough for a web server to come back; victims
    need not have run for a while first."""
    timing = {"SKEP_LEASE_S": "25", "SKEP_HEARTBEAT_S": "1", "SKEP_SCHEDULING_MIN_RUN_S": "0"}
    timing |= dict.fromkeys(("SKEP_STORAGE_ROOTS", "SKEP_STORAGE_FILES"), str(storage_root))
    with stack("--nodes", "2", "--gpus", "8", **timing) as started:
        yield started


@pytest.fixture
def api(skep: Stack) -> Iterator[httpx.Client]:
    with skep.api() as client:
        yield client
