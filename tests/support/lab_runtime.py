"""The runtime of an agent in a namespace of its own, controlled by lines of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.network.firewall import Firewall
from skep_agent.protocol import AttemptSpec, NetworkPolicy
from skep_agent.runtimes.docker import DockerRuntime


async def main(what: dict[str, str]) -> None:
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    fence = Firewall(what["cluster"], what["server"]) if what["server"] else None
    node = NodeFacts(what["cluster"], what["name"], what["address"], simulated_gpus=True)
    runtime = DockerRuntime(node, what["socket"], fence=fence)
    while line := await asyncio.to_thread(sys.stdin.readline):
        name, arguments = json.loads(line)
        try:
            answer: dict[str, Any] = {"is": await _do(runtime, name, arguments)}
        except RuntimeFailure as failure:
            answer = {"error": f"{failure.code}: {failure.message}"}
        print(json.dumps(answer), flush=True)


async def _do(runtime: DockerRuntime, name: str, arguments: dict[str, Any]) -> object:
    match name:
        case "create":
            return await runtime.create(AttemptSpec(**arguments["spec"]))
        case "start":
            return await runtime.start(arguments["container_id"])
        case "remove":
            return await runtime.remove(arguments["container_id"])
        case "use_policy":
            return runtime.use_network_policy(NetworkPolicy(**arguments["policy"]))
        case "ensure":
            return await runtime.ensure_network()
    raise AssertionError(name)


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
