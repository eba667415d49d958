"""The bridges that containers are put on.

One bridge for all lonely tasks of this node, on which no two containers reach each other; one for
each job whose tasks share this node. Several agents may share an engine: such a bridge belongs to
one node of one cluster, by its name (the engine looks bridges up by name when a container starts)
and by its labels, so that no agent ever removes another's.

Lonely tasks have no one to find by name. On engines whose resolver costs each start a process,
their bridge has a name that keeps the engine from starting one: see `_without_resolver`.

The bridge of a gang over nodes belongs to the gang: agents of the cluster that share the engine
share it, and to nodes elsewhere it goes on through a VXLAN device. The name of its interface says
to the firewall whose a bridge is: one without such a name is never used.
"""

from __future__ import annotations

import asyncio
import fcntl
import ipaddress
import os
import re
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import structlog

from skep_agent.config import interfaces
from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.network import names, vxlan
from skep_agent.network.firewall import Firewall, unavailable
from skep_agent.network.plan import Plan
from skep_agent.protocol import NetworkPolicy
from skep_agent.runtimes.docker_engine import Engine, EngineError

log = structlog.get_logger(__name__)

# The engine itself has subnets for about 30 bridges; these are used past that.
MORE_SUBNETS = ipaddress.ip_network("10.213.0.0/16")
SUBNET_PREFIX = 24
FRESH_S = 10.0
_NO_COMPANY = {"com.docker.network.bridge.enable_icc": "false"}
_INTERFACE = "com.docker.network.bridge.name"
_MTU = "com.docker.network.driver.mtu"
LOCAL_MTU = 1500  # bytes; of a gang on one machine
RESOLV_CONF, SYSTEMD_RESOLV_CONF = (
    Path("/etc/resolv.conf"),
    Path("/run/systemd/resolve/resolv.conf"),
)
_STUB = "127.0.0.53"  # of systemd-resolved: the engine then reads the second file, too
# Of the API: up to this one (Docker 20.10) it was tried and measured.
_RESOLVER_IS_A_PROCESS = (1, 41)

T = TypeVar("T")
LOCK_WAIT_S = 60.0
_LOCK_POLL_S = 0.02


class Networks:
    def __init__(self, engine: Engine, node: NodeFacts, fence: Firewall | None = None) -> None:
        """Without a fence, bridges have no rules."""
        self._engine = engine
        self._node = node
        self._fence = fence
        self._owner = {"skep.cluster": node.cluster, "skep.node": node.name}
        self._named = ""  # of the bridge for lonely tasks
        self._isolated, self._isolated_until = "", 0.0  # its id, and how long it is trusted
        # A bridge without containers is removed: held from finding a bridge to creating the
        # container that keeps it.
        self.lock = asyncio.Lock()

    async def isolated(self) -> str:
        """Return the id of the bridge for tasks that reach no other task. It is made on first use,
        and again when someone removed it, as `docker network prune` does while no task runs; a
        look for each of many tasks would cost 2 ms each."""
        async with self.lock:
            if time.monotonic() < self._isolated_until:
                return self._isolated
            interface = names.interface(self._node.cluster, "i", self._node.name)
            labels = {"skep.isolated": "yes"}
            if not self._named:
                name = self._name("isolated")
                self._named = f"container:{name}" if await self._without_resolver() else name
            self._isolated = await self._ensure(self._named, interface, labels, _NO_COMPANY)
            self._isolated_until = time.monotonic() + FRESH_S
            return self._isolated

    async def _without_resolver(self) -> bool:
        """Return whether lonely tasks ask the node's name servers themselves.

        On every network but the default bridge the engine starts a resolver for a container. Docker
        20.10 starts a process for that, which takes 65 of 350 ms of a start. For a network of the
        name `container:...` it starts none and gives the container the node's `resolv.conf`, as on
        the default bridge. Lonely tasks need the resolver only where that names none but loopback
        addresses, which only the engine reaches. What a task reaches is as before: of the network
        only the name differs, and the resolver asks from the container's own network, too.
        """
        version = (await self._engine.version()).api
        known = tuple(map(int, version.split("."))) <= _RESOLVER_IS_A_PROCESS
        return known and bool(self._engine.host.socket_path) and name_servers_are_reached()

    async def restore(self, container: dict[str, Any], error: EngineError) -> bool:
        """Return whether a container did not start for want of a bridge, which is there again now:
        the engine finds it by its name. That of a gang is not, as it has to be joined with other
        nodes."""
        if error.status != 404 or not re.search(r"network .* not found", error.message):
            return False
        log.warning("network_removed", container_id=container["Id"], problem=error.message)
        labels = container["Config"]["Labels"]
        match labels.get("skep.network"):
            case "isolated":
                self._isolated_until = 0.0
                await self.isolated()
            case "job":
                async with self.lock:
                    await self.of_job(labels["skep.job"])
            case _:
                return False
        return True

    async def of_job(self, job_id: str) -> str:
        """Id of the job's bridge, made when there is none. Called with `lock` held."""
        key = f"{self._node.name} {job_id}"
        interface = names.interface(self._node.cluster, "j", key)
        name = self._name(f"job-{job_id}")
        return await self._ensure(name, interface, {"skep.job": job_id}, {})

    @asynccontextmanager
    async def of_gang(self, plan: Plan) -> AsyncIterator[str]:
        """The id of the gang's bridge, made and joined with the other nodes when it was not; it
        stays while the container is created within. Raises RuntimeFailure
        "network_unavailable"."""
        async with self.lock, machine_lock(self._node.cluster):
            elsewhere = {a: n for a, n in plan.others.items() if not vxlan.is_local(n)}
            if elsewhere and self._fence is None:
                raise unavailable("gangs over several machines need an agent with its fence")
            network_id = await self._gang_bridge(plan, bool(elsewhere))
            if elsewhere:
                await self._join(plan, elsewhere)
            yield network_id

    @property
    def gangs_over_nodes(self) -> bool:
        """Whether this node can take part in the network of a gang. Without a fence only with nodes
        on this machine: VXLAN from anybody would be let in."""
        address = self._node.address
        return is_ipv4(address) and (
            self._fence is not None or ipaddress.IPv4Address(address).is_loopback
        )

    def use_policy(self, policy: NetworkPolicy) -> None:
        if self._fence is not None:
            self._fence.use(policy)

    async def ensure_fence(self) -> None:
        """Return when nothing that is started now reaches what it should not. Raises
        RuntimeFailure "network_unavailable"."""
        if self._fence is not None:
            await self._fence.ensure()

    async def close(self) -> None:
        """Leave nothing behind that no container needs."""
        with suppress(RuntimeFailure):
            await self.remove_unused(isolated=True)
        if self._fence is not None:
            await self._fence.leave()

    async def remove_unused(self, *, isolated: bool = False) -> None:
        """Remove every job's bridge of this node on which no container counts any more; and the
        one for lonely tasks too, if asked, when the node has no container at all."""
        async with self.lock:
            networks = await self._list(self._owner)
            jobs = await self._jobs_with_containers() if networks else set()
            for network in networks:
                job = network["Labels"].get("skep.job")
                if job not in jobs if job else isolated and not jobs:
                    await self._remove(network["Id"])
            if await self._list_gangs():
                async with machine_lock(self._node.cluster):
                    await self._remove_unused_gangs()

    async def _gang_bridge(self, plan: Plan, spans: bool) -> str:
        """Create the gang's bridge. `spans` says whether it reaches other machines."""
        interface = self._interface(plan.vni, "g")
        labels = {
            "skep.cluster": self._node.cluster,
            "skep.gang": str(plan.vni),
            "skep.subnet": str(plan.subnet),
            "skep.interface": interface,
        }
        if found := await self._list(labels):
            return found[0]["Id"]
        _check_free(plan.subnet)
        mtu = await self._mtu(plan) if spans else LOCAL_MTU
        options = {_INTERFACE: interface, _MTU: str(mtu)}
        name = re.sub(r"[^0-9A-Za-z_.-]", "_", f"skep-gang-{plan.vni}.{self._node.cluster}")
        network_id = await self._create_gang(name, labels, options, plan)
        if self._fence is not None:
            _check_shared(interface)
        return network_id

    async def _create_gang(
        self, name: str, labels: dict[str, str], options: dict[str, str], plan: Plan
    ) -> str:
        for last in (False, True):
            try:
                return await self._create_in(
                    name, labels, options, str(plan.subnet), plan.here.gateway
                )
            except EngineError as error:
                # Perhaps the bridge of a gang that is over, or of an attempt before a reboot.
                if last or not await self._remove_unused_gangs():
                    raise unavailable(f"the engine makes no bridge: {error.message}") from None
        raise AssertionError("not reached")

    async def _join(self, plan: Plan, elsewhere: dict[str, str]) -> None:
        here = plan.here.address
        if not vxlan.is_local(here):
            raise unavailable(
                f"{here} is not an address of this machine; start the agent with the --address "
                "that other nodes reach"
            )
        bridge, name = self._interface(plan.vni, "g"), self._interface(plan.vni, "v")
        mtu = await self._mtu(plan)
        made = await self._linked(vxlan.join, name, bridge, plan.vni, here, elsewhere, mtu)
        if made and self._fence is not None:
            await self._fence.renew()

    async def _mtu(self, plan: Plan) -> int:
        """Of what a packet between nodes takes, without what is put around it."""
        return await self._linked(vxlan.underlay_mtu, plan.here.address) - vxlan.OVERHEAD_BYTES

    async def _list_gangs(self) -> list[dict[str, Any]]:
        filters = {"label": [f"skep.cluster={self._node.cluster}", "skep.gang"]}
        return await self._engine.call(lambda api: api.networks(filters=filters))

    async def _remove_unused_gangs(self) -> bool:
        """Those on which no node of this engine has a container; whether there were any."""
        filters = {"label": [f"skep.cluster={self._node.cluster}", "skep.gang"]}
        found = await self._engine.call(lambda api: api.containers(all=True, filters=filters))
        used = {container["Labels"]["skep.gang"] for container in found}
        unused = [n for n in await self._list_gangs() if n["Labels"]["skep.gang"] not in used]
        for network in unused:
            await self._remove(network["Id"])
        prefix = names.prefix(self._node.cluster)
        strays = await self._linked(vxlan.strays, prefix)
        for name in strays:
            await self._linked(vxlan.remove, name)
        if strays and self._fence is not None:
            with suppress(RuntimeFailure):  # what is left of them lets nothing in
                await self._fence.renew()
        return bool(unused)

    def _interface(self, vni: int, kind: names.Kind) -> str:
        return names.interface(self._node.cluster, kind, str(vni))

    async def _linked(self, question: Callable[..., T], *arguments: object) -> T:
        try:
            return await asyncio.to_thread(question, *arguments)
        except vxlan.LinkError as error:
            raise unavailable(str(error)) from None

    async def _ensure(
        self, name: str, interface: str, labels: dict[str, str], options: dict[str, str]
    ) -> str:
        labels = {**self._owner, **labels, "skep.interface": interface}
        found = [network["Id"] for network in await self._list(labels)]
        options = {**options, _INTERFACE: interface}
        network_id = found[0] if found else await self._create(name, labels, options)
        if self._fence is not None:
            _check_shared(interface)
        return network_id

    def _name(self, name: str) -> str:
        full = f"skep-{name}.{self._node.name}.{self._node.cluster}"
        return re.sub(r"[^0-9A-Za-z_.-]", "_", full)

    async def _jobs_with_containers(self) -> set[str]:
        filters = {"label": [f"{name}={value}" for name, value in self._owner.items()]}
        found = await self._engine.call(lambda api: api.containers(all=True, filters=filters))
        return {container["Labels"].get("skep.job", "") for container in found}

    async def _list(self, labels: dict[str, str]) -> list[dict[str, Any]]:
        filters = {"label": [f"{name}={value}" for name, value in labels.items()]}
        return await self._engine.call(lambda api: api.networks(filters=filters))

    async def _remove(self, network_id: str) -> None:
        try:
            await self._engine.call(lambda api: api.remove_network(network_id))
        except EngineError as error:
            # Gone already, or a stranger's container is on it: the next removal tries again.
            if error.status not in (403, 404):
                raise

    async def _create(self, name: str, labels: dict[str, str], options: dict[str, str]) -> str:
        try:
            return await self._create_in(name, labels, options)
        except EngineError as error:
            if "IPv4 address pool" not in error.message:
                raise error.failure("create_failed") from None
        taken = await self._subnets()
        for subnet in MORE_SUBNETS.subnets(new_prefix=SUBNET_PREFIX):
            if any(subnet.overlaps(other) for other in taken if other.version == subnet.version):
                continue
            try:
                return await self._create_in(name, labels, options, str(subnet))
            except EngineError as error:
                if "overlaps" not in error.message:
                    raise error.failure("create_failed") from None
        raise RuntimeFailure("create_failed", "No subnet is left for another bridge on this node.")

    async def _create_in(
        self,
        name: str,
        labels: dict[str, str],
        options: dict[str, str],
        subnet: str = "",
        gateway: str | None = None,
    ) -> str:
        """In a subnet of the engine's choice unless one is given."""
        from docker.types import IPAMConfig, IPAMPool

        ipam = (
            IPAMConfig(pool_configs=[IPAMPool(subnet=subnet, gateway=gateway)]) if subnet else None
        )
        made = await self._engine.call(
            lambda api: api.create_network(
                name,
                driver="bridge",
                options=options,
                ipam=ipam,
                check_duplicate=True,
                labels=labels,
            )
        )
        return made["Id"]

    async def _subnets(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        configs = [
            config
            for network in await self._engine.call(lambda api: api.networks())
            for config in (network.get("IPAM") or {}).get("Config") or ()
        ]
        return [ipaddress.ip_network(c["Subnet"], strict=False) for c in configs if "Subnet" in c]


def _check_free(subnet: ipaddress.IPv4Network) -> None:
    """The engine does not look whether a subnet that it is given is the node's own."""
    for name, address in interfaces():
        if ipaddress.IPv4Address(address) in subnet and not name.startswith("sk"):
            raise unavailable(
                f"{subnet} is the network of its interface {name}; an admin sets SKEP_GANG_POOL to "
                "a network that no node uses"
            )


def name_servers_are_reached() -> bool:
    """Return whether a container reaches a name server of the `resolv.conf` that the engine gives
    it: without one it would give it public ones, which do not know private names."""
    found = _name_servers(RESOLV_CONF)
    if found == [_STUB]:
        found = _name_servers(SYSTEMD_RESOLV_CONF)
    return any(is_ipv4(a) and not ipaddress.IPv4Address(a).is_loopback for a in found)


def _name_servers(path: Path) -> list[str]:
    try:
        lines = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return []
    return [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]


def is_ipv4(address: str) -> bool:
    try:
        ipaddress.IPv4Address(address)
    except ValueError:
        return False
    return True


def _check_shared(interface: str) -> None:
    """Our rules are worth nothing in another network namespace than that of the bridges."""
    try:
        socket.if_nametoindex(interface)
    except OSError:
        problem = (
            "the engine's bridges are not in the agent's network namespace; run the agent in the "
            "network of the node (network_mode: host, hostNetwork: true)"
        )
        raise unavailable(problem) from None


@asynccontextmanager
async def machine_lock(cluster: str) -> AsyncIterator[None]:
    """Hold the lock that all agents of one cluster on a machine share. Raises RuntimeFailure
    "network_unavailable" when another agent does not release it.

    Agents that share an engine share the bridge of a gang: none may remove it between another's
    look for it and its creating of a container there.
    """
    path = _lock_path(cluster)
    try:
        # Not followed where it is a link: others may write to the folder of a user's agent.
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unavailable(f"{path} cannot be opened: {error.strerror}") from None
    try:
        deadline = time.monotonic() + LOCK_WAIT_S
        # Polled: a thread that waits for it could not be called back.
        while not _locked(file):
            if time.monotonic() > deadline:
                raise unavailable(f"another agent holds {path} for {LOCK_WAIT_S:g} s")
            await asyncio.sleep(_LOCK_POLL_S)
        yield
    finally:
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock_path(cluster: str) -> Path:
    name = f"{names.table(cluster)}.lock"
    return Path("/run") / name if os.geteuid() == 0 else Path(f"/tmp/{os.geteuid()}-{name}")  # noqa: S108
