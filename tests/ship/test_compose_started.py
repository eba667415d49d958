"""Docker Compose, started: from the secrets in `.env` to the log of a job."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from tests.support.compose_project import PLUGIN, ComposeProject, api, compose_project
from tests.support.docker_images import import_busybox
from tests.support.stack_jobs import gang, log_lines, node_states, reach, submit, until

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
SERVERS = ("web", "gateway", "apps", "scheduler", "worker", "beat")


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env(timeout=600)
    yield client
    client.close()


@pytest.fixture(params=["docker-compose", str(PLUGIN)], ids=["1.29", "plugin"])
def project(
    client: docker.DockerClient, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[ComposeProject]:
    """By Compose as Debian 12 has it, and as Docker's plugin."""
    assert shutil.which(request.param), "run scripts/bootstrap-long, as make test-long does"
    with compose_project(client, tmp_path, request.param) as project:
        yield project
    assert project.leftovers() == []


@pytest.fixture
def image(client: docker.DockerClient) -> Iterator[str]:
    name = import_busybox(client, "skep-test/compose-job:1")
    yield name
    client.images.remove(name, force=True)


def test_a_job_succeeds_on_what_compose_starts_and_after_a_restore(project, image, tmp_path):
    project.run("up", "--detach", "--no-build")
    project.wait_until_healthy("postgres", "redis", *SERVERS)
    assert project.containers()["migrate"].attrs["State"]["ExitCode"] == 0

    admin = project.run(
        *("exec", "-T", "web", "django-admin", "skep_ensure_admin", "--username", "admin")
    )
    with api(project.url, **json.loads(admin)) as admin_api:
        token = admin_api.post("/nodes/join-tokens", json={}).raise_for_status().json()["token"]
        project.run(
            *("--profile", "agent", "up", "--detach", "--no-build", "agent"), SKEP_JOIN_TOKEN=token
        )
        _wait_until_online(project, admin_api)
        _own_all_gpus(admin_api)

        hello = gang(image, "echo rank $RANK of $WORLD_SIZE", tasks=2, gpus=1)
        job_id = submit(admin_api, hello)
        reach(admin_api, job_id, {"SUCCEEDED"})
        assert log_lines(admin_api, job_id) == {0: ["rank 0 of 2"], 1: ["rank 1 of 2"]}

        project.run("restart", "web")
        project.wait_until_healthy("web")
        project.run("restart", "gateway")
        project.wait_until_healthy("gateway")
        _wait_until_online(project, admin_api)
        again = submit(admin_api, gang(image, "echo again", tasks=1, gpus=2))
        reach(admin_api, again, {"SUCCEEDED"})
        assert log_lines(admin_api, again) == {0: ["again"]}

        # The commands of docs/backup.md: what comes after the backup is gone, the rest is back.
        back_up, restore = _documented_commands(tmp_path)
        skep = {"SKEP_SERVER": project.url, "SKEP_TOKEN": _token(admin_api), "HOME": str(tmp_path)}
        assert "Recorded: " in project.script(back_up, **skep)
        lost = submit(admin_api, gang(image, "echo lost", tasks=1, gpus=0))
        reach(admin_api, lost, {"SUCCEEDED"})
        project.script(restore)
        project.wait_until_healthy(*SERVERS)
        _wait_until_online(project, admin_api)
        assert admin_api.get(f"/jobs/{lost}").status_code == 404
        assert log_lines(admin_api, job_id) == {0: ["rank 0 of 2"], 1: ["rank 1 of 2"]}
        last = submit(admin_api, gang(image, "echo last", tasks=1, gpus=2))
        reach(admin_api, last, {"SUCCEEDED"})

    for name, container in project.containers().items():
        written = [] if name in ("postgres", "redis", "agent") else container.diff() or []
        mounts = {mount["Destination"] for mount in container.attrs["Mounts"]}
        added = {change["Path"] for change in written if change["Kind"] == 1}
        assert added <= mounts, name


def _documented_commands(folder: Path) -> tuple[str, str]:
    """Return the commands that back up and those that restore, for folders of this test."""
    section = (ROOT / "docs/backup.md").read_text().partition("### With Compose")[2]
    found = re.findall(r"```\n(.*?)```", section, re.DOTALL)[:2]
    back_up, restore = (
        text.replace("/mnt/backups", str(folder)).replace("/path/to/skep", str(ROOT))
        for text in found
    )
    return back_up, restore


def _token(admin_api) -> str:
    return admin_api.headers["Authorization"].partition(" ")[2]


def _wait_until_online(project: ComposeProject, admin_api) -> None:
    def online() -> bool:
        project.wait_until_healthy("agent")
        return node_states(admin_api) == [(project.name, "ONLINE")]

    until(online)


def _own_all_gpus(admin_api) -> None:
    answers = (
        admin_api.post("/virtual-clusters", json={"name": "default"}),
        admin_api.put("/virtual-clusters/default/members/admin", json={"role": "admin"}),
        admin_api.put("/virtual-clusters/default/quotas", json={"quotas": {"Simulated-GPU": 2}}),
    )
    for answer in answers:
        answer.raise_for_status()
