"""The faults: what a run breaks, one after the other."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP

import redis
from chaos import clocks
from chaos.box import Box, Node, signal_all
from chaos.proxy import Mode
from tests.support.stack import eventually

SERVER = ("web", "gateway", "apps", "worker-scheduler", "worker-default", "valkey", "postgres")
# The worker of the queue "default" has the beat in it, as a thread.
PART_NAMES = {"worker-scheduler": "scheduler", "worker-default": "worker and beat"}
REPLACED_WITHIN_S = 60.0


# Breaks something, and returns once it is over. Recovery counts from then, or from the time that is
# returned: of a process that is killed, the moment it is.
Break = Callable[[Box, random.Random], float | None]


@dataclass(frozen=True, slots=True)
class Fault:
    """`lost` says that a node's lease may end by it: then the server waits for lease and margin
    before the node's work goes on elsewhere."""

    name: str
    weight: int
    run: Break
    lost: bool = False
    possible: Callable[[Box], bool] = field(default=lambda box: True)


# --- processes


def _kill(part: str) -> Break:
    def run(box: Box, chance: random.Random) -> float:
        return _kill_parts(box, [part])

    return run


def _kill_agent(box: Box, chance: random.Random) -> float:
    return _kill_parts(box, [f"agent-{chance.choice(box.nodes).name}"])


def _kill_agents(box: Box, chance: random.Random) -> float:
    return _kill_parts(box, [f"agent-{node.name}" for node in box.nodes])


def _kill_several(box: Box, chance: random.Random) -> float:
    parts = [*SERVER, *(f"agent-{node.name}" for node in box.nodes)]
    return _kill_parts(box, chance.sample(parts, chance.randint(2, 4)))


def _kill_parts(box: Box, parts: list[str]) -> float:
    """SIGKILL, and wait until each was replaced by whoever looks after it."""
    before = {name: pid for name, pid in box.pids().items() if name in parts}
    killed = time.monotonic()
    signal_all(list(before.values()), SIGKILL)
    eventually(
        lambda: all(box.pids().get(name, pid) != pid for name, pid in before.items()),
        REPLACED_WITHIN_S * box.timing.patience,
    )
    return killed


def _kill_box(box: Box, chance: random.Random) -> float:
    killed = time.monotonic()
    box.kill_everything()
    box.start_server()
    return killed


def _kill_watchdog(box: Box, chance: random.Random) -> None:
    signal_all(_watchdogs(chance.choice(box.nodes)), SIGKILL)


def _stop_watchdog(box: Box, chance: random.Random) -> None:
    """The agent goes on renewing its lease, and has no one who would end its tasks."""
    with _stopped(_watchdogs(chance.choice(box.nodes))):
        time.sleep(chance.uniform(1, box.timing.lease_s / 2))


def _watchdogs(node: Node) -> list[int]:
    """One is a child of the agent that started it, or of init; it is found by the agent's state."""
    state, found = str(node.state.path), []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                command = file.read().decode(errors="replace")
        except OSError:
            continue
        if "watchdog.py" in command and state in command:
            found.append(int(name))
    return found


def _stop(part: str, low: float, high: float) -> Break:
    def run(box: Box, chance: random.Random) -> None:
        with _stopped(box.tree(part)):
            time.sleep(chance.uniform(low, high))

    return run


def _stop_agent(box: Box, chance: random.Random) -> None:
    with _stopped(_agent_only(chance.choice(box.nodes))):
        time.sleep(chance.uniform(1, box.timing.lease_s / 2))


def _lose_agent(box: Box, chance: random.Random) -> None:
    """It sleeps past the end of its lease: its watchdog kills what runs on the node."""
    with _stopped(_agent_only(chance.choice(box.nodes))):
        time.sleep(box.timing.lease_s + box.timing.margin_s + chance.uniform(1, 5))


def _agent_only(node: Node) -> list[int]:
    return [node.pid] if node.pid else []


@contextmanager
def _stopped(pids: list[int]) -> Iterator[None]:
    signal_all(pids, SIGSTOP)
    try:
        yield
    finally:
        signal_all(pids, SIGCONT)


# --- the network


def _cut(box: Box, chance: random.Random) -> None:
    for node in _some(box, chance):
        box.loop.call(node.proxy.cut)


def _half_close(box: Box, chance: random.Random) -> None:
    for node in _some(box, chance):
        box.loop.call(node.proxy.half_close)


def _broken(mode: Mode) -> Break:
    def run(box: Box, chance: random.Random) -> None:
        with _mode(box, _some(box, chance), mode):
            time.sleep(chance.uniform(1, box.timing.lease_s / 3))

    return run


def _lost(mode: Mode) -> Break:
    """Return a fault that lasts longer than the lease. What a silent way held back arrives then,
    heartbeats too."""

    def run(box: Box, chance: random.Random) -> None:
        with _mode(box, [chance.choice(box.nodes)], mode):
            time.sleep(box.timing.lease_s + box.timing.margin_s + chance.uniform(0, 5))

    return run


def _engine_cut(engine: str) -> Break:
    def run(box: Box, chance: random.Random) -> None:
        box.loop.call(box.engine_proxies[engine].cut)

    return run


def _engine_broken(engine: str, mode: Mode) -> Break:
    def run(box: Box, chance: random.Random) -> None:
        proxy = box.engine_proxies[engine]
        box.loop.call(proxy.set_mode, mode)
        try:
            time.sleep(chance.uniform(1, 6))
        finally:
            box.loop.call(proxy.set_mode, "open")

    return run


def _some(box: Box, chance: random.Random) -> list[Node]:
    return chance.sample(box.nodes, chance.randint(1, len(box.nodes)))


@contextmanager
def _mode(box: Box, nodes: list[Node], mode: Mode) -> Iterator[None]:
    try:
        for node in nodes:
            box.loop.call(node.proxy.set_mode, mode)
        yield
    finally:
        for node in nodes:
            box.loop.call(node.proxy.set_mode, "open")


# --- what is kept


def _fill(disk: str, low: float, high: float) -> Break:
    def run(box: Box, chance: random.Random) -> None:
        with box.filled(disk):
            time.sleep(chance.uniform(low, high))

    return run


def _empty_valkey(box: Box, chance: random.Random) -> None:
    url = json.loads(box.home.environment.read_text())["SKEP_REDIS_URL"]
    with redis.Redis.from_url(url) as client:
        client.flushall()


def _wipe_agent(box: Box, chance: random.Random) -> float:
    """Take from an agent all but its credential, while its containers run."""
    node = chance.choice(box.nodes)
    for path in (node.state.path / "journal.jsonl", *node.state.path.glob("masks/*")):
        path.unlink(missing_ok=True)
    return _kill_parts(box, [f"agent-{node.name}"])


def _double(box: Box, chance: random.Random) -> None:
    """The credential in a second machine while the first is connected."""
    node = chance.choice(box.nodes)
    double = box.start_double(node)
    try:
        time.sleep(chance.uniform(3, 6))
    finally:
        double.kill()
        double.wait()


def _double_while_cut(box: Box, chance: random.Random) -> None:
    """The same while the first is cut off, and its containers run."""
    node = chance.choice(box.nodes)
    with ExitStack() as stack:
        stack.enter_context(_mode(box, [node], "refuse"))
        double = box.start_double(node)
        stack.callback(double.wait)
        stack.callback(double.kill)
        time.sleep(chance.uniform(4, box.timing.lease_s / 2))


def _hang_engine(box: Box, chance: random.Random) -> None:
    engine = chance.choice(box.nodes).engine.engine
    box.loop.call(engine.available.clear)
    try:
        time.sleep(chance.uniform(1, 6))
    finally:
        box.loop.call(engine.available.set)


# --- clocks


def _jump_server(box: Box, chance: random.Random) -> None:
    _jump(box.server_clock, chance)


def _jump_database(box: Box, chance: random.Random) -> None:
    _jump(box.database_clock, chance)


def _jump_node(box: Box, chance: random.Random) -> None:
    _jump(chance.choice(box.nodes).clock, chance)


def _jump(clock: Path, chance: random.Random) -> None:
    """Set the clock away and back, by seconds or by hours."""
    size = chance.choice([20.0, 300.0, 7200.0]) * chance.choice([1, -1])
    clocks.set_offset(clock, size)
    try:
        time.sleep(chance.uniform(2, 6))
    finally:
        clocks.set_offset(clock, 0.0)


def _has_disks(box: Box) -> bool:
    return bool(box.disks)


def _has_clocks(box: Box) -> bool:
    return clocks.library() is not None


FAULTS: tuple[Fault, ...] = (
    *(Fault(f"kill {PART_NAMES.get(part, part)}", 3, _kill(part)) for part in SERVER),
    *(Fault(f"stop {PART_NAMES.get(part, part)}", 2, _stop(part, 1, 6)) for part in SERVER),
    Fault("kill agent", 4, _kill_agent),
    Fault("kill all agents", 1, _kill_agents),
    Fault("kill watchdog", 1, _kill_watchdog),
    Fault("stop watchdog", 1, _stop_watchdog),
    Fault("kill several at once", 3, _kill_several),
    Fault("kill the whole server", 1, _kill_box),
    Fault("stop agent", 3, _stop_agent),
    Fault("stop agent past its lease", 2, _lose_agent, lost=True),
    Fault("cut connections", 4, _cut),
    Fault("half-closed connections", 3, _half_close),
    Fault("slow connections", 3, _broken("slow")),
    Fault("silent connections", 3, _broken("silent")),
    Fault("refused connections", 2, _broken("refuse")),
    Fault("lost from node to server", 2, _broken("up")),
    Fault("lost from server to node", 2, _broken("down")),
    Fault("cut off past the lease", 2, _lost("refuse"), lost=True),
    Fault("silent past the lease", 2, _lost("silent"), lost=True),
    Fault("cut connections to PostgreSQL", 2, _engine_cut("postgres")),
    Fault("silent connections to PostgreSQL", 2, _engine_broken("postgres", "silent")),
    Fault("answers of PostgreSQL lost", 2, _engine_broken("postgres", "down")),
    Fault("cut connections to Valkey", 2, _engine_cut("valkey")),
    Fault("silent connections to Valkey", 2, _engine_broken("valkey", "silent")),
    Fault("answers of Valkey lost", 2, _engine_broken("valkey", "down")),
    Fault("full disk of logs", 2, _fill("data", 3, 8), possible=_has_disks),
    Fault("full disk of PostgreSQL", 2, _fill("engines", 2, 5), possible=_has_disks),
    Fault("full disk of agents", 2, _fill("agents", 2, 5), possible=_has_disks),
    Fault("emptied Valkey", 3, _empty_valkey),
    Fault("wiped agent", 3, _wipe_agent),
    Fault("doubled agent", 2, _double),
    Fault("doubled agent, first cut off", 2, _double_while_cut),
    Fault("hanging engine", 2, _hang_engine),
    Fault("clock jump of the server", 2, _jump_server, possible=_has_clocks),
    Fault("clock jump of PostgreSQL", 2, _jump_database, possible=_has_clocks),
    Fault("clock jump of a node", 2, _jump_node, possible=_has_clocks),
)


def drawn(chance: random.Random, box: Box, number: int, names: list[str]) -> list[Fault]:
    """Draw so many faults, each kind before any kind is drawn often. `names`: of these alone."""
    possible = [f for f in FAULTS if f.possible(box) and (not names or f.name in names)]
    deck: list[Fault] = []
    while len(deck) < number:
        more = [fault for fault in possible for _ in range(fault.weight)]
        chance.shuffle(more)
        first = {fault.name: fault for fault in possible}
        deck += [*_shuffled(list(first.values()), chance), *more] if not deck else more
    return deck[:number]


def _shuffled(faults: list[Fault], chance: random.Random) -> list[Fault]:
    chance.shuffle(faults)
    return faults
