"""Containers on a Docker engine: the `Runtime` of real nodes."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from skep_agent.config import Watermarks
from skep_agent.containers import Container, Exit, Progress, RuntimeFailure, SavedImage
from skep_agent.inventory import NodeWarning
from skep_agent.isolation.create import (
    CreateCall,
    EngineFacts,
    ImageFacts,
    NodeFacts,
    check_spec,
    create_call,
)
from skep_agent.isolation.mounts import StoragePolicy
from skep_agent.network.firewall import Firewall
from skep_agent.network.plan import plan_of
from skep_agent.network.presence import Presence
from skep_agent.protocol import (
    AttemptSpec,
    CachedImage,
    ContainerSample,
    ImageSpec,
    NetworkPolicy,
    S3Mount,
)
from skep_agent.registry_policy import RegistryPolicy
from skep_agent.runtimes import docker_exec, docker_files, docker_node, processes
from skep_agent.runtimes.base import AttemptKey, Command, LogPiece, Process, SaveOrder
from skep_agent.runtimes.docker_disk import DiskWatch, Scratches, has_quota
from skep_agent.runtimes.docker_engine import (
    ANSWER_TIMEOUT_S,
    THREADS,
    Engine,
    EngineError,
    EngineHost,
    is_alive,
    start_failure,
)
from skep_agent.runtimes.docker_exits import RECONNECT_S, ExitWatcher
from skep_agent.runtimes.docker_images import Images, is_mark
from skep_agent.runtimes.docker_leftovers import clean_quietly
from skep_agent.runtimes.docker_logs import LogReader
from skep_agent.runtimes.docker_networks import Networks
from skep_agent.runtimes.docker_node import check_free, is_full, space_mb, toolkit_version
from skep_agent.runtimes.docker_save import Saver
from skep_agent.runtimes.docker_stats import MIB, Stats
from skep_agent.runtimes.image_cache import ImageCache
from skep_agent.runtimes.object_notes import key_of
from skep_agent.runtimes.object_stores import ObjectStores
from skep_agent.runtimes.scratch_images import ScratchImages
from skep_agent.runtimes.storages import StorageMounts, bind_sources

# Engine calls at a time where all containers are asked.
PARALLEL = 8
_KILLED = 128 + 9
_STATUS = {"created": "created", "exited": "exited", "dead": "exited", "removing": "exited"}
_NEVER = "0001-01-01T"  # of Go's zero time
_LABELS = ("skep.cluster", "skep.node", "skep.attempt", "skep.epoch")

log = structlog.get_logger(__name__)


class DockerRuntime:
    """One node's containers: those that carry its labels. Several nodes may share an engine.
    `state` is the agent's folder; None keeps nothing."""

    name = "docker"

    def __init__(
        self,
        node: NodeFacts,
        host: str = "",
        *,
        state: Path | None = None,
        threads: int = THREADS,
        fence: Firewall | None = None,
        registries: RegistryPolicy | None = None,
        storages: StoragePolicy | None = None,
        watermarks: Watermarks | None = None,
    ) -> None:
        """Connect nothing yet. `fence` has the rules of what containers reach; None sets none.
        `registries` are those that images may come from; None allows any. `storages` are those that
        may be mounted; None allows no host path. `watermarks` say when images are removed; None
        removes none."""
        self._node = node
        self._labels = [f"skep.cluster={node.cluster}", f"skep.node={node.name}"]
        self._presence = Presence(node.cluster)
        self._engine = Engine(host, threads=threads)
        self._cache = ImageCache(
            self._engine, state and state / "image-cache.json", watermarks or Watermarks(0)
        )
        self._images = Images(
            self._engine, state and state / "private-pulls.json", registries, self._cache
        )
        self._saver = Saver(self._engine, node, self._images, state)
        self._fence = fence
        self._unowned_since: dict[str, float] = {}  # tables of others, on the monotonic clock
        self._networks = Networks(self._engine, node, fence)
        files = ScratchImages(state and state / "scratch", node)
        self._scratches = Scratches(self._engine, node, files)
        self._objects = ObjectStores(state and state / "objects", storages or StoragePolicy())
        self.learn, self.forget = self._objects.learn, self._objects.forget
        self._storages = StorageMounts(node, storages or StoragePolicy(), self._objects.source)
        self._exits = ExitWatcher(self._engine, self._labels)
        self._logs = LogReader(self._engine)
        self._stats = Stats(self._engine)
        self._disk = DiskWatch(self._engine, lambda id_: self._kill(id_, "SIGKILL"))
        self._live_restore = docker_node.LiveRestore(self._engine)
        self._cpus, self._disk_quota = 0, False
        self._root = ""  # where the engine keeps containers; "" before it was asked

    @property
    def engine_host(self) -> EngineHost:
        """Where the engine listens: the watchdog asks it, too."""
        return self._engine.host

    @property
    def labels(self) -> list[str]:
        """What every container of this node carries, and no other."""
        return self._labels

    def disk_mb(self) -> tuple[int, int] | None:
        return space_mb(self._root) if self._root else None

    async def version(self) -> str:
        return (await self._engine.version()).version

    async def components(self) -> dict[str, str]:
        runc = (await self._engine.version()).runc
        found = {"runc": runc, "toolkit": await toolkit_version()}
        return {name: version for name, version in found.items() if version}

    async def warnings(self) -> builtins.list[NodeWarning]:
        return [*await self._live_restore.warnings(), *self._disk.warnings()]

    @property
    def gang_network(self) -> bool:
        return self._networks.gangs_over_nodes

    def use_network_policy(self, policy: NetworkPolicy) -> None:
        self._networks.use_policy(policy)

    async def ensure_network(self) -> None:
        await self._networks.ensure_fence()

    async def clean_images(self) -> None:
        await self._cache.clean(self.disk_mb, is_mark)

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        await self._images.pull(image, progress)

    async def fetch(
        self, key: AttemptKey, mounts: tuple[S3Mount, ...], progress: Callable[[Progress], None]
    ) -> None:
        await self._objects.fetch(key, mounts, progress)

    async def write_back(self, key: AttemptKey, may_go_on: Callable[[], bool]) -> None:
        await self._objects.sync(key, may_go_on)

    async def images(self) -> builtins.list[CachedImage]:
        return await self._images.names()

    async def create(
        self,
        spec: AttemptSpec,
        archive: BinaryIO | None = None,
        created: Callable[[], None] = lambda: None,
    ) -> str:
        check_spec(spec)
        await self._networks.ensure_fence()
        image = await self._images.facts(spec.image)
        scratch = await self._scratches.ensure(spec)
        with self._storages.prepared(spec, scratch):
            try:
                container_id = await self._create_in_network(spec, image, scratch is not None)
            except RuntimeFailure as failure:
                if failure.code != "image_not_found":
                    raise
                self._images.forget(spec.image)
                image = await self._images.facts(spec.image)
                container_id = await self._create_in_network(spec, image, scratch is not None)
            try:
                owner = await docker_files.put(
                    self._engine, container_id, image.user, spec, archive
                )
                await self._objects.hand_over(spec, owner)
                created()
                await self._storages.mount(spec, owner, scratch)
            except RuntimeFailure:
                with suppress(RuntimeFailure):
                    await self.remove(container_id)
                raise
        return container_id

    async def start(self, container_id: str, ports: Sequence[int] = ()) -> None:
        """A container is started once: what was started before is left as it is, also when it is
        over. Waits for an engine that does not answer, for it may have started it."""
        check_free(ports)
        restored = False
        while (found := await self._not_started(container_id)) is not None:
            await self._networks.ensure_fence()
            sources = bind_sources(found)
            await self._storages.check(sources)
            try:
                await self._engine.call(lambda api: api.start(container_id), repeat=False)
                await self._storages.release(sources)
                break
            except EngineError as error:
                if not (restored := not restored and await self._networks.restore(found, error)):
                    if await self._not_started(container_id) is None:
                        break  # whatever the engine said of its start
                    raise start_failure(error) from None
            except RuntimeFailure as failure:
                log.warning("start_unanswered", container_id=container_id, problem=failure.message)
            await asyncio.sleep(RECONNECT_S)
        self._stats.started(container_id)

    async def signal(self, container_id: str, signal: str) -> bool:
        try:
            found = await self._inspect(container_id)
        except RuntimeFailure as failure:
            if failure.code != "container_gone":
                raise
            return True
        if not is_alive(found):
            return True
        return await processes.send(found, signal, lambda c: self.exec(container_id, c))

    async def stop(self, container_id: str, grace_s: float) -> None:
        """As the engine's own stop, which would hold a thread for the whole grace time."""
        for signal, wait_s in (("SIGTERM", grace_s), ("SIGKILL", ANSWER_TIMEOUT_S)):
            await self._kill(container_id, signal)
            try:
                async with asyncio.timeout(wait_s):
                    await self._ended(container_id)
                return
            except TimeoutError:
                continue
        raise RuntimeFailure("engine_down", f"{container_id[:12]} does not end after SIGKILL.")

    async def wait(self, container_id: str) -> Exit:
        """Wait for the end of the container, also past a restart of the engine. Raises
        RuntimeFailure "container_gone" when someone removed the container."""
        async with aclosing(self._exits.looks(container_id)) as looks:
            async for _ in looks:
                found = await self._patient_inspect(container_id)
                if exit := self._exit_of(container_id, found):
                    return exit
                self._disk.watch(found, self._root, self._objects.watched(found))
        raise AssertionError("looks() has no end")

    async def _ended(self, container_id: str) -> None:
        """Until it runs no more, also when it never did."""
        async with aclosing(self._exits.looks(container_id)) as looks:
            async for _ in looks:
                try:
                    if not is_alive(await self._patient_inspect(container_id)):
                        return
                except RuntimeFailure as failure:
                    if failure.code == "container_gone":
                        return
                    raise

    def logs(self, container_id: str) -> AsyncGenerator[LogPiece]:
        async def is_running() -> bool:
            return is_alive(await self._inspect(container_id))

        return self._logs.follow(container_id, is_running)

    async def remove(self, container_id: str) -> None:
        try:
            found = await self._inspect(container_id)
            await self._remove(container_id)
        except RuntimeFailure as failure:
            if failure.code != "container_gone":
                raise
        else:
            await self._storages.release(bind_sources(found))
            if key := key_of(found["Config"]["Labels"]):
                await self._objects.discard(key)
            if found["Config"]["Labels"].get("skep.network") in ("job", "gang"):
                await self._networks.remove_unused()
        self._stats.forget(container_id)
        self._disk.forget(container_id)

    async def sample(self, containers: dict[str, str]) -> list[ContainerSample]:
        limit = asyncio.Semaphore(PARALLEL)

        async def sample(attempt_id: str, container_id: str) -> ContainerSample | None:
            async with limit:
                return await self._stats.sample(attempt_id, container_id)

        samples = await asyncio.gather(*(sample(*pair) for pair in containers.items()))
        return [sample for sample in samples if sample is not None]

    async def list(self) -> list[Container]:
        await self._engine_facts()
        filters = {"label": self._labels}
        made = await self._storages.made()
        found = await self._engine.call(lambda api: api.containers(all=True, filters=filters))
        created = [summary for summary in found if summary["State"] == "created"]
        needed = {source for one in created for source in bind_sources(one)}
        with suppress(OSError):  # a disk that fails: what runs is to be known all the same
            await self._storages.tidy(made, needed)
            await self._objects.tidy({key for one in found if (key := key_of(one["Labels"]))})
        limit = asyncio.Semaphore(PARALLEL)

        async def describe(summary: dict[str, Any]) -> Container | None:
            async with limit:
                return await self._describe(summary)

        containers = await asyncio.gather(*(describe(summary) for summary in found))
        return [container for container in containers if container is not None]

    async def save(self, container_id: str, order: SaveOrder) -> SavedImage:
        return await self._saver.save(await self._inspect(container_id), order)

    async def exec(self, container_id: str, command: Command) -> Process:
        return await docker_exec.begin(self._engine, await self._inspect(container_id), command)

    async def address(self, container_id: str) -> str | None:
        found = await self._inspect(container_id)
        if found["HostConfig"]["NetworkMode"] == "host":
            return None
        for network in found["NetworkSettings"]["Networks"].values():
            if address := network["IPAddress"]:
                return address
        raise RuntimeFailure("not_running", "The task has no address: it does not run.")

    async def scratch_jobs(self) -> set[str]:
        return await self._scratches.jobs()

    async def remove_scratch(self, jobs: Collection[str]) -> None:
        await self._scratches.remove(jobs)

    async def remove_leftovers(self) -> None:
        await asyncio.to_thread(self._objects.kept.tidy)
        if self._fence is not None:  # without one the agent may have no rights to any table
            await clean_quietly(self._engine, self._unowned_since)

    async def close(self) -> None:
        await self._exits.close()
        self._logs.close()
        await self._disk.close()
        self._storages.close()
        self._objects.close()
        await self._networks.close()
        await self._engine.close()
        self._presence.close()

    async def _engine_facts(self) -> EngineFacts:
        version = await self._engine.version()
        if not self._cpus:
            info = await self._engine.call(lambda api: api.info())
            self._cpus, self._root = info["NCPU"], info["DockerRootDir"]
            self._disk_quota = has_quota(info)
        return EngineFacts(self._cpus, version.init, version.api, self._disk_quota)

    async def _create_in_network(
        self, spec: AttemptSpec, image: ImageFacts, scratch_image: bool
    ) -> str:
        engine = replace(await self._engine_facts(), scratch_image=scratch_image)
        if spec.network == "gang":
            async with self._networks.of_gang(plan_of(spec, self._node.name)) as network:
                return await self._create(create_call(spec, self._node, engine, image, network))
        if spec.network != "job":
            network = await self._networks.isolated() if spec.network == "isolated" else "host"
            return await self._create(create_call(spec, self._node, engine, image, network))
        async with self._networks.lock:
            network = await self._networks.of_job(spec.job_id)
            return await self._create(create_call(spec, self._node, engine, image, network))

    async def _create(self, call: CreateCall) -> str:
        try:
            answer = await self._engine.call(
                lambda api: api.create_container_from_config(call.body, call.name)
            )
        except EngineError as error:
            if error.status == 409:
                return await self._adopt(call, error)
            if error.status == 404 and "image" in error.message.lower():
                raise error.failure("image_not_found") from None
            if self._disk_quota and "storage-opt" in error.message.lower():
                # Only the engine knows how its disk is mounted; the watch measures instead.
                log.info("no_disk_quota", problem=error.message)
                self._disk_quota = False
                call.body["HostConfig"].pop("StorageOpt", None)
                return await self._create(call)
            raise error.failure("create_failed") from None
        return answer["Id"]

    async def _adopt(self, call: CreateCall, error: EngineError) -> str:
        """The name is taken: by this attempt's own container, or by a stranger."""
        found = await self._inspect(call.name)
        mine = found["Config"]["Labels"]
        if all(mine.get(label) == call.body["Labels"][label] for label in _LABELS):
            return found["Id"]
        raise error.failure("create_failed")

    async def _inspect(self, container_id: str) -> dict[str, Any]:
        try:
            return await self._engine.call(lambda api: api.inspect_container(container_id))
        except EngineError as error:
            gone = error.status == 404
            raise error.failure("container_gone" if gone else "engine_down") from None

    async def _not_started(self, container_id: str) -> dict[str, Any] | None:
        """Return what the engine says of a container that never ran; None when its process ran, or
        runs: the engine would start a dead container a second time."""
        found = await self._patient_inspect(container_id)
        return found if found["State"]["StartedAt"].startswith(_NEVER) else None

    async def _patient_inspect(self, container_id: str) -> dict[str, Any]:
        while True:
            try:
                return await self._inspect(container_id)
            except RuntimeFailure as failure:
                if failure.code != "engine_down":
                    raise
            await asyncio.sleep(RECONNECT_S)

    async def _kill(self, container_id: str, signal: str) -> None:
        """Signal the container's init, which passes it on to its process group."""
        try:
            await self._engine.call(lambda api: api.kill(container_id, signal))
        except EngineError as error:
            if error.status not in (404, 409):  # 409: it does not run
                raise error.failure("engine_down") from None

    async def _remove(self, container_id: str) -> None:
        while True:
            try:
                await self._engine.call(
                    lambda api: api.remove_container(container_id, v=True, force=True)
                )
                return
            except EngineError as error:
                if error.status == 404:
                    return
                if error.status != 409:  # 409: its removal is under way
                    raise error.failure("engine_down") from None
            await asyncio.sleep(RECONNECT_S)

    async def _describe(self, summary: dict[str, Any]) -> Container | None:
        """From a line of the engine's list; None when it went away or is not well labelled."""
        labels, status = summary["Labels"], _STATUS.get(summary["State"], "running")
        exit = None
        try:
            if status == "exited":
                found = await self._inspect(summary["Id"])
                if found["State"]["ExitCode"] == _KILLED:
                    await self._disk.judge(found, self._root, self._objects.watched(found))
                exit = self._exit_of(summary["Id"], found)
                if self._objects.is_pending((labels["skep.attempt"], int(labels["skep.epoch"]))):
                    # Its end is reported when what it wrote is written back.
                    status, exit = "running", None
            return Container(
                container_id=summary["Id"],
                attempt_id=labels["skep.attempt"],
                epoch=int(labels["skep.epoch"]),
                job_id=labels["skep.job"],
                gpu_uuids=tuple(filter(None, labels["skep.gpus"].split(","))),
                status=status,
                exit=exit,
            )
        except (KeyError, ValueError):
            log.warning("container_labels_broken", container_id=summary["Id"], labels=labels)
        except RuntimeFailure as failure:
            if failure.code != "container_gone":
                raise
        return None

    def _exit_of(self, container_id: str, found: dict[str, Any]) -> Exit | None:
        state = found["State"]
        if is_alive(found) or state["Status"] == "created":
            return None
        oom_killed = bool(state.get("OOMKilled"))
        peak = found["HostConfig"]["Memory"] // MIB if oom_killed else None
        peak = peak or self._stats.peak_mb(container_id)
        reason = self._disk.excess(container_id) or docker_node.ended_with_machine(state)
        return Exit(
            state["ExitCode"],
            oom_killed,
            peak,
            is_full(self._root),
            error_code=reason.code if reason else "",
            message=reason.message if reason else "",
        )
