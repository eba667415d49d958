"""A whole Skep with simulated nodes: `skep up` without agents, and beside it the agents, each
behind a proxy of its own and with an engine that outlives it."""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGKILL
from typing import Any, TypeVar
from urllib.parse import quote

import psycopg
from chaos import clocks
from chaos.agent import GPU_MODEL
from chaos.engine import EngineServer, Ledger, NodeEngine
from chaos.proxy import EngineProxy, NodeProxy, Proxy
from tests.support.ports import free_port
from tests.support.stack import READY_WITHIN_S, Stack, descendants, eventually, start

from skep_agent.join import join
from skep_agent.shell.lease_guard import _open_page
from skep_agent.statedir import StateDir
from skep_agent.watchdog import SharedPage
from skep_platform.onebox import engines, programs
from skep_platform.onebox.children import Keeper, Program
from skep_platform.onebox.home import Home

T = TypeVar("T")
CLONE_NEWNS = 0x00020000
ONLINE_WITHIN_S = 60.0
# MiB of each: what the part needs, and little more, so that it is filled at once.
DISKS = {"data": 64, "engines": 640, "agents": 24}
LOGS_MB = 1.0  # more of "data" for each fault: the jobs of 170 faults wrote 96 MiB


@dataclass(slots=True)
class Timing:
    """Seconds, as the server's settings of the same names."""

    lease_s: float = 15.0
    margin_s: float = 5.0
    heartbeat_s: float = 1.0
    patience: float = 1.0  # multiplies how long is waited for things that take CPU time

    def settings(self) -> dict[str, str]:
        return {
            "SKEP_LEASE_S": str(self.lease_s),
            "SKEP_LEASE_MARGIN_S": str(self.margin_s),
            "SKEP_HEARTBEAT_S": str(self.heartbeat_s),
        }


@dataclass(slots=True)
class Node:
    name: str
    number: int
    proxy: NodeProxy
    engine: EngineServer
    keeper: Keeper
    state: StateDir
    clock: Path
    doubles: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def pid(self) -> int | None:
        return self.keeper.pid


class Loop:
    """An event loop on a thread of its own. The thread is that which starts the agents, so it lives
    as long as they may."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="nodes", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    def call(self, function: Any, *arguments: Any) -> Any:
        async def called() -> Any:
            return function(*arguments)

        return self.run(called())

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)


class Box:
    """Everything that faults are done to. Its own thread runs engines, proxies and keepers."""

    def __init__(
        self,
        folder: Path,
        nodes: int,
        gpus: int,
        timing: Timing,
        prepared: Path | None = None,
        faults: int = 100,
    ) -> None:
        """`prepared` is where a database with its tables is kept for later runs; `faults` is how
        many there will be."""
        self.folder = folder
        self._sizes = {**DISKS, "data": DISKS["data"] + int(faults * LOGS_MB)}
        self.prepared = prepared
        self.gpus = gpus
        self.timing = timing
        self.home = Home(folder / "home")
        self.ledger = Ledger()
        self.home.prepare()
        # Not those of the home: `skep up` removes nodes that it had and is no longer asked for.
        self.agents = folder / "agents"
        self.agents.mkdir()
        self.disks = self._made_disks()  # by name; none where this machine has no small disks
        self.loop = Loop()  # after the mounts: a thread keeps the namespace it began in
        self.nodes: list[Node] = []
        self._engines: dict[str, Keeper] = {}  # "postgres" and "valkey"
        self.engine_proxies: dict[str, Proxy] = {}
        self.database_clock = folder / "postgres.clock"
        self._engine_urls: dict[str, str] = {}  # through the proxies
        self._database_url = ""  # past them
        self.port, self.gateway_port, self.apps_port = free_port(), free_port(), free_port()
        self._count = nodes
        self.server_clock = folder / "server.clock"
        self.stack = Stack(self.home, f"http://127.0.0.1:{self.port}", None)  # type: ignore[arg-type]

    # --- start and stop

    def start(self) -> None:
        if self.prepared is not None and self.prepared.exists():
            self._copy_state(self.prepared, self.home.root)
        self._start_engines()
        self.start_server()
        if self.prepared is not None and not self.prepared.exists():
            self._keep_prepared(self.prepared)
        token = self._prepare_cluster()
        for number in range(self._count):
            self.nodes.append(self.loop.run(self._start_node(number, token)))
        self.wait_until_online()
        with self.stack.api() as api:
            quotas = {"quotas": {GPU_MODEL: self._count * self.gpus}}
            api.put("/virtual-clusters/default/quotas", json=quotas).raise_for_status()

    def _keep_prepared(self, kept: Path) -> None:
        """Keep the database and its secrets as they are now, at rest, and go on."""
        self._stop_server()
        for keeper in self._engines.values():
            self.loop.run(keeper.stop(20))
        kept.mkdir(parents=True)
        self._copy_state(self.home.root, kept)
        self._start_engines()
        self.start_server()

    def _copy_state(self, source: Path, into: Path) -> None:
        for name in ("engines", "operator-token"):
            subprocess.run(["cp", "--archive", str(source / name), str(into)], check=True)

    # --- engines

    def _start_engines(self) -> None:
        """Those of `skep up`, but with a proxy before each and a clock that can jump. The server
        uses them as engines of the operator's own."""
        made = self.made = engines.prepare(self.home.engines)
        self._database_url = made.postgres.url()
        ways = self.folder / "ways"
        ways.mkdir(exist_ok=True)
        sockets = {
            "postgres": (made.postgres.data / engines.POSTGRES_SOCKET, engines.POSTGRES_SOCKET),
            "valkey": (made.valkey.socket, engines.VALKEY_SOCKET),
        }
        if not self.engine_proxies:
            for name, (target, own) in sockets.items():
                proxy = EngineProxy(ways / own, target)
                self.loop.run(proxy.start())
                self.engine_proxies[name] = proxy
        folder, valkey = str(made.postgres.data), str(made.valkey.socket)
        self._engine_urls = {
            "SKEP_DATABASE_URL": made.postgres.url().replace(quote(folder), quote(str(ways))),
            "SKEP_REDIS_URL": made.valkey.url().replace(
                quote(valkey), quote(str(ways / engines.VALKEY_SOCKET))
            ),
        }
        programs = {"postgres": made.postgres.program(), "valkey": made.valkey.program()}
        clock = clocks.environment(self.database_clock)
        if clock:
            self.database_clock.chmod(0o644)
        programs["postgres"] = replace(
            programs["postgres"], env={**programs["postgres"].env, **clock}
        )
        for name, program in programs.items():
            self._engines[name] = Keeper(program, self.home.log)
            self.loop.call(self._engines[name].start)
        eventually(lambda: all(self._engine_answers()), self._ready_within_s)

    def _engine_answers(self) -> Iterator[bool]:
        for name, engine in (("postgres", self.made.postgres), ("valkey", self.made.valkey)):
            pid = self._engines[name].pid
            yield pid is not None and engine.is_ready(pid)

    @property
    def _ready_within_s(self) -> float:
        return READY_WITHIN_S * self.timing.patience

    def start_server(self) -> None:
        """`skep up`: also after it was killed with all its children."""
        environment = {
            **self.timing.settings(),
            # As behind a proxy of the operator's own: agents know one address, that of the proxy.
            "SKEP_PUBLIC_URL": f"http://127.0.0.1:{self.port}",
            "SKEP_ALLOW_HTTP": "1",
            "SKEP_CHECK_IMAGES": "off",
            "SKEP_SCHEDULING_MIN_RUN_S": "1",
            "SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S": "1",
            "SKEP_CORDON_FAULTS": "0",  # the faults here are not those of the nodes
            **self._engine_urls,
            **clocks.environment(self.server_clock),
        }
        # The same ports after a restart: the proxies know them.
        ports = (f"--gateway-port={self.gateway_port}", f"--apps-port={self.apps_port}")
        self.stack.process = start(
            self.home,
            self.port,
            "--no-agents",
            *ports,
            within_s=self._ready_within_s,
            **environment,
        )

    def _prepare_cluster(self) -> str:
        with self.stack.api() as api:
            limit = "/virtual-clusters/default/limits/submits_per_minute"
            api.put(limit, json={"value": 100_000}).raise_for_status()
            answer = api.post("/nodes/join-tokens", json={"nodes": self._count})
            return str(answer.raise_for_status().json()["token"])

    async def _start_node(self, number: int, token: str) -> Node:
        name = f"chaos-{number + 1}"
        proxy = NodeProxy(self.port, self.gateway_port)
        await proxy.start()
        engine = EngineServer(NodeEngine(name, self.ledger), self.folder)
        await engine.start()
        state = StateDir(self.agents / name)
        await join(f"http://127.0.0.1:{proxy.port}", token, name, state)
        clock = self.folder / f"{name}.clock"
        program = self.agent_program(name, state.path, self.folder, clock)
        keeper = Keeper(program, self.home.log)
        keeper.start()
        return Node(name, number, proxy, engine, keeper, state, clock)

    def agent_program(self, name: str, state: Path, engines: Path, clock: Path) -> Program:
        command = (sys.executable, "-m", "chaos.agent", str(state), str(engines), name)
        kept = ("PATH", "HOME", "LANG", "PYTHONPATH")
        environment = {k: os.environ[k] for k in kept if k in os.environ}
        environment |= {"PYTHONUNBUFFERED": "1", **clocks.environment(clock)}
        root = str(Path(__file__).parents[1])
        return Program(f"agent-{name}", (*command, str(self.gpus)), environment, cwd=root)

    def stop(self) -> None:
        """No process of it is left."""
        for node in self.nodes:
            for double in node.doubles:
                double.kill()
                double.wait()
            with suppress(Exception):
                self.loop.run(node.keeper.stop(10))
            self._stop_watchdog(node)
            self.loop.call(node.proxy.close)
            self.loop.call(node.engine.close)
        self._stop_server()
        for keeper in self._engines.values():
            with suppress(Exception):
                self.loop.run(keeper.stop(10))
        for proxy in self.engine_proxies.values():
            self.loop.call(proxy.close)
        self.loop.close()
        for path in self.disks.values():  # else the folder cannot be removed
            subprocess.run(["umount", "--lazy", str(path)], check=False)

    def _stop_server(self) -> None:
        if self.stack.process is None:
            return
        self.stack.process.terminate()
        try:
            self.stack.process.wait(60)
        except subprocess.TimeoutExpired:
            self.stack.process.kill()

    def _stop_watchdog(self, node: Node) -> None:
        """It stays for a while after an agent that left containers behind."""
        path, file = _open_page(node.state.path.resolve())
        page = SharedPage(file)
        page.set_leave(True)  # it looks four times a second
        page.close()
        os.close(file)
        path.unlink(missing_ok=True)

    # --- small disks

    def _made_disks(self) -> dict[str, Path]:
        """Mount a small file system for each part of the state, in a mount namespace of this
        process's own, so that they end with it."""
        libc = ctypes.CDLL(None, use_errno=True)
        if os.geteuid() != 0 or libc.unshare(CLONE_NEWNS) != 0:
            return {}
        disks = {"data": self.home.data, "engines": self.home.engines, "agents": self.agents}
        try:
            _mount("--make-rprivate", "/")
            for name, path in disks.items():
                options = f"size={self._sizes[name]}m,mode=0700"
                _mount("-t", "tmpfs", "-o", options, "tmpfs", str(path))
        except (OSError, subprocess.CalledProcessError):
            return {}
        return disks

    @contextmanager
    def filled(self, disk: str) -> Iterator[None]:
        """Not one byte is free on it."""
        ballast = self.disks[disk] / "ballast"
        try:
            with ballast.open("wb", buffering=0) as file, suppress(OSError):
                for size in (1 << 20, 1 << 12, 1):
                    with suppress(OSError):
                        while file.write(bytes(size)) == size:
                            pass
            yield
        finally:
            ballast.unlink(missing_ok=True)

    # --- what is seen of it

    def pids(self) -> dict[str, int]:
        """Process ids of all parts that live, by name; those of agents begin with "agent-"."""
        own = {name: keeper.pid for name, keeper in self._keepers().items()}
        return {**self.stack.pids(), **{name: pid for name, pid in own.items() if pid}}

    def _keepers(self) -> dict[str, Keeper]:
        return {**self._engines, **{f"agent-{node.name}": node.keeper for node in self.nodes}}

    def missing_parts(self) -> list[str]:
        """Names of the parts that are between two lives, or do not work yet. (Of the web server and
        the gateway a probe and the nodes show that.)"""
        children = self.home.read_status().get("children", [])
        pids = {child["name"]: child["pid"] for child in children}
        pids |= {name: keeper.pid for name, keeper in self._keepers().items()}
        down = [name for name, pid in pids.items() if not pid]
        down += [n for n, pid in pids.items() if n.startswith("worker-") and self._began(n) != pid]
        return down if _listens(self.apps_port) else [*down, "apps"]

    def _began(self, worker: str) -> int:
        """Return the process id that a worker wrote down once it consumed."""
        try:
            return int(programs.ready_file(self.home, worker).read_text() or 0)
        except OSError:
            return 0

    def tree(self, name: str) -> list[int]:
        """Return the process of a part and its children, PostgreSQL's backends for instance."""
        pid = self.pids().get(name)
        return [pid, *sorted(descendants(pid))] if pid else []

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Ask the database as a witness apart from the API. Raises psycopg.Error."""
        with psycopg.connect(self._database_url, connect_timeout=5) as connection:
            connection.execute("SET statement_timeout = 20000")
            cursor = connection.execute(sql, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def offline_nodes(self) -> list[str]:
        """Names of the nodes that are not connected, or have been silent for some heartbeats."""
        silent_s = 3 * self.timing.heartbeat_s
        rows = self.query(
            """
            SELECT name FROM cluster_node WHERE NOT (
                connected AND state = 'ONLINE'
                AND last_heartbeat_at > clock_timestamp() - make_interval(secs => %s))
            """,
            silent_s,
        )
        return [name for (name,) in rows]

    def wait_until_online(self) -> None:
        def online() -> bool:
            rows = self.query("SELECT count(*) FROM cluster_node WHERE connected")
            return rows[0][0] == self._count

        eventually(
            online, ONLINE_WITHIN_S * self.timing.patience, lambda: "not all nodes are online"
        )

    # --- whole-box faults

    def kill_everything(self) -> None:
        """Do what a power cut of the server's machine does: end the supervisor with its children,
        and the engines, which come back by themselves."""
        processes = [self.stack.process.pid, *self.stack.processes()]
        processes += [*self.tree("postgres"), *self.tree("valkey")]
        for pid in processes:
            with suppress(ProcessLookupError):
                os.kill(pid, SIGKILL)
        self.stack.process.wait(30)
        eventually(lambda: not any(_lives(pid) for pid in processes), 30 * self.timing.patience)

    def start_double(self, node: Node) -> subprocess.Popen[bytes]:
        """Start a second machine with the node's credential: a copy of its state directory, with
        an engine of its own on which nothing runs, and a way of its own to the server."""
        folder = self.folder / f"double-{node.name}-{len(node.doubles)}"
        folder.mkdir()
        shutil.copytree(node.state.path, folder / "state", ignore=shutil.ignore_patterns("lock"))
        (folder / "state" / "instance_id").unlink(missing_ok=True)
        (folder / "state" / "journal.jsonl").unlink(missing_ok=True)
        server = EngineServer(NodeEngine(node.name, self.ledger), folder)
        self.loop.run(server.start())
        program = self.agent_program(node.name, folder / "state", folder, node.clock)
        with (self.home.log / f"double-{node.name}.log").open("ab") as log:
            process = subprocess.Popen(
                program.command, env=dict(program.env), cwd=program.cwd, stdout=log, stderr=log
            )
        node.doubles.append(process)
        return process


@contextmanager
def running(
    folder: Path,
    nodes: int,
    gpus: int,
    timing: Timing,
    prepared: Path | None = None,
    faults: int = 100,
) -> Iterator[Box]:
    box = Box(folder, nodes, gpus, timing, prepared, faults)
    try:
        box.start()
        yield box
    finally:
        box.stop()


def signal_all(pids: list[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state != "Z"


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)
