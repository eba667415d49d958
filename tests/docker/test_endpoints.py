"""The list of what the agent asks of the engine, as the allow list of a proxy before its socket."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from tests.support.docker_proxy import Proxy, unix_proxy
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import FileSpec, ImageSpec
from skep_agent.runtimes.base import Command
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_endpoints import ENDPOINTS, is_allowed

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.docker
async def test_all_that_tasks_need_is_on_the_list(cluster, busybox, made_image):
    proxy = Proxy(is_allowed)
    async with unix_proxy(proxy) as path:
        runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), path)
        nowhere = ImageSpec(reference="127.0.0.1:1/x:1", username="a", password="b")
        with pytest.raises(RuntimeFailure):  # but the request was made
            await runtime.pull(nowhere, lambda _: None)
        file = FileSpec(path="/run/skep/hosts", content="a")
        image = made_image("USER bee")
        spec = make_spec(image, "cat /run/skep/hosts", files=[file], work_dir="/home/bee/work")
        assert (await run(runtime, spec)).stdout == "a"
        spec = make_spec(busybox, "sleep 1000", network="job", hostname="worker-0", disk_mb=100)
        container_id = await start(runtime, spec)
        waiting = asyncio.create_task(runtime.wait(container_id))
        process = await runtime.exec(container_id, Command(("true",), tty=True))
        assert [data async for _, data in process.output()] == []
        assert await process.exit_code() == 0
        await process.close()
        shell = await runtime.exec(container_id, Command())
        await shell.close()
        await runtime.sample({spec.attempt_id: container_id})
        await runtime.signal(container_id, "SIGUSR1")
        await runtime.stop(container_id, 0)
        await asyncio.wait_for(waiting, 60)
        assert len(await runtime.list()) == 2
        await runtime.remove(container_id)
        await runtime.close()
    assert proxy.refused == []
    # What only a registry that answers, or an engine without a mount, makes it ask for.
    rest = {("POST", "/images/{path}/tag"), ("DELETE", "/images/skep.local/private:{}")}
    rest |= {("GET", "/distribution/{path}/json")}
    # Of saves as images: see test_save_image.py.
    rest |= {("POST", "/images/load"), ("POST", "/images/{path}/push")}
    rest |= {("DELETE", "/images/sha256:{}"), ("GET", "/containers/{}/changes")}
    rest |= {("GET", "/containers/{}/export")}
    used = {(m, form) for m, form, _ in ENDPOINTS if any(_is(m, form, r) for r in proxy.requests)}
    assert {(m, form) for m, form, _ in ENDPOINTS} - used == rest


def _is(method: str, form: str, request: tuple[str, str]) -> bool:
    pattern = re.escape(form).replace(r"\{\}", "[^/]+").replace(r"\{path\}", ".+")
    return request[0] == method and re.fullmatch(pattern, request[1]) is not None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/build"),
        ("POST", "/containers/abc/update"),
        ("POST", "/containers/abc/exec/start"),
        ("POST", "/volumes/create"),
        ("POST", "/plugins/pull"),
        ("DELETE", "/images/busybox"),
        ("DELETE", "/containers/abc/export"),
        ("POST", "/swarm/init"),
    ],
)
def test_what_the_agent_has_no_use_for_is_not(method, path):
    assert not is_allowed(method, path)


def test_the_documents_have_the_same_list():
    text = (DOCS / "security.md").read_text()
    for method, path, _ in ENDPOINTS:
        assert f"{method:<6} {path}\n" in text
