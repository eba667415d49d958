"""The scratch of tasks: named volumes of the engine that stay from one attempt to the next.

A volume belongs to a job and a task of it, on one node. Only volumes that carry this node's labels
are ever used or removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import structlog

from skep_agent.isolation import Node, scratch_labels, scratch_volume
from skep_agent.protocol import AttemptSpec
from skep_agent.runtimes.base import RuntimeFailure
from skep_agent.runtimes.docker_engine import Engine, EngineError

log = structlog.get_logger(__name__)


class Scratches:
    def __init__(self, engine: Engine, node: Node) -> None:
        self._engine = engine
        self._node = node
        self._quotas = True  # until the engine says that its file system has none
        self._lock = asyncio.Lock()  # nothing is removed that is about to be mounted

    async def ensure(self, spec: AttemptSpec) -> None:
        """Make the volume of a task unless it is there. Its size is held by the file system where
        that has project quotas. Raises RuntimeFailure "create_failed", also for a volume of this
        name that somebody else made."""
        if not spec.scratch_mb:
            return
        name, labels = scratch_volume(spec, self._node), scratch_labels(spec, self._node)
        async with self._lock:
            found = await self._create(name, labels, spec.scratch_mb)
        if (found.get("Labels") or {}) != labels or found.get("Driver") != "local":
            raise RuntimeFailure("create_failed", f"The volume {name} is not this task's.")

    async def jobs(self) -> set[str]:
        """Return the ids of the jobs that have scratch on this node."""
        return {job for job, _ in await self._volumes()}

    async def remove(self, jobs: Collection[str]) -> None:
        """Remove the scratch of these jobs. What a container still uses stays for now."""
        async with self._lock:
            for job, name in await self._volumes():
                if job in jobs:
                    await self._remove(name)

    async def _create(self, name: str, labels: dict[str, str], size_mb: int) -> dict:
        try:
            options = {"size": f"{size_mb}M"} if self._quotas else {}
            return await self._engine.call(
                lambda api: api.create_volume(name, "local", options, labels)
            )
        except EngineError as error:
            if not self._quotas or "quota" not in error.message.lower():
                raise error.failure("create_failed") from None
            self._quotas = False
            log.info("scratch_without_quota", problem=error.message)
            return await self._create(name, labels, size_mb)

    async def _volumes(self) -> list[tuple[str, str]]:
        """(job, name) of those of this node."""
        mine = [f"skep.cluster={self._node.cluster}", f"skep.node={self._node.name}"]
        filters = {"label": [*mine, "skep.scratch"]}
        answer = await self._engine.call(lambda api: api.volumes(filters=filters))
        return [(v["Labels"]["skep.job"], v["Name"]) for v in answer["Volumes"] or ()]

    async def _remove(self, name: str) -> None:
        try:
            await self._engine.call(lambda api: api.remove_volume(name))
        except EngineError as error:
            if error.status not in (404, 409):  # 409: a container uses it
                raise
