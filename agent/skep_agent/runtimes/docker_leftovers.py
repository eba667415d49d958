"""Remove what agents that are gone left on this machine.

An agent that leaves takes its bridges and its nftables table away, unless containers still need
them. One that was killed, or whose containers ended only after it, cannot: another agent on the
machine, of whatever cluster, does it after a while, or `skep-agent cleanup` at once. Nothing is
touched of a cluster that has a living agent here (see `network.presence`), nor the bridges of one
that has containers: its agent may come back for their logs.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.network import firewall, names, vxlan
from skep_agent.network.presence import living_tables, unmarked_agents
from skep_agent.runtimes.docker_engine import Engine, EngineError

# A network that is younger may belong to an agent in another network namespace of this machine,
# which is about to create a container on it.
MIN_AGE_S = 600.0

log = structlog.get_logger(__name__)


class Cleanup:
    """One pass over what the engine and the kernel have. Each step returns what it removed, or
    with `dry_run` would remove, as sentences for an administrator. `clusters` limits it to these;
    None: all."""

    def __init__(
        self,
        engine: Engine,
        *,
        clusters: Collection[str] | None = None,
        dry_run: bool = False,
        min_age_s: float = MIN_AGE_S,
        unowned_since: dict[str, float] | None = None,
    ) -> None:
        """`unowned_since`: remove only tables that the passes which share it have seen without
        an owner for `min_age_s`; None: at once."""
        self._engine = engine
        self._unowned_since = unowned_since
        self._only = None if clusters is None else set(map(names.table, clusters))
        self._dry_run = dry_run
        self._min_age_s = min_age_s
        self._living: set[str] = set()
        self._removed_containers: set[str] = set()
        self._removed_interfaces: set[str] = set()

    async def run(self, *, containers: bool = False) -> list[str]:
        """Remove networks, devices and tables, and with `containers` first the containers that do
        not run, with their volumes. Raises RuntimeFailure "engine_down" or "network_unavailable"
        when engine or kernel do not answer."""
        self._living = await asyncio.to_thread(living_tables)
        if self._only is None and (pids := await asyncio.to_thread(unmarked_agents)):
            # It may own anything here.
            raise firewall.unavailable(
                f"an agent of an older version runs (process {min(pids)}), and which leftovers are"
                " its own is not known; upgrade or stop it first"
            )
        done: list[str] = []
        if containers:
            done += await self._containers()
            done += await self._volumes()
        done += await self._networks()
        done += await self._devices()
        done += await self._tables()
        return done

    async def _containers(self) -> list[str]:
        done = []
        for container in await self._all_containers():
            if self._is_kept(container) or container["State"] not in ("created", "exited", "dead"):
                continue
            container_id = container["Id"]
            await self._remove(
                lambda api, id_=container_id: api.remove_container(id_, v=True),
            )
            self._removed_containers.add(container_id)
            done.append(f"container {container['Names'][0].lstrip('/')}")
        return done

    async def _volumes(self) -> list[str]:
        filters = {"label": ["skep.cluster", "skep.scratch"]}
        answer = await self._engine.call(lambda api: api.volumes(filters=filters))
        used = await self._used_clusters()
        done = []
        for volume in answer["Volumes"] or ():
            if not self._is_kept(volume) and _cluster(volume) not in used:
                name = volume["Name"]
                await self._remove(lambda api, name=name: api.remove_volume(name))
                done.append(f"volume {name}")
        return done

    async def _networks(self) -> list[str]:
        used = await self._used_clusters()
        filters = {"label": "skep.cluster"}
        done = []
        for network in await self._engine.call(lambda api: api.networks(filters=filters)):
            keeps = self._is_kept(network) or _cluster(network) in used
            if keeps or _age_s(network) < self._min_age_s:
                continue
            network_id = network["Id"]
            await self._remove(lambda api, id_=network_id: api.remove_network(id_))
            self._removed_interfaces.add(network["Labels"].get("skep.interface", ""))
            done.append(f"network {network['Name']}")
        return done

    async def _devices(self) -> list[str]:
        """Remove VXLAN devices whose bridge is gone."""
        done = []
        for table in await self._unowned_tables():
            try:
                for name in await asyncio.to_thread(vxlan.strays, names.prefix_of_table(table)):
                    if not self._dry_run:
                        await asyncio.to_thread(vxlan.remove, name)
                    self._removed_interfaces.add(name)
                    done.append(f"device {name}")
            except vxlan.LinkError as error:
                raise firewall.unavailable(str(error)) from None
        return done

    async def _tables(self) -> list[str]:
        """Remove tables for which no interface is left: rules match by the interface's name."""
        done = []
        for table in self._long_unowned(await self._unowned_tables()):
            if self._has_interfaces(table, self._removed_interfaces if self._dry_run else ()):
                continue
            if not self._dry_run:
                await firewall.delete_table(table)
            done.append(f"nftables table inet {table}")
        return done

    async def _unowned_tables(self) -> list[str]:
        # Asked anew: an agent may have started meanwhile.
        self._living |= await asyncio.to_thread(living_tables)
        return [table for table in await firewall.tables() if self._may_remove(table)]

    def _long_unowned(self, tables: list[str]) -> list[str]:
        since = self._unowned_since
        if since is None:
            return tables
        for table in set(since) - set(tables):
            del since[table]
        now = time.monotonic()
        return [t for t in tables if now - since.setdefault(t, now) >= self._min_age_s]

    def _has_interfaces(self, table: str, without: Collection[str]) -> bool:
        prefix = names.prefix_of_table(table)
        found = {name for _, name in socket.if_nameindex() if name.startswith(prefix)}
        return bool(found - set(without))

    def _is_kept(self, thing: dict[str, Any]) -> bool:
        return not self._may_remove(names.table(_cluster(thing)))

    def _may_remove(self, table: str) -> bool:
        """Return whether this pass may remove what belongs to the cluster of the table."""
        return table not in self._living and (self._only is None or table in self._only)

    async def _used_clusters(self) -> set[str]:
        containers = await self._all_containers()
        return {_cluster(c) for c in containers if c["Id"] not in self._removed_containers}

    async def _all_containers(self) -> list[dict[str, Any]]:
        filters = {"label": "skep.cluster"}
        return await self._engine.call(lambda api: api.containers(all=True, filters=filters))

    async def _remove(self, question: Any) -> None:
        if self._dry_run:
            return
        try:
            await self._engine.call(question)
        except EngineError as error:
            if error.status not in (403, 404, 409):  # in use again, or gone
                raise


async def clean_quietly(engine: Engine, unowned_since: dict[str, float]) -> None:
    """Clean up as a running agent does from time to time: what cannot be removed now stays."""
    try:
        done = await Cleanup(engine, unowned_since=unowned_since).run()
    except (RuntimeFailure, OSError) as error:
        log.warning("leftovers_not_removed", problem=str(error))
        return
    if done:
        log.info("leftovers_removed", removed=done)


def _cluster(thing: dict[str, Any]) -> str:
    return (thing.get("Labels") or {}).get("skep.cluster", "")


def _age_s(network: dict[str, Any]) -> float:
    """Return the seconds since the engine made it."""
    return (datetime.now(UTC) - datetime.fromisoformat(network["Created"])).total_seconds()
