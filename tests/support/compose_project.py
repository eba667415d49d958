"""Skep as `docker-compose.yml` starts it, with the images of this checkout and a `.env`."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import docker
import httpx
from docker.models.containers import Container
from tests.support.base_images import postgres_image, redis_image
from tests.support.docker_tasks import purge
from tests.support.ports import free_ports
from tests.support.skep_images import skep_images
from tests.support.stack_jobs import until

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / ".venv" / "compose" / "docker-compose"


@dataclass(frozen=True, slots=True)
class ComposeProject:
    client: docker.DockerClient
    program: str
    name: str
    url: str
    files: tuple[str, ...]
    env: Path

    def run(self, *words: str, **variables: str) -> str:
        """Run Compose as an operator does, and return what it prints. Variables of the shell hold
        before those of `.env`."""
        done = subprocess.run(
            [*self._command(), *words],
            env={"PATH": os.environ["PATH"], **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def script(self, text: str, **variables: str) -> str:
        """Run shell commands that call `docker compose`, as the documentation has them, and return
        what they print. The first that fails ends them."""
        function = f'docker() {{ shift; {shlex.join(self._command())} "$@"; }}'
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f"{function}\n{text}"],
            env={"PATH": os.environ["PATH"], **variables},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{text}: {done.stdout}{done.stderr}\n{self.logs()}"
        return done.stdout

    def containers(self) -> dict[str, Container]:
        """By service; the image that `run` makes of one is left out."""
        found = self.client.containers.list(all=True, filters=self._own(), ignore_removed=True)
        return {c.labels["com.docker.compose.service"]: c for c in found}

    def wait_until_healthy(self, *services: str, within_s: float = 120) -> None:
        """Those with a health check are healthy, the others run."""

        def healthy() -> bool:
            found = self.containers()
            states = {name: _health(found[name]) for name in services}
            assert not set(states.values()) & {"unhealthy", "exited"}, f"{states}\n{self.logs()}"
            return all(state in ("healthy", "running") for state in states.values())

        until(healthy, within_s)

    def leftovers(self) -> list[str]:
        """Names of all that the engine still has of the project."""
        return [
            *(container.name for container in self.containers().values()),
            *(volume.name for volume in self.client.volumes.list(filters=self._own())),
            *(network.name for network in self.client.networks.list(filters=self._own())),
        ]

    def logs(self) -> str:
        return "\n".join(
            f"--- {name}\n{container.logs(tail=30).decode(errors='replace')}"
            for name, container in self.containers().items()
        )

    def _command(self) -> list[str]:
        command = [self.program, "--project-name", self.name, "--env-file", str(self.env)]
        return [*command, "--project-directory", str(ROOT), *(f"--file={at}" for at in self.files)]

    def _own(self) -> dict[str, str | list[str] | bool]:
        return {"label": f"com.docker.compose.project={self.name}"}


def _health(container: Container) -> str:
    state = container.attrs["State"]
    return str(state.get("Health", state)["Status"])


@contextmanager
def compose_project(
    client: docker.DockerClient, folder: Path, program: str
) -> Iterator[ComposeProject]:
    """Nothing runs yet; at the end nothing of it is left, whatever happened."""
    images = skep_images(client)
    web, gateway, apps = free_ports(3)
    name = f"skep-test-{uuid.uuid4().hex[:8]}"
    settings = {
        "SKEP_IMAGE": images.server,
        "SKEP_AGENT_IMAGE": images.agent,
        "SKEP_POSTGRES_IMAGE": postgres_image(client),
        "SKEP_REDIS_IMAGE": redis_image(client),
        "SKEP_SECRET_KEY": uuid.uuid4().hex * 2,
        "POSTGRES_PASSWORD": uuid.uuid4().hex,
        "REDIS_PASSWORD": uuid.uuid4().hex,
        "SKEP_PUBLIC_URL": f"http://127.0.0.1:{web}",
        "SKEP_ALLOW_HTTP": "1",
        "SKEP_LISTEN": f"127.0.0.1:{web}",
        "SKEP_GATEWAY_LISTEN": f"127.0.0.1:{gateway}",
        "SKEP_APPS_LISTEN": f"127.0.0.1:{apps}",
        "SKEP_NODE_NAME": name,
    }
    env = folder / ".env"
    env.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    override = folder / "simulated.yml"
    agent = {"command": ["--gpus", "2", "--gpu-model", "Simulated-GPU"]}
    override.write_text(json.dumps({"services": {"agent": agent}}))
    files = ("docker-compose.yml", str(override))
    project = ComposeProject(client, program, name, settings["SKEP_PUBLIC_URL"], files, env)
    clusters: set[str] = set()
    try:
        yield project
        clusters |= _clusters(project)
        project.run("--profile", "agent", "down", "--volumes", "--timeout", "20")
    finally:
        clusters |= _clusters(project)
        for container in project.containers().values():
            container.remove(force=True, v=True)
        for kind in (client.volumes, client.networks):
            for left in kind.list(filters=project._own()):
                left.remove()
        for cluster in clusters:
            purge(client, cluster)


def _clusters(project: ComposeProject) -> set[str]:
    """Return the id by which the agent's containers, networks and firewall rules are known."""
    agent = project.containers().get("agent")
    if agent is None:
        return set()
    status, content = agent.exec_run(["cat", "/var/lib/skep-agent/credential.json"])
    return {json.loads(content)["cluster"]} if status == 0 else set()


def api(url: str, username: str, password: str) -> httpx.Client:
    """The REST API for who has this password, by a token as a command line takes it."""
    login = {"username": username, "password": password}
    answer = httpx.post(f"{url}/api/v1/auth/token", json=login, timeout=60)
    assert answer.status_code == 201, answer.text
    headers = {"Authorization": f"Bearer {answer.json()['token']}"}
    return httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=60)
