"""A whole Skep for a test: `skep up` in a temporary home, on a free port, with its own engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString

import docker
import httpx
import psycopg
from celery import Celery
from tests.support import components
from tests.support.ports import free_port

from skep_client.client import Skep
from skep_client.models import Job
from skep_platform import engine_urls
from skep_platform.onebox.home import Home

READY_WITHIN_S = 600.0  # on a machine that does much else
JOB = """\
protocolVersion: 2
name: {name}
type: job
prerequisites:
  - {{type: dockerimage, name: image, uri: "{image}"}}
taskRoles:
  worker:
    instances: {tasks}
    dockerImage: image
    resourcePerInstance: {{gpu: {gpus}, cpu: 1, memoryMB: 64}}
    commands:
      - {command}
"""


@dataclass(slots=True)
class Stack:
    """`process` is the supervisor; its children are found by name in the status."""

    home: Home
    url: str
    process: subprocess.Popen[bytes]

    @property
    def gateway_url(self) -> str:
        return self.home.read_status()["gateway_url"]

    @property
    def apps_url(self) -> str:
        return json.loads(self.home.environment.read_text())["SKEP_APPS_URL"]

    @property
    def token(self) -> str:
        return self.home.operator_token.read_text()

    def client(self) -> Skep:
        """Patient: parts are killed under it."""
        return Skep(self.url, self.token, retry_delays_s=(0.2,) * 500)

    def api(self) -> httpx.Client:
        """The REST API itself, for what the client hides."""
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=f"{self.url}/api/v1", headers=headers, timeout=60)

    @property
    def database_url(self) -> str:
        return json.loads(self.home.environment.read_text())["SKEP_DATABASE_URL"]

    def query(self, sql: LiteralString) -> list[tuple[Any, ...]]:
        """Ask its own database, as a witness apart from the API."""
        with psycopg.connect(self.database_url) as connection:
            return connection.execute(sql).fetchall()

    def run_tasks(self, *names: str) -> None:
        """Ask its Celery workers for periodic tasks now, as its beat does when they are due."""
        redis = json.loads(self.home.environment.read_text())["SKEP_REDIS_URL"]
        options = engine_urls.broker_options(redis)
        with Celery(broker=engine_urls.broker_url(redis), set_as_current=False) as workers:
            workers.conf.broker_transport_options = options
            for name in names:
                workers.send_task(name, queue="default", retry=False, ignore_result=True)

    def processes(self) -> set[int]:
        """Process ids of all that the supervisor started, children's children included."""
        return descendants(self.process.pid)

    def pids(self) -> dict[str, int]:
        """Process ids of the children that live, by name."""
        children = self.home.read_status().get("children", [])
        return {child["name"]: child["pid"] for child in children if child["pid"]}

    def kill(self, name: str) -> int:
        """SIGKILL one child; the supervisor will start another. Returns the dead one's pid."""
        pid = self.pids()[name]
        os.kill(pid, signal.SIGKILL)
        return pid

    def submit(self, **values: object) -> Job:
        """A job of `tasks` tasks with `gpus` GPUs each that run `command`."""
        defaults = {"image": "unused", "tasks": 1, "gpus": 1}
        with self.client() as skep:
            return skep.submit(JOB.format(**defaults | values))

    def wait_for_end(self, job_id: str, within_s: float = 180.0) -> Job:
        return self.wait_for_job(job_id, lambda job: job.is_finished, within_s)

    def wait_for_job(
        self, job_id: str, condition: Callable[[Job], bool], within_s: float = 180.0
    ) -> Job:
        with self.client() as skep:
            found: list[Job] = []

            def met() -> bool:
                found[:] = [skep.job(job_id)]
                return condition(found[0])

            eventually(met, within_s, lambda: f"the job is {found[0]}")
            return found[0]


@contextmanager
def stack(*options: str, port: int = 0, **environment: str) -> Iterator[Stack]:
    """`options` are those of `skep up`, `port` that of the page. At the end every process is
    gone."""
    with tempfile.TemporaryDirectory(prefix="skep-test-stack-") as folder:
        home = Home(Path(folder) / "home")
        port = port or free_port()
        process = start(home, port, *options, **environment)
        running = Stack(home, f"http://127.0.0.1:{port}", process)
        try:
            yield running
        finally:
            running.process.terminate()  # a test may have started another one
            running.process.wait(timeout=60)
            _purge(home)


def _purge(home: Home) -> None:
    """Remove what its agents rightly left: containers of jobs that were running."""
    credentials = [json.loads(file.read_text()) for file in home.root.rglob("credential.json")]
    if credentials and not components.missing("docker"):
        from tests.support.docker_tasks import purge

        client = docker.from_env()
        for cluster in {credential["cluster"] for credential in credentials}:
            purge(client, cluster)
        client.close()


def start(
    home: Home, port: int, *options: str, within_s: float = READY_WITHIN_S, **environment: str
) -> subprocess.Popen[bytes]:
    """`skep up` in the foreground; returns once all is ready. What does not get ready is stopped
    and fails."""
    home.root.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "skep_platform.onebox", "up"]
    said = home.root.parent / "up.log"
    with said.open("ab") as log:
        before = log.tell()  # of an earlier start in this home
        process = subprocess.Popen(
            [*command, f"--port={port}", *_ports(), *options],
            env=environment_of(home, **environment),
            stdout=log,
            stderr=log,
        )

    def ready() -> bool:
        assert process.poll() is None, said.read_text()
        return b"Skep is ready" in said.read_bytes()[before:]

    try:
        eventually(ready, within_s, said.read_text)
    except BaseException:
        process.terminate()
        process.wait(60)
        raise
    return process


def _ports() -> list[str]:
    return [f"--gateway-port={free_port()}", f"--apps-port={free_port()}"]


def descendants(pid: int) -> set[int]:
    found: set[int] = set()
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, children.read_text().split()):
            found |= {child} | descendants(child)
    return found


def environment_of(home: Home, **more: str) -> dict[str, str]:
    """What a person's shell would have: nothing of this test run's own engines."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("SKEP_")}
    folders = {"SKEP_HOME": str(home.root), "XDG_CONFIG_HOME": str(home.root.parent)}
    registries = {"SKEP_REGISTRIES": "public,127.0.0.1,localhost"}  # of tests, on this machine
    return {**inherited, **folders, **registries, **more}


def eventually(
    condition: Callable[[], bool],
    within_s: float,
    history: Callable[[], str] = lambda: "",
    *,
    every_s: float = 0.05,
) -> None:
    """Wait until `condition()` holds; fails with `history()` when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s; {history()}"
        time.sleep(every_s)
