"""A registry that the server may ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support import docker_registry
from tests.support.docker_registry import OTHER, OTHER_PASSWORD, PASSWORD, USER, Registry

from skep_platform.images import existence


@pytest.fixture(scope="session")
def running_registry(tmp_path_factory) -> Iterator[Registry]:
    with docker_registry.registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def registry(running_registry, settings) -> Iterator[Registry]:
    """Loopback is allowed, and both accounts are let in."""
    settings.SKEP_CHECK_IMAGES = "on"
    settings.SKEP_REGISTRIES = "127.0.0.0/8"
    existence.forget()
    running_registry.let_in(**{USER: PASSWORD, OTHER: OTHER_PASSWORD})
    yield running_registry
    existence.forget()
