"""A whole Skep with a real engine for the pages, and a visitor who drives Chromium."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import httpx
import pytest
from tests.support import components
from tests.support.docker_images import import_busybox
from tests.support.stack import Stack, stack

HERE = Path(__file__).parent
SHOTS = HERE.parents[1] / "test-results" / "browser"
VISITOR = {"username": "mei", "password": "many-busy-bees", "is_admin": True}


@pytest.fixture(scope="session")
def skep() -> Iterator[Stack]:
    with stack("--nodes", "2", "--gpus", "8", SKEP_HEARTBEAT_S="1") as running:
        headers = {"Authorization": f"Bearer {running.token}"}
        with httpx.Client(base_url=f"{running.url}/api/v1", headers=headers) as api:
            api.post("/users", json=VISITOR).raise_for_status()
            member = {"role": "member"}
            api.put("/virtual-clusters/default/members/mei", json=member).raise_for_status()
        yield running


@pytest.fixture(scope="session")
def visit(skep: Stack) -> Callable[..., None]:
    """Runs a scenario of `scenarios/`; what it says when it fails is the test's failure."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    environment = {
        "SKEP_URL": skep.url,
        "SKEP_USER": VISITOR["username"],
        "SKEP_PASSWORD": VISITOR["password"],
        "SKEP_IMAGE": import_busybox(docker.from_env(), "skep-test/browser:1"),
        "SKEP_SHOTS": str(SHOTS),
        "CHROMIUM": components.chromium(),
    }

    def run(scenario: str, **more: str) -> None:
        done = subprocess.run(
            ["node", str(HERE / "run.mjs"), scenario],
            env={**os.environ, **environment, **more},
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, f"{scenario}: {done.stdout}{done.stderr}; see {SHOTS}"

    return run
