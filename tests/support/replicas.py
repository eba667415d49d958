"""Skep as it runs on many machines: replicas of every part behind load balancers, and an agent."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, SIGTERM

import httpx
from tests.support.balancer import Balancer, balancer
from tests.support.gateway_server import ProcessServer, wait_until
from tests.support.worker_process import BEAT, SCHEDULER, START_S, WORKER, CeleryProcess, leader

from skep_agent.statedir import StateDir
from skep_platform.cluster import services as cluster

SERVERS = ("web", "gateway")
WORKERS = {"scheduler": SCHEDULER, "worker": WORKER, "beat": BEAT}
TAKEOVER_S = 5.0  # after the leading scheduler was killed
TIMEOUT_S = 120.0  # of requests, on a machine that is busy otherwise


@dataclass
class Replicas:
    """The running parts. `web` and `gateway` are where people and agents connect."""

    stack: ExitStack
    web: Balancer
    gateway: Balancer
    servers: dict[str, list[ProcessServer]] = field(default_factory=dict)
    workers: dict[str, list[CeleryProcess]] = field(default_factory=dict)

    def start(self) -> None:
        """Start all of them at once."""
        with ThreadPoolExecutor(2 * len(WORKERS) + 4) as pool:
            servers = {p: [pool.submit(self._server, p) for _ in range(2)] for p in SERVERS}
            workers = {n: [pool.submit(self._worker, n) for _ in range(2)] for n in WORKERS}
        self.servers = {part: [one.result() for one in found] for part, found in servers.items()}
        self.workers = {name: [one.result() for one in found] for name, found in workers.items()}

    def restart_all(self) -> None:
        """Replace every process by a new one, as a Deployment does: first the new one is ready,
        then the old one gets no new connection, then it is asked to end."""
        for part, old_ones in self.servers.items():
            for number, old in enumerate(old_ones):
                self.servers[part][number] = self._server(part)
                self._balancer(part).backends.remove(old.port)
                old.terminate()
        for name, former_ones in self.workers.items():
            for number, former in enumerate(former_ones):
                self.workers[name][number] = self._worker(name)
                former.signal(SIGTERM)

    def kill_leading_scheduler(self) -> None:
        """Kill the scheduler that leads, and wait until another one does: `TAKEOVER_S` at most."""
        killed = leader()
        schedulers = self.workers["scheduler"]
        [former] = [one for one in schedulers if one.pid == killed]
        schedulers.remove(former)
        former.signal(SIGKILL)
        wait_until(lambda: leader() not in (0, killed), "another scheduler leads", TAKEOVER_S)

    def client(self, headers: dict[str, str] | None = None) -> httpx.Client:
        """Return a client of the web servers, behind their balancer."""
        return httpx.Client(
            base_url=self.web.url, headers=headers, timeout=TIMEOUT_S, trust_env=False
        )

    def _balancer(self, part: str) -> Balancer:
        return self.web if part == "web" else self.gateway

    def _server(self, part: str) -> ProcessServer:
        gateway = {"SKEP_GATEWAY_URL": self.gateway.url, "SKEP_GATEWAY_BACKEND": self.gateway.url}
        lifespan = "on" if part == "gateway" else "off"
        server = ProcessServer(part=part, lifespan=lifespan, **gateway)
        self.stack.enter_context(server)
        wait_until(lambda: _is_ready(server.port), f"a {part} server is ready", START_S)
        self._balancer(part).backends.append(server.port)
        return server

    def _worker(self, name: str) -> CeleryProcess:
        worker = self.stack.enter_context(CeleryProcess(WORKERS[name]))
        worker.wait_for("beat: Starting" if name == "beat" else " ready.")
        return worker


@contextmanager
def replicas() -> Iterator[Replicas]:
    """Two of each part."""
    with ExitStack() as stack:
        found = Replicas(stack, stack.enter_context(balancer()), stack.enter_context(balancer()))
        found.start()
        yield found


@contextmanager
def mock_agent(server: str) -> Iterator[subprocess.Popen[bytes]]:
    """An agent of 8 simulated GPUs and mock containers that joins at `server`."""
    inherited = {name: text for name, text in os.environ.items() if not name.startswith("SKEP_")}
    with tempfile.TemporaryDirectory(prefix="skep-test-agent-") as folder:
        state = StateDir(Path(folder))
        token = cluster.create_join_token(None, 600)
        agent = [sys.executable, "-m", "skep_agent"]
        join = ["join", f"--server={server}", f"--token={token}", "--name=n1", f"--state={folder}"]
        subprocess.run([*agent, *join], env=inherited, check=True, capture_output=True)
        assert state.load().server == server
        run = ["run", f"--state={folder}", "--runtime=mock", "--gpus=8", "--gpu-model=A100"]
        run += ["--cpus=64", "--memory-mb=65536", "--address=127.0.0.1", "--fence=off"]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen([*agent, *run], env=inherited, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


class Visitors:
    """Threads that send requests as long as the context is open, each on a connection of its own,
    and keep what was not answered as it should be."""

    def __init__(self, requests: dict[str, Callable[[httpx.Client], httpx.Response]], url: str):
        self.answered = dict.fromkeys(requests, 0)
        self.failed: list[str] = []
        self._end = threading.Event()
        self._threads = [
            threading.Thread(target=self._visit, args=(name, send, url))
            for name, send in requests.items()
        ]

    def __enter__(self) -> Visitors:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(60)

    def _visit(self, name: str, send: Callable[[httpx.Client], httpx.Response], url: str) -> None:
        while not self._end.wait(0.3):
            try:
                with httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False) as client:
                    answer = send(client)
            except httpx.HTTPError as error:
                self.failed.append(f"{name}: {type(error).__name__} {error}")
                continue
            if answer.is_success:
                self.answered[name] += 1
            else:
                self.failed.append(f"{name}: {answer.status_code} {answer.text[:300]}")


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=10).is_success
    except httpx.HTTPError:
        return False
