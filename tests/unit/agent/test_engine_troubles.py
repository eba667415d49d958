"""What the agent asks of an engine that does not behave: one that this test plays, over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from skep_agent.config import Watermarks
from skep_agent.containers import RuntimeFailure
from skep_agent.network import firewall
from skep_agent.network.firewall import Firewall
from skep_agent.protocol import ImageSpec
from skep_agent.runtimes import docker_disk, docker_exec
from skep_agent.runtimes.docker_disk import DiskWatch, Watched
from skep_agent.runtimes.docker_engine import Engine
from skep_agent.runtimes.docker_exits import ExitWatcher
from skep_agent.runtimes.docker_images import Images
from skep_agent.runtimes.image_cache import ImageCache

IMAGE = f"sha256:{7:064x}"
Answer = tuple[int, bytes]


class Daemon(ThreadingHTTPServer):
    """Answers as `answer` says for the end of a path; and by its version."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer: Callable[[str], Answer] = lambda _: (404, b'{"message": "not there"}')

    @property
    def url(self) -> str:
        return f"tcp://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Daemon
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        version = {"Version": "27.0.0", "ApiVersion": "1.44", "Components": []}
        status, body = 200, json.dumps(version).encode()
        if not path.endswith("/version"):
            status, body = self.server.answer(path)
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with Daemon() as daemon:
        thread = Thread(target=daemon.serve_forever, args=(0.02,))
        thread.start()
        yield daemon
        daemon.shutdown()
        thread.join()


async def test_an_image_that_is_forgotten_while_images_are_removed_ends_nothing(
    daemon: Daemon, tmp_path: Path
) -> None:
    """As one that a save made, which removes it itself."""
    engine = Engine(daemon.url)
    cache = ImageCache(engine, tmp_path / "images.json", Watermarks(85, 80))
    cache.add(IMAGE, "saved:1")

    def gone(path: str) -> Answer:
        cache.forget(IMAGE)
        return 404, b'{"message": "No such image"}'

    daemon.answer = gone
    assert await cache.clean(lambda: (1, 100), lambda _: False) == []
    await engine.close()


async def test_a_private_pull_that_could_not_be_noted_holds_up_no_other_pull(
    daemon: Daemon, tmp_path: Path
) -> None:
    engine, folder = Engine(daemon.url), tmp_path / "agent"
    images = Images(engine, folder / "private-pulls.json")
    private = ImageSpec(reference="private:1", username="ann", password="x")
    missing = (404, b'{"message": "not there"}')
    daemon.answer = lambda path: missing if path.endswith("private:1/json") else (200, b"[]")
    with pytest.raises(RuntimeFailure, match="cannot note"):
        await images.pull(private, lambda _: None)
    folder.mkdir()  # the disk takes files again
    here = {"Id": IMAGE, "RepoTags": ["public:1"], "Config": {}}
    daemon.answer = lambda _: (200, json.dumps(here).encode())
    try:
        async with asyncio.timeout(30):
            await images.pull(ImageSpec(reference="public:1"), lambda _: None)
            assert (await images.facts(ImageSpec(reference="public:1"))).image_id == IMAGE
    finally:
        await engine.close()


@pytest.mark.parametrize("answer", [(502, b"{}"), (500, b"[]"), (400, b"null")])
async def test_an_error_without_a_message_is_one_of_the_engine(
    daemon: Daemon, answer: Answer
) -> None:
    daemon.answer = lambda _: answer
    engine = Engine(daemon.url)
    with pytest.raises(RuntimeFailure) as failure:
        await engine.call(lambda api: api.inspect_container("a"))
    await engine.close()
    assert failure.value.code == "engine_down"


async def test_an_engine_that_restarts_while_its_version_is_asked_is_asked_again(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, lives = Engine(daemon.url), []
    connected = engine._connected

    def restarted() -> object:
        lives.append(api := connected())
        if len(lives) == 1:
            engine._disconnect()  # as another call does that saw the end of the engine
        return api

    monkeypatch.setattr(engine, "_connected", restarted)
    assert (await engine.version()).version == "27.0.0"
    await engine.close()


async def test_ends_are_seen_after_an_event_that_was_cut_off(daemon: Daemon) -> None:
    events = [b'{"id": "c1", "sta', b'{"id": "c1", "status": "die"}\n']
    daemon.answer = lambda _: (200, events.pop(0) if events else b"")
    engine = Engine(daemon.url)
    exits = ExitWatcher(engine, ["skep.node=n1"])
    async with asyncio.timeout(120), aclosing(exits.looks("c1")) as looks:
        await anext(looks)
        while events:
            await anext(looks)
    await exits.close()
    await engine.close()


@pytest.mark.parametrize("seen", [True, False], ids=["a folder", "by the engine"])
async def test_a_container_that_someone_removed_is_not_measured_any_more(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen: bool
) -> None:
    """Else a program would look for its folder for as long as the agent runs."""
    monkeypatch.setattr(docker_disk, "LOOK_S", 0.01)
    daemon.answer = lambda _: (200, b"[]")
    layer = tmp_path / "layer"
    layer.mkdir()
    container = {
        "Id": "c1",
        "Config": {"Labels": {"skep.disk_mb": "10"}},
        "GraphDriver": {"Data": {"UpperDir": str(layer) if seen else ""}},
    }
    engine = Engine(daemon.url)
    watch = DiskWatch(engine, never)
    watch.watch(container, str(tmp_path), Watched())
    layer.rmdir()
    async with asyncio.timeout(60):
        while watch._watched:  # noqa: ASYNC110 - no one says that it is
            await asyncio.sleep(0.01)
    await watch.close()
    await engine.close()


async def test_a_container_past_its_limit_is_ended_also_after_an_engine_that_hung(
    daemon: Daemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_disk, "LOOK_S", 0.01)
    monkeypatch.setattr(docker_disk, "BLIND_MEASURE_S", 0.0)
    output = tmp_path / "containers/c1/local-logs/container.log"
    output.parent.mkdir(parents=True)
    output.write_bytes(bytes(100))
    asked, ended = [], asyncio.Event()

    async def end(container_id: str) -> None:
        asked.append(container_id)
        if len(asked) == 1:
            raise RuntimeFailure("engine_down", "It does not answer.")
        ended.set()

    engine = Engine(daemon.url)
    watch = DiskWatch(engine, end)
    container = {"Id": "c1", "Config": {"Labels": {"skep.log_bytes": "10"}}}
    watch.watch(container, str(tmp_path), Watched())
    async with asyncio.timeout(30):
        await ended.wait()
    excess = watch.excess("c1")
    await watch.close()
    await engine.close()
    assert excess is not None
    assert excess.code == "log_limit_exceeded"


async def never(container_id: str) -> None:
    raise AssertionError(f"{container_id} is ended")


async def test_an_engine_that_hangs_keeps_no_connection_of_a_shell_that_was_given_up() -> None:
    asked, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if b"/version" in await reader.readuntil(b"\r\n\r\n"):
            body = b'{"Version": "27.0.0", "ApiVersion": "1.44"}'
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body)
        else:
            asked.set()
            while await reader.read(1024):
                pass
            left.set()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as hung:
        engine = Engine(f"tcp://127.0.0.1:{hung.sockets[0].getsockname()[1]}")
        shell = asyncio.create_task(docker_exec._attach(engine, "e1", True))
        async with asyncio.timeout(60):
            await asked.wait()
            shell.cancel()
            await asyncio.gather(shell, return_exceptions=True)
            await left.wait()
        await engine.close()


async def test_name_servers_that_come_later_are_opened_to_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent may start before the machine has its name servers, and those may change."""
    nft, written, resolv = tmp_path / "nft", tmp_path / "written", tmp_path / "resolv.conf"
    nft.write_text(f'#!/bin/sh\ncat >> {written}\necho "table"\n')
    nft.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(firewall, "RESOLV_CONF", (resolv,))
    monkeypatch.setattr(firewall, "BRIDGED", ())
    fence = Firewall("test")
    await fence.ensure()
    assert "10.9.8.7" not in written.read_text()
    resolv.write_text("nameserver 10.9.8.7\n")
    await fence.ensure()
    assert "10.9.8.7" in written.read_text()
    before = written.read_text().count("chain input")
    await fence.ensure()
    assert written.read_text().count("chain input") == before
