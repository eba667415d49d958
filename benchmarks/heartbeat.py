"""`heartbeat`: how late the heartbeats of 500 agents are acknowledged while the web server gets 50
hostile requests a second: bombs to convert and to check, the schema, long lists. Lateness runs from
the moment a heartbeat was due. The reference is the same without an attack.

Agents, attackers and servers share this machine, each in processes of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import httpx
from benchmarks.report import percentile, report
from tests.support.stack import Stack, environment_of, stack
from websockets.asyncio.client import ClientConnection, connect

from skep_agent.protocol import (
    Gpu,
    GpuSample,
    Heartbeat,
    HeartbeatAck,
    Hello,
    Inventory,
    Samples,
    Welcome,
    parse_server_message,
)

AGENTS, GPUS = 500, 8
PERIOD_S = 5.0
QUIET_S, ATTACK_S = 12, 40
PER_SECOND = 50
PATIENCE_S = 10.0  # of an attacker, with one request
JOIN = """
import json
from skep_platform.cluster.services import issue_join_token, join_node
token = issue_join_token(None, 3600, {nodes})[1]
print(json.dumps([join_node(token, f"n{{i:04}}", f"i{{i}}")[1] for i in range({nodes})]))
"""
TEXT = {"Content-Type": "text/plain"}
BOMBS: list[dict[str, Any]] = [
    {"method": "POST", "url": "/jobs/convert", "content": b"\n" * 80_000, "headers": TEXT},
    {
        "method": "POST",
        "url": "/jobs/check",
        "content": b"a: &a " + b"x" * 60_000 + b"\nb: [" + b"*a, " * 20_000 + b"*a]\n",
        "headers": TEXT,
    },
    {"method": "POST", "url": "/jobs/convert", "content": b"{" * 100_000, "headers": TEXT},
    {"method": "GET", "url": "/openapi"},
    {"method": "GET", "url": "/nodes", "params": {"limit": 500}},
]


def main() -> None:
    with stack("--no-agents", SKEP_HEARTBEAT_S=str(PERIOD_S)) as skep:
        credentials = _credentials(skep)
        agents = _child("agents", skep.gateway_url)
        _say(agents, credentials)
        _expect(agents, "connected")
        _say(agents, QUIET_S)
        quiet = _lateness(agents)
        _say(agents, ATTACK_S)
        attack = _child("attack", skep.url)
        _say(attack, skep.token)
        attacked = _lateness(agents)
        answers = json.loads(_line(attack))
        for child in (agents, attack):
            child.terminate()
            child.wait(30)
        lost = skep.query("SELECT count(*) FROM core_event WHERE kind = 'node.lost'")[0][0]
    for name, percent in (("p50", 50), ("p99", 99), ("worst", 100)):
        late, usual = (
            percentile(found, percent) if percent < 100 else max(found)
            for found in (attacked, quiet)
        )
        report("heartbeat", f"lateness_{name}", late, "s", usual)
    report("heartbeat", "acknowledged", len(attacked), "heartbeats", AGENTS * ATTACK_S / PERIOD_S)
    report("heartbeat", "nodes_lost", lost, "nodes")
    for what, count in sorted(answers.items()):
        report("heartbeat", f"attack_{what}", count, "requests")


def _credentials(skep: Stack) -> list[str]:
    """Nodes join beside the API: it is not what is measured."""
    command = [sys.executable, "-m", "skep_platform.onebox", "manage", "shell", "-v0", "-c"]
    done = subprocess.run(
        [*command, JOIN.format(nodes=AGENTS)],
        env=environment_of(skep.home),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _child(role: str, url: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.heartbeat", role, url]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _say(child: subprocess.Popen[str], what: object) -> None:
    assert child.stdin
    child.stdin.write(json.dumps(what) + "\n")
    child.stdin.flush()


def _line(child: subprocess.Popen[str]) -> str:
    assert child.stdout
    line = child.stdout.readline()
    if not line:
        raise RuntimeError(f"a child of the benchmark ended with {child.wait()}")
    return line


def _expect(child: subprocess.Popen[str], word: str) -> None:
    if json.loads(_line(child)) != word:
        raise RuntimeError(f"a child did not say {word!r}")


def _lateness(agents: subprocess.Popen[str]) -> list[float]:
    found: list[float] = json.loads(_line(agents))
    return found


# --- the agents: the protocol alone, so that 500 fit into a process


class Node:
    def __init__(self, number: int) -> None:
        self.number = number
        self.late: list[float] = []

    async def run(self, socket: ClientConnection) -> None:
        """Send heartbeats and samples at their period, spread over it."""
        await asyncio.sleep(PERIOD_S * self.number / AGENTS)
        due = time.monotonic()
        for seq in itertools.count(1):
            await socket.send(Heartbeat(seq=seq).model_dump_json())
            await socket.send(self._samples().model_dump_json())
            while not isinstance(parse_server_message(await socket.recv()), HeartbeatAck):
                pass
            self.late.append(time.monotonic() - due)
            due += PERIOD_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def enter(self, url: str, credential: str) -> ClientConnection:
        """Connect, and wait for the welcome."""
        socket = await connect(
            url.replace("http", "ws", 1) + "/ws/agent",
            additional_headers={"Authorization": f"Bearer {credential}"},
            compression=None,
            open_timeout=60,
            ping_interval=None,
            proxy=None,
        )
        hello = Hello(
            agent_version="bench", instance_id=f"i{self.number}", inventory=self._inventory()
        )
        await socket.send(hello.model_dump_json())
        while not isinstance(parse_server_message(await socket.recv()), Welcome):
            pass
        return socket

    def _inventory(self) -> Inventory:
        gpus = [
            Gpu(uuid=uuid, model="Simulated-GPU", memory_mb=81920, index=index)
            for index, uuid in enumerate(self._uuids())
        ]
        return Inventory(
            hostname=f"n{self.number:04}",
            address="127.0.0.1",
            cpus=96,
            memory_mb=1 << 20,
            gpus=gpus,
            runtime="mock",
        )

    def _samples(self) -> Samples:
        gpus = [GpuSample(uuid=u, utilization=50, memory_used_mb=1) for u in self._uuids()]
        return Samples(at=time.time(), gpus=gpus)

    def _uuids(self) -> list[str]:
        return [f"GPU-{self.number:04}-{index}" for index in range(GPUS)]


async def _agents(url: str) -> None:
    credentials: list[str] = json.loads(await asyncio.to_thread(sys.stdin.readline))
    nodes, entering = [Node(number) for number in range(AGENTS)], asyncio.Semaphore(16)

    async def enter(node: Node) -> ClientConnection:
        async with entering:
            return await node.enter(url, credentials[node.number])

    sockets = await asyncio.gather(*map(enter, nodes))
    running = [asyncio.create_task(node.run(s)) for node, s in zip(nodes, sockets, strict=True)]
    print(json.dumps("connected"), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        for node in nodes:
            node.late.clear()
        done, _ = await asyncio.wait(
            running, timeout=json.loads(line), return_when=asyncio.FIRST_COMPLETED
        )
        for ended in done:
            ended.result()
        print(json.dumps([late for node in nodes for late in node.late]), flush=True)


# --- the attackers


async def _attack(url: str) -> None:
    token: str = json.loads(sys.stdin.readline())
    answers: Counter[str] = Counter()
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=None)

    async def one(client: httpx.AsyncClient, request: dict[str, Any]) -> None:
        try:
            answers[str((await client.request(**request)).status_code)] += 1
        except httpx.HTTPError as error:
            answers[type(error).__name__] += 1

    async with (
        httpx.AsyncClient(
            base_url=f"{url}/api/v1", headers=headers, limits=limits, timeout=PATIENCE_S
        ) as client,
        asyncio.TaskGroup() as group,
    ):
        end = time.monotonic() + ATTACK_S
        for request in itertools.cycle(BOMBS):
            if time.monotonic() > end:
                break
            group.create_task(one(client, request))
            await asyncio.sleep(1 / PER_SECOND)
    print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["agents"]:
        asyncio.run(_agents(sys.argv[2]))
    elif sys.argv[1:2] == ["attack"]:
        asyncio.run(_attack(sys.argv[2]))
    else:
        main()
