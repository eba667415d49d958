"""The fake driver library, compiled once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import components
from tests.support.nvml_machine import Machine, compile_fake


@pytest.fixture(scope="session")
def fake_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without gcc: a failure in CI, else a skip."""
    if shutil.which("gcc") is None:
        (pytest.fail if components.must_be_complete() else pytest.skip)("no gcc here")
    return compile_fake(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def _one_machine(fake_library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    machine = Machine(tmp_path_factory.mktemp("machine"), fake_library)
    yield machine
    machine.close()


@pytest.fixture
def machine(_one_machine: Machine) -> Machine:
    """With a driver, and without GPUs until some are added."""
    _one_machine.reset()
    return _one_machine


@pytest.fixture
def machine_without_driver(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, None)
    yield machine
    machine.close()
