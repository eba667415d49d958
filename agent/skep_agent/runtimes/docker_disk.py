"""What containers keep on the node's disk, and the end of those that keep too much.

Counted are the writable layer, the anonymous volumes that an image's VOLUME makes, and the
container's own log. Where the storage driver has quotas (isolation asks for them), a task meets
the limit of its layer as a full disk; everywhere a watcher measures from time to time with du(1),
within a budget, and ends a container past its limit. Without a look into the engine's folder (a
remote engine, an agent in a container that does not mount it) only the layer is measured, by the
engine.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.inventory import NodeWarning
from skep_agent.isolation.create import NodeFacts, scratch_labels, scratch_volume
from skep_agent.protocol import SCRATCH_DIR, AttemptSpec
from skep_agent.runtimes.docker_engine import Engine, EngineError
from skep_agent.runtimes.scratch_images import ScratchImages

MIB = 1024 * 1024
# As many files as a file system of the size of the limit has: ext4 makes one inode per 16 KiB.
BYTES_PER_INODE = 16 * 1024
MIN_INODES = 100_000
LOOK_S = 2.0  # between looks at what is due
MEASURE_S = 15.0  # between two measurements of a container, at least
# A measurement that takes long is made less often: at most this share of the time goes into it.
DUTY = 0.05
BLIND_MEASURE_S = 60.0  # through the engine
# So much less space on the disk makes all measurements due: a task writes fast.
URGENT_BYTES = 1024 * MIB
MOST_PAUSE_S = 1800.0
# A measurement that takes longer goes on beside the others, so many at a time: of millions of files
# on a slow disk it takes its time, and what it finds counts all the same.
SLOW_S, SLOW_MOST = 120.0, 4
DU_TIMEOUT_S = 6 * 3600.0
JUDGE_S = 15.0  # of an agent that starts, whose lease goes on running out
KILLED_S = 5.0  # a disk that hangs holds a process that was killed, too
SLOW = NodeWarning(
    code="disk_measured_slowly",
    message="What tasks keep on the disk takes minutes to measure, so limits hold late.",
    action="See whether the disk is broken, or has millions of files of a task.",
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Excess:
    """Why a container was ended. `code`: disk_quota_exceeded or log_limit_exceeded."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Use:
    """In bytes; `inodes` is None where they are not counted."""

    layer: int = 0
    volumes: int = 0
    log: int = 0
    inodes: int | None = None


@dataclass(frozen=True, slots=True)
class Watched:
    """Folders that count to what a container keeps, beyond the MiB that were put there for it."""

    folders: tuple[str, ...] = ()
    given_mb: int = 0


@dataclass(slots=True)
class _Watched:
    container_id: str
    disk_mb: int  # 0: without a limit, as the next
    log_bytes: int
    layer: str  # folder of the writable layer, "" where it cannot be seen
    volumes: tuple[str, ...]
    log_file: str
    due_at: float = 0.0  # on the loop's clock
    free: int = field(default=0)  # bytes on the disk at the last measurement


class DiskWatch:
    """`end(container_id)` is called for a container past its limit."""

    def __init__(self, engine: Engine, end: Callable[[str], Awaitable[None]]) -> None:
        self._engine = engine
        self._end = end
        self._root = ""  # the engine's folder
        self._watched: dict[str, _Watched] = {}
        self._excess: dict[str, Excess] = {}
        self._judged: set[str] = set()
        self._task: asyncio.Task[None] | None = None
        self._looks: dict[str, asyncio.Task[None]] = {}  # under way, by container
        self._slow: set[str] = set()  # containers with a look that takes long

    def warnings(self) -> list[NodeWarning]:
        return [SLOW] if self._slow else []

    def watch(self, container: dict[str, Any], root: str, more: Watched) -> None:
        """Watch a running container, as the engine describes it, until `forget`."""
        container_id = container["Id"]
        if container_id in self._watched or container_id in self._excess:
            return
        watched = _of(container, root, more)
        if watched is None:
            return
        self._root = root
        self._watched[container_id] = watched
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="docker-disk")

    def excess(self, container_id: str) -> Excess | None:
        """Return why this watch, or one before it, ended the container."""
        return self._excess.get(container_id)

    async def judge(self, container: dict[str, Any], root: str, more: Watched) -> None:
        """Find out whether an agent before this one killed it for what it keeps."""
        watched = _of(container, root, more)
        if watched is not None and container["Id"] not in self._judged:
            self._judged.add(container["Id"])
            use = None
            with suppress(TimeoutError):
                async with asyncio.timeout(JUDGE_S):
                    use = await self._measure(watched)
            if use is not None and (excess := judgement(watched.disk_mb, watched.log_bytes, use)):
                self._excess[container["Id"]] = excess

    def forget(self, container_id: str) -> None:
        self._watched.pop(container_id, None)
        self._excess.pop(container_id, None)
        self._judged.discard(container_id)

    async def close(self) -> None:
        tasks = [*([self._task] if self._task else []), *self._looks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            # One after the other, but for slow ones: the disk has other work.
            for watched in list(self._watched.values()):
                container_id = watched.container_id
                if container_id in self._looks or container_id not in self._watched:
                    continue
                if not self._is_due(watched):
                    continue
                look = asyncio.create_task(self._look_quietly(watched))
                self._looks[container_id] = look
                await asyncio.wait({look}, timeout=SLOW_S)
                if not look.done():
                    log.warning("disk_measured_slowly", container_id=container_id)
                    self._slow.add(container_id)
                    while len(self._slow) >= SLOW_MOST:
                        slow = [self._looks[one] for one in self._slow]
                        await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)

    async def _look_quietly(self, watched: _Watched) -> None:
        try:
            await self._look(watched)
        except Exception:
            log.exception("disk_measurement_broke", container_id=watched.container_id)
        finally:
            self._slow.discard(watched.container_id)
            self._looks.pop(watched.container_id, None)

    def _is_due(self, watched: _Watched) -> bool:
        now = asyncio.get_running_loop().time()
        wrote = watched.free - _free(self._root)
        return now >= watched.due_at or (wrote > URGENT_BYTES and bool(watched.layer))

    async def _look(self, watched: _Watched) -> None:
        if watched.layer and not _is_there(watched.layer):
            self.forget(watched.container_id)  # someone removed it
            return
        clock = asyncio.get_running_loop().time
        begun = clock()
        use = await self._measure(watched)
        watched.free = _free(self._root)
        pause = MEASURE_S if watched.layer else BLIND_MEASURE_S
        watched.due_at = clock() + max(pause, min((clock() - begun) / DUTY, MOST_PAUSE_S))
        if use is None:
            return
        excess = judgement(watched.disk_mb, watched.log_bytes, use)
        if excess is None:
            # It could not be ended when it kept too much, and does not any more.
            self._excess.pop(watched.container_id, None)
        elif watched.container_id in self._watched:
            log.warning(excess.code, container_id=watched.container_id, problem=excess.message)
            self._excess[watched.container_id] = excess
            self._judged.add(watched.container_id)
            try:
                await self._end(watched.container_id)
            except RuntimeFailure as failure:  # it writes on: tried again with the next look
                log.warning(failure.code, problem=failure.message)
            else:
                self._watched.pop(watched.container_id, None)

    async def _measure(self, watched: _Watched) -> Use | None:
        """Return the use; None when it cannot be measured."""
        size = _size(watched.log_file)
        if not watched.disk_mb:
            return Use(log=size)
        if not watched.layer:
            layer = await self._engine_size(watched.container_id)
            return None if layer is None else Use(layer, 0, size)
        layer = await du(watched.layer)
        volumes = await du(*watched.volumes) if watched.volumes else 0
        if layer is None or volumes is None:
            return None
        inodes = await du(watched.layer, *watched.volumes, inodes=True)
        return Use(layer, volumes, size, inodes)

    async def _engine_size(self, container_id: str) -> int | None:
        try:
            found = await self._engine.call(
                lambda api: api.containers(all=True, size=True, filters={"id": container_id})
            )
        except RuntimeFailure:
            return None
        if not found:
            self.forget(container_id)  # someone removed it
            return None
        return found[0].get("SizeRw", 0)


def judgement(disk_mb: int, log_bytes: int, use: Use) -> Excess | None:
    """Return why a container that uses so much is ended; None when it is within its limits, of
    which 0 is none."""
    if disk_mb and use.layer + use.volumes > disk_mb * MIB:
        return Excess(
            "disk_quota_exceeded",
            f"It wrote {(use.layer + use.volumes) // MIB} MiB into its container"
            f" ({use.layer // MIB} MiB into the root file system, {use.volumes // MIB} MiB into"
            f" volumes of the image and copies of storages); the limit is {disk_mb} MiB. Write"
            " large files to mounted storage, or ask an admin of the virtual cluster to raise"
            " container_disk_mb.",
        )
    most = max(disk_mb * MIB // BYTES_PER_INODE, MIN_INODES)
    if disk_mb and (use.inodes or 0) > most:
        return Excess(
            "disk_quota_exceeded",
            f"It made {use.inodes} files and folders in its container; with a limit of {disk_mb}"
            f" MiB it may have {most}. Keep many small files in archives or on mounted storage.",
        )
    if log_bytes and use.log > log_bytes:
        return Excess(
            "log_limit_exceeded",
            f"Its log takes {use.log // MIB} MiB on the node; the limit is {log_bytes // MIB} MiB."
            " Print less, or ask an admin of the virtual cluster to raise log_bytes_per_job.",
        )
    return None


async def du(*folders: str, inodes: bool = False) -> int | None:
    """Return the bytes, or the inodes, of all files below the folders, counting a file with
    several names once; None when that takes too long. A program of its own: it has the depth and
    the speed for a tree that a task made, and a low priority."""
    what = ["--inodes"] if inodes else ["--block-size=1"]
    process = await asyncio.create_subprocess_exec(
        *["nice", "-n", "19", "du", "-scx", *what, "--", *folders],
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # of files that vanished meanwhile
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
    )
    try:
        async with asyncio.timeout(DU_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        return None
    finally:
        if process.returncode is None:
            process.kill()
            with suppress(TimeoutError):
                async with asyncio.timeout(KILLED_S):
                    await process.wait()
    total = output.rsplit(b"\n", 2)[-2].split(b"\t")[0] if b"\n" in output else b""
    return int(total) if total.isdigit() else None


def has_quota(info: dict[str, Any]) -> bool:
    """Whether the storage driver may have quotas: the first creation finds out."""
    driver, status = info["Driver"], dict(info.get("DriverStatus") or ())
    return driver in ("btrfs", "zfs") or (
        driver == "overlay2" and status.get("Backing Filesystem") == "xfs"
    )


def _of(container: dict[str, Any], root: str, more: Watched) -> _Watched | None:
    """Return what to watch of a container, or None when it has no limits."""
    labels = container["Config"]["Labels"] or {}
    disk_mb, log_bytes = _number(labels, "skep.disk_mb"), _number(labels, "skep.log_bytes")
    if not disk_mb and not log_bytes:
        return None
    layer = ((container.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir") or ""
    mounts = container.get("Mounts") or ()
    volumes = [mount["Source"] for mount in mounts if mount.get("Type") == "volume"]
    if disk_mb and any(_is_scratch_volume(mount) for mount in mounts):
        disk_mb += _number(labels, "skep.scratch_mb")
    disk_mb += more.given_mb if disk_mb else 0
    return _Watched(
        container["Id"],
        disk_mb,
        log_bytes,
        layer if os.path.isdir(layer) else "",
        (*(folder for folder in volumes if os.path.isdir(folder)), *more.folders),
        str(Path(root, "containers", container["Id"], "local-logs", "container.log")),
    )


def _is_scratch_volume(mount: dict[str, Any]) -> bool:
    return mount.get("Type") == "volume" and mount.get("Destination") == SCRATCH_DIR


def _number(labels: dict[str, str], name: str) -> int:
    text = labels.get(name, "")
    return int(text) if text.isdecimal() else 0


def _is_there(folder: str) -> bool:
    return os.path.isdir(folder)


def _size(file: str) -> int:
    try:
        return os.stat(file).st_size
    except OSError:
        return 0


def _free(folder: str) -> int:
    try:
        disk = os.statvfs(folder)
    except OSError:
        return 0
    return disk.f_bavail * disk.f_frsize


class Scratches:
    """The scratch of tasks: named volumes of the engine, or files, that stay from one attempt to
    the next.

    A volume belongs to a job and a task of it, on one node. Only volumes that carry this node's
    labels are ever used or removed.
    """

    def __init__(self, engine: Engine, node: NodeFacts, images: ScratchImages) -> None:
        self._engine = engine
        self._node = node
        self._images = images
        self._quotas = True  # until the engine says that its file system has none
        self._lock = asyncio.Lock()  # nothing is removed that is about to be mounted

    async def ensure(self, spec: AttemptSpec) -> Path | None:
        """Make the scratch of a task unless it is there: a volume where the engine's file system
        has project quotas, else a file, which is returned. An agent that cannot mount files makes
        a volume, whose size the watch measures. Raises RuntimeFailure "create_failed", also for a
        volume of this name that was made by another."""
        if not spec.scratch_mb:
            return None
        name, labels = scratch_volume(spec, self._node), scratch_labels(spec, self._node)
        async with self._lock:
            if (image := self._images.find(spec)) is not None:
                return image
            found = await self._create(name, labels, spec)
            if found is None:
                return await asyncio.to_thread(self._images.make, spec)
        if (found.get("Labels") or {}) != labels or found.get("Driver") != "local":
            raise RuntimeFailure("create_failed", f"The volume {name} is not this task's.")
        return None

    async def jobs(self) -> set[str]:
        """Return the ids of the jobs that have scratch on this node."""
        return {job for job, _ in await self._volumes()} | self._images.jobs()

    async def remove(self, jobs: Collection[str]) -> None:
        """Remove the scratch of these jobs. What a container still uses stays for now."""
        async with self._lock:
            for job, name in await self._volumes():
                if job in jobs:
                    await self._remove(name)
            for job in self._images.jobs() & set(jobs):
                await asyncio.to_thread(self._images.remove, job)

    async def _create(
        self, name: str, labels: dict[str, str], spec: AttemptSpec
    ) -> dict[str, Any] | None:
        """Return the volume; None where it is to be a file instead."""
        if not self._quotas and self._images.available and not await self._exists(name):
            return None
        try:
            options = {"size": f"{spec.scratch_mb}M"} if self._quotas else {}
            return await self._engine.call(
                lambda api: api.create_volume(name, "local", options, labels)
            )
        except EngineError as error:
            if not self._quotas or "quota" not in error.message.lower():
                raise error.failure("create_failed") from None
            self._quotas = False
            log.info("scratch_without_quota", problem=error.message)
            return await self._create(name, labels, spec)

    async def _exists(self, name: str) -> bool:
        try:
            await self._engine.call(lambda api: api.inspect_volume(name))
        except EngineError as error:
            if error.status != 404:
                raise error.failure("create_failed") from None
            return False
        return True

    async def _volumes(self) -> list[tuple[str, str]]:
        """Return (job, name) of the volumes of this node."""
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
