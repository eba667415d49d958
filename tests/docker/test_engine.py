"""The client of the engine: versions, hosts, a broken and a hanging engine."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.docker_proxy import Proxy, tcp_proxy, unix_proxy
from tests.support.docker_tasks import make_spec, run, start

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.runtimes.base import Command
from skep_agent.runtimes.docker import DockerRuntime
from skep_agent.runtimes.docker_engine import Engine, EngineError, engine_host

pytestmark = pytest.mark.docker


async def failure_of(engine: Engine) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as failed:
        await engine.call(lambda api: api.info())
    return failed.value


async def test_both_sides_speak_the_engines_own_version(docker_engine):
    engine = Engine()
    theirs = docker_engine.version()
    version = await engine.version()
    assert version.version == theirs["Version"]
    assert version.api == min(theirs["ApiVersion"], "1.44")
    assert version.runc
    await engine.close()


async def test_a_refusal_has_the_engines_status_and_words(docker_engine):
    engine = Engine()
    with pytest.raises(EngineError) as refused:
        await engine.call(lambda api: api.inspect_container("skep-no-such-container"))
    assert refused.value.status == 404
    assert refused.value.message == "No such container: skep-no-such-container"
    await engine.close()


async def test_no_one_at_the_socket_is_an_engine_that_is_down(tmp_path):
    engine = Engine(str(tmp_path / "docker.sock"))
    assert (await failure_of(engine)).code == "engine_down"
    with pytest.raises(RuntimeFailure) as failed:
        await engine.stats("any")
    assert failed.value.code == "engine_down"
    await engine.close()


async def test_a_question_whose_connection_breaks_is_asked_once_more(docker_engine):
    proxy = Proxy()
    async with unix_proxy(proxy) as path:
        engine = Engine(path)
        await engine.version()
        proxy.breaks = 1
        assert (await engine.call(lambda api: api.info()))["ID"]
        proxy.breaks = 100
        assert (await failure_of(engine)).code == "engine_down"
        proxy.breaks = 0
        assert (await engine.call(lambda api: api.info()))["ID"]
        await engine.close()


async def test_an_engine_that_hangs_is_down_and_takes_no_thread_for_ever(docker_engine):
    """Four times as many questions as threads: those that never got one fail, too."""
    proxy = Proxy()
    proxy.hangs = True
    async with unix_proxy(proxy) as path:
        engine = Engine(path, threads=2, timeout_s=0.5)
        failures = await asyncio.gather(*(failure_of(engine) for _ in range(8)))
        assert {failure.code for failure in failures} == {"engine_down"}
        proxy.hangs = False
        async with asyncio.timeout(60):
            while True:  # the threads' own time is over soon
                try:
                    assert (await engine.call(lambda api: api.info()))["ID"]
                    break
                except RuntimeFailure:
                    continue
        await engine.close()


async def test_questions_that_no_one_waits_for_any_more_keep_their_thread_until_answered(
    docker_engine,
):
    proxy = Proxy()
    async with unix_proxy(proxy) as path:
        engine = Engine(path, threads=1, timeout_s=5.0)
        await engine.version()
        proxy.hangs = True
        asked = asyncio.create_task(engine.call(lambda api: api.info()))
        async with asyncio.timeout(60):
            while ("GET", "/info") not in proxy.requests:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        proxy.hangs = False
        # Behind it, not beside it: one thread is one connection. Who waits may give up just before
        # the other one does.
        async with asyncio.timeout(60):
            while True:
                try:
                    assert (await engine.call(lambda api: api.info()))["ID"]
                    break
                except RuntimeFailure:
                    continue
        await engine.close()


async def test_an_engine_over_tcp_does_all_that_one_at_a_socket_does(cluster, busybox):
    async with tcp_proxy(Proxy()) as url:
        runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), url)
        assert (await run(runtime, make_spec(busybox, "echo far; exit 4"))).stdout == "far\n"
        container_id = await start(runtime, make_spec(busybox, "sleep 1000"))
        process = await runtime.exec(container_id, Command(("echo", "beside")))
        assert [data async for _, data in process.output()] == [b"beside\n"]
        await process.close()
        await runtime.stop(container_id, 0)
        assert (await runtime.wait(container_id)).exit_code in (137, 143)
        await runtime.close()


async def test_a_start_asks_the_engine_no_more_than_four_questions(cluster, busybox):
    """What `docker run` asks: each question more is 2 ms, and several on a busy node."""
    proxy = Proxy()
    async with unix_proxy(proxy) as path:
        runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True), path)
        await run(runtime, make_spec(busybox, "true"))  # it makes the bridge for lonely tasks
        proxy.requests.clear()
        spec = make_spec(busybox, "true")
        await runtime.pull(spec.image, lambda _: None)
        container_id = await runtime.create(spec)
        await runtime.start(container_id)
        assert proxy.requests == [
            ("GET", f"/images/{busybox}/json"),
            ("POST", "/containers/create"),
            ("GET", f"/containers/{container_id}/json"),  # a second start would run it again
            ("POST", f"/containers/{container_id}/start"),
        ]
        await runtime.close()


async def test_an_image_that_was_removed_after_the_look_at_it_is_not_found(
    cluster, made_image, docker_engine
):
    name = made_image()
    runtime = DockerRuntime(NodeFacts(cluster, "node-1", simulated_gpus=True))
    spec = make_spec(name, "true")
    await runtime.pull(spec.image, lambda _: None)
    docker_engine.images.remove(name, force=True)
    with pytest.raises(RuntimeFailure) as failed:
        await runtime.create(spec)
    assert failed.value.code == "image_not_found"
    await runtime.close()


async def test_the_host_is_taken_from_the_environment(monkeypatch):
    for name in ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    assert engine_host().socket_path == "/var/run/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/user/1000/docker.sock")
    assert engine_host().socket_path == "/run/user/1000/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", "tcp://10.0.0.5:2376")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", "/certs")
    assert engine_host().base_url == "https://10.0.0.5:2376"
    assert engine_host().certificates == "/certs"
    assert engine_host("/other.sock").url == "unix:///other.sock"
