"""One box from nothing to ready, and back: engines, first steps, web, workers, agents."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from skep_agent.join import join
from skep_agent.statedir import StateDir, StateError
from skep_platform.onebox import boot, engines, own_api, programs
from skep_platform.onebox.children import Keeper, Program, adopting, die_with_parent
from skep_platform.onebox.home import Home, write_private
from skep_platform.onebox.options import Options

READY_WITHIN_S = 90.0
MIGRATED_WITHIN_S = 900.0  # an upgrade may have much to move
# A child that died this often before everything was ready will not get well by itself.
HOPELESS = 5
STOP_GATEWAY_S = 9.0  # it first notifies the agents that the server stops on purpose
STOP_CLIENTS_S = 1.5
STOP_ENGINES_S = 1.2
LOOK_AGAIN_S = 0.05
LOOK_AT_LOGS_S = 60.0


class StartFailed(RuntimeError):
    """The box could not start; the text names the part and shows the end of its log."""


class Supervisor:
    def __init__(self, home: Home, options: Options) -> None:
        self.home = home
        self.options = options
        self.keepers: list[Keeper] = []
        self.phase = "starting"
        self._engines: list[Keeper] = []
        self._started = time.time()
        self._gate = home.run / "gate"

    async def run(self, ready: Callable[[dict[str, Any]], None]) -> None:
        """Start everything, call `ready` with the address and the first login, and keep it all
        alive until SIGTERM or SIGINT. Raises StartFailed."""
        stop = _stop_signals()
        try:
            starting = asyncio.ensure_future(self._start())
            await _first(starting, asyncio.ensure_future(stop.wait()))
            if stop.is_set():
                starting.cancel()
                return
            login = starting.result()
            self.phase = "ready"
            self._write_status()
            ready({"url": self.options.url, "login": login, "home": str(self.home.root)})
            while not stop.is_set():
                self.home.bound_logs()
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), LOOK_AT_LOGS_S)
        finally:
            await self._stop()

    async def _start(self) -> dict[str, str] | None:
        _check_port_is_free(self.options, self.options.port, "--port")
        _check_port_is_free(self.options, self.options.agents_port, "--gateway-port")
        _check_port_is_free(self.options, self.options.proxy_port, "--apps-port")
        for stale in (self._gate, *self.home.run.glob("*.ready")):
            stale.unlink(missing_ok=True)
        where = self._prepare_engines()
        environment = programs.server_environment(self.home, self.options, where)
        # With our own settings: a backup by cron has neither the keys nor the store of logs in its
        # environment, and would be made without them.
        own = {name: text for name, text in os.environ.items() if name.startswith("SKEP_")}
        write_private(self.home.environment, json.dumps(own | environment))
        servers = [
            programs.web(self.options, environment),
            programs.gateway(self.options, environment),
            programs.apps(self.options, environment),
        ]
        for queue in programs.WORKERS:
            servers.append(programs.worker(self.home, self.options, queue, self._gate, environment))
        answer = await self._boot(programs.boot(environment), servers)
        self._gate.touch()
        await asyncio.gather(*(self._start_agent(n, answer) for n in range(self.options.nodes)))
        await self._until_ready()
        return answer.login

    def _prepare_engines(self) -> programs.Addresses:
        """Start those that the environment does not replace."""
        database = os.environ.get("SKEP_DATABASE_URL", "")
        redis = os.environ.get("SKEP_REDIS_URL", "")
        state = self.home.engines
        secret_key = os.environ.get("SKEP_SECRET_KEY") or engines.secret(state, "django")
        if not (database and redis):
            made = engines.prepare(state, wal_archive=self.options.wal_archive)
            if not redis:
                redis = made.valkey.url()
                self._engines.append(self._keep(made.valkey.program()))
            if not database:
                database = made.postgres.url()
                self._engines.append(self._keep(made.postgres.program()))
        return programs.Addresses(database, redis, secret_key)

    async def _boot(self, program: Program, servers: list[Program]) -> boot.Answer:
        """Start the servers and take the first steps, at the same time."""
        names = self.options.node_names()
        keepers = [self._keeper(server) for server in servers]
        request = boot.Request(
            nodes=names,
            without_credential=[n for n in names if not _has_joined(self._agent_state(n))],
            token_file=str(self.home.operator_token),
            servers=[asdict(programs.as_fork(k.program, k.log)) for k in keepers],
        )

        def forked(pids: dict[str, int]) -> None:
            for keeper in keepers:
                keeper.start(pids.get(keeper.name))

        question = json.dumps(asdict(request))
        steps = asyncio.ensure_future(_answer(program, self.home.log, question, forked))
        await self._until(steps.done, "the first steps in the database", MIGRATED_WITHIN_S)
        return boot.read_answer(steps.result())

    async def _start_agent(self, number: int, answer: boot.Answer) -> None:
        name = self.options.node_names()[number]
        state = self._agent_state(name)
        options = self.options
        if token := answer.join_tokens.get(name):
            await self._until(_listens(options, options.port), "the web server to listen")
            await join(options.url, token, name, state)
        # Another --port than last time, or a proxy in front that only others need.
        here = replace(state.load(), server=options.url, gateway_url=options.gateway_url)
        state.save(here)
        self._keep(programs.agent(self.home, self.options, number))

    async def _until_ready(self) -> None:
        """Web answers, workers consume, nodes are online and the default VC owns their GPUs."""
        files = [programs.ready_file(self.home, f"worker-{q}") for q in programs.WORKERS]
        await self._until(lambda: all(f.exists() for f in files), "the workers")
        token = self.home.operator_token.read_text()
        async with own_api.Settler(self.options, token) as settler:
            await self._until_async(settler.web_is_ready, "the web server")
            gateway = _listens(self.options, self.options.agents_port)
            await self._until(gateway, "the gateway")
            proxy = _listens(self.options, self.options.proxy_port)
            await self._until(proxy, "the proxy of apps")
            await settler.ensure_default_vc()
            await self._until_async(settler.nodes_are_online, "the agents to connect")
            await settler.give_all_gpus_to_default_vc()
            await settler.remove_earlier_nodes(
                p.name for p in self.home.nodes.iterdir() if p.is_dir()
            )

    def _keep(self, program: Program) -> Keeper:
        keeper = self._keeper(program)
        keeper.start()
        return keeper

    def _keeper(self, program: Program) -> Keeper:
        self.keepers.append(Keeper(program, self.home.log, self._write_status))
        return self.keepers[-1]

    async def _until(
        self, condition: Callable[[], bool], what: str, within_s: float = READY_WITHIN_S
    ) -> None:
        async def met() -> bool:
            return condition()

        await self._until_async(met, what, within_s)

    async def _until_async(
        self, condition: Callable[[], Awaitable[bool]], what: str, within_s: float = READY_WITHIN_S
    ) -> None:
        deadline = time.monotonic() + within_s
        while not await condition():
            if time.monotonic() > deadline:
                raise StartFailed(f"gave up waiting for {what} after {within_s:.0f} s")
            for keeper in self.keepers:
                if keeper.restarts.count >= HOPELESS:
                    raise StartFailed(f"{keeper.name} keeps dying:\n{keeper.last_words()}")
            await asyncio.sleep(LOOK_AGAIN_S)

    async def _stop(self) -> None:
        """Stop the gateway first, while the agents are there to receive that they keep their jobs;
        then all others that use the engines at once; then the engines."""
        self.phase = "stopping"
        self._write_status()
        gateways = [k for k in self.keepers if k.name == "gateway"]
        await _stop_all(gateways, STOP_GATEWAY_S)
        clients = [k for k in self.keepers if k not in self._engines and k not in gateways]
        await _stop_all(clients, STOP_CLIENTS_S)
        await _stop_all(self._engines, STOP_ENGINES_S)
        self.phase = "stopped"
        self._write_status()

    def _agent_state(self, node: str) -> StateDir:
        return StateDir(self.home.nodes / node)

    def _write_status(self) -> None:
        children = [
            {"name": k.name, "pid": k.pid, "restarts": k.restarts.count} for k in self.keepers
        ]
        self.home.write_status(
            {
                "pid": os.getpid(),
                "phase": self.phase,
                "url": self.options.url,
                "gateway_url": self.options.gateway_url,
                "started_at": self._started,
                "planned_absence_s": planned_absence_s(),
                "children": children,
            }
        )


def planned_absence_s() -> float:
    """How long jobs go on without us, in seconds: as `skep_platform.settings` has it."""
    return min(float(os.environ.get("SKEP_PLANNED_ABSENCE_S", "3600")), 86400.0)


def _has_joined(state: StateDir) -> bool:
    try:
        state.load()
    except StateError:
        return False
    return True


def _stop_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _first(*futures: asyncio.Future[Any]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


async def _stop_all(keepers: Iterable[Keeper], patience_s: float) -> None:
    await asyncio.gather(*(keeper.stop(patience_s) for keeper in keepers))


async def _answer(
    program: Program, log: Path, question: str, first: Callable[[dict[str, int]], None]
) -> str:
    """Run a short program to its end; `first` is called with the first line of what it says. Raises
    StartFailed with its last words."""
    path = log / f"{program.name}.log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    parent = os.getpid()
    with adopting():
        try:
            process = await asyncio.create_subprocess_exec(
                *program.command,
                env=dict(program.env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=descriptor,
                cwd="/",
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(program.death_signal, parent),
            )
        finally:
            os.close(descriptor)
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):  # it has ended: its code says so below
            process.stdin.write(question.encode())
            process.stdin.close()
            await process.stdin.wait_closed()
        if line := await process.stdout.readline():
            first(json.loads(line))
    output = await process.stdout.read()
    if await process.wait():
        raise StartFailed(f"{program.name} failed:\n{path.read_text(errors='replace')[-3000:]}")
    return output.decode()


def _check_port_is_free(options: Options, port: int, option: str) -> None:
    with socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.host, port))
        except OSError as error:
            where = f"{options.host}:{port}"
            text = f"cannot listen on {where} ({error.strerror}); choose another with {option}"
            raise StartFailed(text) from None


def _listens(options: Options, port: int) -> Callable[[], bool]:
    host = options.url.split("//")[1].rsplit(":", 1)[0].strip("[]")

    def attempt() -> bool:
        try:
            socket.create_connection((host, port), timeout=1).close()
        except OSError:
            return False
        return True

    return attempt
