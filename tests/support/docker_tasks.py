"""Attempts to run on a real engine, and the few steps that most tests share."""

from __future__ import annotations

import socket
import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import docker

from skep_agent.containers import Exit
from skep_agent.network import names, vxlan
from skep_agent.protocol import AttemptSpec, ImageSpec
from skep_agent.runtimes.docker import DockerRuntime


def make_spec(image: str, command: str, **fields: Any) -> AttemptSpec:
    """A small attempt with an id of its own; `fields` replace the defaults."""
    defaults: dict[str, Any] = {
        "attempt_id": str(uuid.uuid4()),
        "epoch": 1,
        "job_id": str(uuid.uuid4()),
        "job_name": "test",
        "task_role": "worker",
        "task_index": 0,
        "image": ImageSpec(reference=image, pull="never"),
        "command": command,
        "cpus": 0.5,
        "memory_mb": 64,
        "shm_mb": 8,
        "pids_limit": 64,
        "stop_grace_s": 5.0,
    }
    return AttemptSpec(**(defaults | fields))


@dataclass(frozen=True, slots=True)
class Ended:
    exit: Exit
    stdout: str
    stderr: str


async def start(runtime: DockerRuntime, spec: AttemptSpec) -> str:
    container_id = await runtime.create(spec)
    await runtime.start(container_id)
    return container_id


async def run(runtime: DockerRuntime, spec: AttemptSpec) -> Ended:
    """From create to the last byte of output."""
    container_id = await start(runtime, spec)
    output = {"stdout": bytearray(), "stderr": bytearray()}
    async for stream, data, _ in runtime.logs(container_id):
        output[stream] += data
    exit = await runtime.wait(container_id)
    return Ended(exit, output["stdout"].decode(), output["stderr"].decode())


def purge(client: docker.DockerClient, cluster: str) -> None:
    """Remove what a test's nodes left behind."""
    label: dict[str, str | list[str] | bool] = {"label": f"skep.cluster={cluster}"}
    for container in client.containers.list(all=True, filters=label, ignore_removed=True):
        with suppress(docker.errors.NotFound):  # by a removal of the test's own
            _when_free(partial(container.remove, force=True, v=True))
    for network in client.networks.list(filters=label):
        try:
            _when_free(network.remove)
        except docker.errors.NotFound:
            pass
        except docker.errors.APIError:
            network.reload()
            if network.containers:
                raise
            # Engines lose endpoints of containers that end while many others do, and keep the
            # network until they restart (moby issue 42119).
    for _, name in socket.if_nameindex():
        if name.startswith(f"{names.prefix(cluster)}v"):
            vxlan.remove(name)
    # It may never have been written.
    subprocess.run(["nft", "delete", "table", "inet", names.table(cluster)], capture_output=True)


def _when_free(remove: Callable[[], object]) -> None:
    """Remove a container or a network. The engine refuses while another removal of the container
    is under way (409), and that of its network until the container has left it (403)."""
    deadline = time.monotonic() + 20
    while True:
        try:
            remove()
            return
        except docker.errors.APIError as error:
            if error.status_code not in (403, 409) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)
