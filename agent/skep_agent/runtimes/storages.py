"""Mounts of storages: made by the agent, passed on by the engine.

The engine would look a path up by its name, and whoever may write to a folder on the way could put
a link there meanwhile. So the agent opens the folder itself, from an allowed root, one name after
the other and no link among them, and mounts what it has opened at a place of its own. This is what
the engine gets. Once the container runs, it has its own copy of the mount, and the agent's is
removed.

NFS is mounted by the agent, too, for as long as that takes: Docker's own driver for it knows no
folders below an export, and takes its options from whoever may create volumes.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import subprocess
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.isolation.files import Owner
from skep_agent.isolation.mounts import (
    StoragePolicy,
    mount_point,
    mounts_dir,
    scratch_point,
    unavailable,
)
from skep_agent.protocol import AttemptSpec, S3Mount, StorageMount
from skep_agent.runtimes.scratch_images import mount_image
from skep_agent.threads import Threads

T = TypeVar("T")
# Of one server, or one root: one that does not answer holds these, and those of no other.
THREADS = 4
TURNS = 8  # that wait for one of these threads no longer than MOUNT_S
LOCAL_THREADS = 4
MOUNT_S = 60.0
AGAIN_S = 30.0  # after which one that did not answer is tried again, by one mount
# Of <sys/mount.h>.
_RDONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_REMOUNT, _NOATIME, _NODIRATIME, _BIND, _RELATIME = 32, 1024, 2048, 4096, 1 << 21
_ST_RELATIME = 4096  # of statvfs(3); the others have the same numbers there
_KEPT = _RDONLY | _NOSUID | _NODEV | _NOEXEC | _NOATIME | _NODIRATIME
_DETACH, _NOFOLLOW = 2, 8
_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC

log = structlog.get_logger(__name__)
_libc = ctypes.CDLL(None, use_errno=True)


class _Place:
    """A server of NFS, or a root on this machine: either may not answer."""

    def __init__(self) -> None:
        self.threads = Threads(THREADS, "storages")
        self.turns = asyncio.Semaphore(TURNS)
        self.callers = 0


class StorageMounts:
    """The mounts that one node has made for containers which have not started yet."""

    def __init__(
        self,
        node: NodeFacts,
        policy: StoragePolicy,
        copies: Callable[[tuple[str, int], S3Mount], Path],
    ) -> None:
        """`copies` returns the folder with what an attempt mounts of an object store."""
        self._copies = copies
        self._node = node
        self._policy = policy
        self._folder = mounts_dir(node.cluster, node.name)
        self._places: dict[str, _Place] = {}  # by server or root
        self._silent: dict[str, float] = {}  # that did not answer, until when they are not asked
        # Apart: what only looks or lets go never waits behind servers that do not answer.
        self._local = ThreadPoolExecutor(LOCAL_THREADS, thread_name_prefix="mounts")
        self._preparing: set[Path] = set()  # not in the engine's list of containers yet

    def close(self) -> None:
        self._local.shutdown(wait=False, cancel_futures=True)

    @contextmanager
    def prepared(self, spec: AttemptSpec, scratch: Path | None = None) -> Iterator[None]:
        """Check each storage of an attempt against the node's rules, and make the empty folders
        that the engine asks for when it creates the container; one for the file of its scratch,
        too. Within, no mount of it is tidied away. Raises RuntimeFailure "storage_unavailable"."""
        points = [*self._points(spec), *([self._scratch_point(spec)] if scratch else [])]
        for mount in spec.all_mounts:
            self._policy.check(mount)
        self._preparing |= set(points)
        try:
            for point in points:
                _make_point(point)
            yield
        finally:
            self._preparing -= set(points)

    async def mount(self, spec: AttemptSpec, owner: Owner, scratch: Path | None = None) -> None:
        """Mount the storages of an attempt, and the file of its scratch. `owner` gets the folders
        that are made for its user. Raises RuntimeFailure "storage_unavailable" and
        "create_failed"."""
        if scratch is not None:
            await self._run(_mount_scratch, scratch, self._scratch_point(spec), owner)
        for mount, point in zip(spec.mounts, self._points(spec), strict=False):
            await self._mount(mount, point, owner)
        copies = self._points(spec)[len(spec.mounts) :]
        for copy, point in zip(spec.s3, copies, strict=True):
            source = self._copies((spec.attempt_id, spec.epoch), copy)
            await self._run(_mount_copy, copy, source, point)

    async def check(self, sources: Sequence[str]) -> None:
        """Check that the mounts of a container, given by the sources of its binds, are there: a
        restart of the machine leaves the folders empty. Raises RuntimeFailure
        "storage_unavailable"."""
        for source in self._ours(sources):
            if not await self._run(_is_mounted, source):
                raise unavailable("The machine restarted before the task could start.")

    async def release(self, sources: Sequence[str]) -> None:
        """Remove mounts that a container has its own copy of, or needs no more."""
        for source in self._ours(sources):
            await self._run(_remove, source)

    async def made(self) -> set[Path]:
        """Return the mounts whose containers the engine knows already, or knew."""
        return set(await self._run(_entries, self._folder)) - self._preparing

    async def tidy(self, made: Collection[Path], needed: Collection[str]) -> None:
        """Remove mounts but for those that containers need which may still start. `made` are the
        mounts from before these were listed: later ones may be of containers that came later."""
        for point in set(made) - {Path(source) for source in needed}:
            await self._run(_remove, point)

    async def _mount(self, mount: StorageMount, point: Path, owner: Owner) -> None:
        name = mount.server if mount.type == "nfs" else self._policy.root_of(mount.path)
        place = self._places.setdefault(name, _Place())
        place.callers += 1
        try:
            async with place.turns:
                await self._mount_at(name, place.threads, mount, point, owner)
        finally:
            place.callers -= 1
            if not place.callers and not place.threads.busy:
                self._places.pop(name, None)

    async def _mount_at(
        self, name: str, threads: Threads, mount: StorageMount, point: Path, owner: Owner
    ) -> None:
        """Tasks wait for a server that does not answer, and hold up others of it as they do. So
        while it is silent, one of them tries, and the others fail at once."""
        clock = asyncio.get_running_loop().time
        if clock() < self._silent.get(name, 0.0):
            raise unavailable(f"{_name(mount)} did not answer a moment ago.")
        if name in self._silent:
            self._silent[name] = clock() + MOUNT_S
        try:
            async with asyncio.timeout(MOUNT_S):
                await threads.run(_mount, mount, self._policy, self._folder, point, owner)
        except TimeoutError:
            self._silent[name] = clock() + AGAIN_S
            raise unavailable(f"{_name(mount)} did not answer within {MOUNT_S:.0f} s.") from None
        except RuntimeFailure:
            self._silent.pop(name, None)
            raise
        self._silent.pop(name, None)

    def _points(self, spec: AttemptSpec) -> list[Path]:
        node = self._node
        numbers = range(len(spec.all_mounts))
        return [mount_point(node.cluster, node.name, spec, number) for number in numbers]

    def _scratch_point(self, spec: AttemptSpec) -> Path:
        return scratch_point(self._node.cluster, self._node.name, spec)

    def _ours(self, sources: Sequence[str]) -> list[Path]:
        return [Path(source) for source in sources if Path(source).parent == self._folder]

    async def _run(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._local, work, *args)


def bind_sources(container: dict[str, Any]) -> list[str]:
    """Return the sources of the binds of a container, as the engine lists or describes it."""
    return [m["Source"] for m in container.get("Mounts") or () if m.get("Type") == "bind"]


def mount_arguments(mount: StorageMount, target: Path) -> list[str]:
    """Return the command that mounts an export. What its programs may do is never the server's
    choice."""
    options = ",".join(["nosuid", "nodev", *mount.options])
    export = "/".join(mount.path.split("/")[: -mount.inner or None]) or "/"
    return ["mount", "-t", "nfs", "-o", options, f"{mount.server}:{export}", str(target)]


def _mount_scratch(image: Path, point: Path, owner: Owner) -> None:
    try:
        _remove_mount(point)
        mount_image(image, point, owner)
    except OSError as error:
        raise RuntimeFailure("create_failed", f"Scratch: {error.strerror}.") from None


def _mount(
    mount: StorageMount, policy: StoragePolicy, folder: Path, point: Path, owner: Owner
) -> None:
    try:
        with _opened(mount, policy, folder) as storage:
            found = _user_folder(storage, mount.user_folder, owner) if mount.user_folder else None
            try:
                _remove_mount(point)
                _bind(storage if found is None else found, point, mount.read_only)
            finally:
                if found is not None:
                    os.close(found)
    except OSError as error:
        raise unavailable(f"{_name(mount)}: {error.strerror}.") from None


def _mount_copy(mount: S3Mount, source: Path, point: Path) -> None:
    try:
        folder = os.open(source, _FOLDER | os.O_NOFOLLOW)
        try:
            _remove_mount(point)
            _bind(folder, point, mount.read_only)
        finally:
            os.close(folder)
    except OSError as error:
        raise unavailable(f"Storage {mount.storage}: {error.strerror}.") from None


@contextmanager
def _opened(mount: StorageMount, policy: StoragePolicy, folder: Path) -> Iterator[int]:
    """Yield a descriptor of the storage's folder."""
    if mount.type == "host_path":
        storage = _open_below(policy.root_of(mount.path), mount.path)
        try:
            yield storage
        finally:
            os.close(storage)
        return
    temporary = folder / f"nfs-{uuid.uuid4().hex}"
    _make_point(temporary)
    try:
        _mount_nfs(mount, temporary)
        inner = mount.path.split("/")[-mount.inner :] if mount.inner else []
        storage = _open_below(str(temporary), str(temporary.joinpath(*inner)))
        try:
            yield storage
        finally:
            os.close(storage)
    finally:
        _remove(temporary)


def _mount_nfs(mount: StorageMount, target: Path) -> None:
    arguments = mount_arguments(mount, target)
    try:
        done = subprocess.run(arguments, capture_output=True, timeout=MOUNT_S, check=False)
    except subprocess.TimeoutExpired:
        raise unavailable(f"{_name(mount)} did not answer within {MOUNT_S:.0f} s.") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise unavailable(f"{_name(mount)} cannot be mounted: {lines[0][:200]}")


def _open_below(root: str, path: str) -> int:
    """Open a folder below a root without following a link: what is below the root may be another
    tenant's to write."""
    storage = os.open(root, _FOLDER)
    for name in Path(path).relative_to(root).parts:
        try:
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=storage)
        finally:
            os.close(storage)
        storage = inner
    return storage


def _user_folder(storage: int, name: str, owner: Owner) -> int:
    """Open the folder of a user, which only its owner may enter. The first container makes it."""
    try:
        os.mkdir(name, 0o700, dir_fd=storage)
    except FileExistsError:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=storage)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(name, flags, dir_fd=storage)
    os.fchmod(made, 0o700)
    os.fchown(made, owner.uid, owner.gid)
    return made


def _bind(folder: int, point: Path, read_only: bool) -> None:
    """Mount an open folder, alone and not what is mounted below it."""
    _call("mount", f"/proc/self/fd/{folder}".encode(), os.fsencode(point), None, _BIND, None)
    try:
        state = os.statvfs(point).f_flag
        flags = state & _KEPT | (_RELATIME if state & _ST_RELATIME else 0)
        flags |= _NOSUID | _NODEV | (_RDONLY if read_only else 0)
        _call("mount", None, os.fsencode(point), None, _REMOUNT | _BIND | flags, None)
    except OSError:
        _remove_mount(point)
        raise


def _make_point(point: Path) -> None:
    """Make an empty folder that no one but root may enter."""
    for folder in (point.parent.parent, point.parent):
        folder.mkdir(mode=0o700, exist_ok=True)
    point.mkdir(mode=0o000, exist_ok=True)


def _remove_mount(point: Path) -> None:
    """Take away what is mounted; lazily, for an NFS server may not answer."""
    while _is_mounted(point):
        _call("umount2", os.fsencode(point), _DETACH | _NOFOLLOW)


def _is_mounted(point: Path) -> bool:
    """Whether a folder is one that something is mounted at. `os.path.ismount` does not see a mount
    of a folder of the same file system."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
        return any(line.split(" ", 5)[4] == str(point) for line in mounts)


def _remove(point: Path) -> None:
    """Take away what is mounted, and then the folder: never more than an empty one."""
    with suppress(FileNotFoundError):
        try:
            _remove_mount(point)
            os.rmdir(point)
        except OSError as error:
            if not point.exists():
                raise FileNotFoundError from None
            log.warning("storage_not_released", point=str(point), problem=str(error))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:  # none was made yet, or an agent without rights has made none
        return []


def _call(function: str, *arguments: object) -> None:
    """Raises OSError."""
    if getattr(_libc, function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _name(mount: StorageMount) -> str:
    return f"{mount.server}:{mount.path}" if mount.type == "nfs" else mount.path
