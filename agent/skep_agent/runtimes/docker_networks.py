"""The bridges that containers are put on.

One bridge for all lonely tasks, on which no two containers reach each other; one for each job whose
tasks share this node. A job's bridge belongs to this node alone (told by its labels, engine names
need not be unique), so that two agents on one engine never remove each other's.
"""

from __future__ import annotations

import asyncio
import ipaddress
from typing import Any

from skep_agent.isolation import Node
from skep_agent.runtimes.base import RuntimeFailure
from skep_agent.runtimes.docker_engine import Engine, EngineError

ISOLATED = "skep-isolated"
# The engine itself has room for about 30 bridges; these are used past that.
MORE_SUBNETS = ipaddress.ip_network("10.213.0.0/16")
SUBNET_PREFIX = 24
_NO_ICC = {"com.docker.network.bridge.enable_icc": "false"}


class Networks:
    def __init__(self, engine: Engine, node: Node) -> None:
        self._engine = engine
        self._owner = {"skep.cluster": node.cluster, "skep.node": node.name}
        self._isolated = ""
        # A bridge without containers is removed: held from finding a bridge to creating the
        # container that keeps it.
        self.lock = asyncio.Lock()

    async def isolated(self) -> str:
        """Id of the bridge for tasks without company, made on first use."""
        if not self._isolated:
            async with self.lock:
                if not await self._find_isolated():
                    await self._create(ISOLATED, {"skep.isolated": "true"}, _NO_ICC)
                # Another agent may have made one at the same moment: all use the oldest.
                self._isolated = (await self._find_isolated())[0]["Id"]
        return self._isolated

    def forget_isolated(self) -> None:
        """Someone removed it."""
        self._isolated = ""

    async def of_job(self, job_id: str) -> str:
        """Id of the job's bridge, made when there is none. Called with `lock` held."""
        labels = {**self._owner, "skep.job": job_id}
        for network in await self._list(labels):
            return network["Id"]
        return await self._create(f"skep-job-{job_id}", labels, {})

    async def remove_unused(self) -> None:
        """Remove every job bridge of this node on which no container counts any more."""
        async with self.lock:
            networks = [n for n in await self._list(self._owner) if "skep.job" in n["Labels"]]
            used = await self._jobs_with_containers() if networks else set()
            for network in networks:
                if network["Labels"]["skep.job"] not in used:
                    await self._remove(network["Id"])

    async def _find_isolated(self) -> list[dict[str, Any]]:
        found = await self._list({"skep.isolated": "true"})
        # One that somebody made by hand without the option would isolate nobody.
        closed = [n for n in found if (n.get("Options") or {}).items() >= _NO_ICC.items()]
        return sorted(closed, key=lambda network: (network["Created"], network["Id"]))

    async def _jobs_with_containers(self) -> set[str]:
        filters = {"label": [f"{name}={value}" for name, value in self._owner.items()]}
        found = await self._engine.get("/containers/json", {"all": True, "filters": filters})
        return {container["Labels"].get("skep.job", "") for container in found}

    async def _list(self, labels: dict[str, str]) -> list[dict[str, Any]]:
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        return await self._engine.get("/networks", {"filters": filters})

    async def _remove(self, network_id: str) -> None:
        try:
            await self._engine.delete(f"/networks/{network_id}")
        except EngineError as error:
            # Gone already, or a stranger's container is on it: the next removal tries again.
            if error.status not in (403, 404):
                raise

    async def _create(self, name: str, labels: dict[str, str], options: dict[str, str]) -> str:
        body = {"Name": name, "Driver": "bridge", "Labels": labels, "Options": options}
        try:
            return (await self._engine.post("/networks/create", body))["Id"]
        except EngineError as error:
            if "IPv4 address pool" not in error.message:
                raise error.failure("create_failed") from None
        return await self._create_in_free_subnet(body)

    async def _create_in_free_subnet(self, body: dict[str, Any]) -> str:
        taken = await self._subnets()
        for subnet in MORE_SUBNETS.subnets(new_prefix=SUBNET_PREFIX):
            if any(subnet.overlaps(other) for other in taken if other.version == subnet.version):
                continue
            ipam = {"Config": [{"Subnet": str(subnet)}]}
            try:
                return (await self._engine.post("/networks/create", {**body, "IPAM": ipam}))["Id"]
            except EngineError as error:
                if "overlaps" not in error.message:
                    raise error.failure("create_failed") from None
        raise RuntimeFailure("create_failed", "No subnet is left for another bridge on this node.")

    async def _subnets(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        configs = [
            config
            for network in await self._engine.get("/networks")
            for config in (network.get("IPAM") or {}).get("Config") or ()
        ]
        return [ipaddress.ip_network(c["Subnet"], strict=False) for c in configs if "Subnet" in c]
