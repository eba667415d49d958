"""What this node has, as its agent reports it: gathered at the start, and looked at again."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterable
from typing import Any

import structlog

from skep_agent.accelerators.rdma import rdma_devices
from skep_agent.config import AgentConfig, machine_versions, own_address
from skep_agent.containers import RuntimeFailure
from skep_agent.inventory import NodeWarning
from skep_agent.journal import Journal
from skep_agent.protocol import Gpu, Inventory
from skep_agent.runtimes.base import Runtime
from skep_agent.shell import probing
from skep_agent.shell.probing import Probing
from skep_agent.shell.tasks import going_on

log = structlog.get_logger(__name__)


class NodeInventory:
    """The inventory but for the GPUs' present health, which the core knows."""

    def __init__(
        self, config: AgentConfig, server: str, runtime: Runtime, probing: Probing, journal: Journal
    ) -> None:
        self._config = config
        self._server = server
        self._runtime = runtime
        self._probing = probing
        self._journal = journal
        self._found: dict[str, Any] = {}

    def with_gpus(self, gpus: list[Gpu]) -> Inventory:
        return Inventory(**self._found, gpus=gpus)

    async def gather(self, gpus: Iterable[Gpu]) -> None:
        config, limits = self._config, self._config.limits()
        await self._probing.see_about(gpus)
        self._found = {
            "hostname": platform.node(),
            "address": config.address or own_address(self._server),
            "cpus": limits.cpus,
            "memory_mb": limits.memory_mb,
            "engine_version": await self._runtime.version(),
            "runtime": self._runtime.name,
            "port_range": config.port_range,
            "rdma_devices": list(rdma_devices()),
            "labels": config.labels,
            **await self._of_driver(),
            **await self._network(),
            "warnings": await self._warnings(),
        }

    async def see_gpus(self, gpus: list[Gpu]) -> bool:
        """Note which GPUs are here now. Returns whether what is said of them together changed."""
        changed = await self._probing.see_about(gpus)
        await asyncio.to_thread(self._probing.remember, gpus)
        return changed and self._note(await self._of_driver())

    async def look(self) -> bool:
        """Look at what changes while an agent runs. Returns whether it did. Raises AddressFound."""
        found = await self._network() | {"warnings": await self._warnings()}
        reported = self._found["address"]
        await asyncio.to_thread(self._config.check_address, reported, self._server)
        return self._note(found)

    def _note(self, found: dict[str, Any]) -> bool:
        changed = not found.items() <= self._found.items()
        self._found |= found
        return changed

    async def _of_driver(self) -> dict[str, Any]:
        about = self._probing.about
        return {
            "topology": about.topology,
            "driver_version": about.driver_version,
            "components": await self._runtime.components() | machine_versions(about.firmware),
        }

    async def _network(self) -> dict[str, Any]:
        """Return what of the network the node can offer now."""
        problem = ""
        try:
            await self._runtime.ensure_network()
        except RuntimeFailure as failure:
            problem = failure.message
            log.error(failure.code, problem=problem)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            log.exception("network_not_seen")
        possible = self._runtime.gang_network and not problem
        return {"gang_network": possible, "network_problem": problem}

    async def _warnings(self) -> list[NodeWarning]:
        found: list[NodeWarning] = []
        if self._journal.problem:
            action = (
                "Look at the disk of the agent's state directory: tasks that run go on, and those"
                " that start here may fail."
            )
            text = f"The agent cannot write down what runs: {self._journal.problem}."
            found.append(NodeWarning(code="state_not_written", message=text, action=action))
        if self._probing.silent:
            found.append(probing.WARNING)
        with going_on("runtime_not_seen"):
            found += await self._runtime.warnings()
        return found
