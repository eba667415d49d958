"""What attempts mount of object stores: folders of the agent's own, one for each attempt and mount.

They are filled before the container is made, and written back when it has ended. The keys are kept
in memory alone: an agent that was started anew gets them again with the next desired state, and
then writes back what the container left. Each task has a copy of its own. What is noted beside the
files: see `object_notes`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Collection, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from skep_agent.containers import Progress, RuntimeFailure
from skep_agent.isolation.files import Owner
from skep_agent.isolation.mounts import StoragePolicy, check_object_store, unavailable
from skep_agent.protocol import AttemptSpec, S3Mount
from skep_agent.runtimes import object_notes as notes
from skep_agent.runtimes import object_transfers as transfers
from skep_agent.runtimes.base import AttemptKey
from skep_agent.runtimes.docker_disk import Watched
from skep_agent.runtimes.object_notes import Left
from skep_agent.runtimes.object_refusals import StoreRefused
from skep_agent.runtimes.object_transfers import Ended

DOWNLOADS = UPLOADS = 4  # attempts whose mounts are copied at a time
QUEUED_S = 60.0  # between two reports of what waits for its turn
SYNC_S = 1800.0  # for writing back all that one attempt left, without the wait for its turn
BACKOFF_S, BACKOFF_MAX_S = 2.0, 60.0  # between two tries
KEYS_S = 120.0  # until the server sends the keys again
GIVE_UP_S = 5.0  # for requests under way
LOOK_S = 0.2
REPORT_S = 1.0  # between two reports of the same percent
# What stays free on the disk of the agent's state: the lesser of the two.
RESERVE_BYTES, RESERVE_PART = 1024**3, 50
MIB = 1024 * 1024
NOT_SYNCED = "storage_not_synced"

log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Copying:
    """Bytes that a copy under way still needs."""

    left: int = 0


@dataclass(slots=True)
class _Stop:
    """Ends the thread of a transfer."""

    set: bool = False
    copying: _Copying = field(default_factory=_Copying)

    def __call__(self) -> bool:
        return self.set


@dataclass(slots=True)
class _Turn:
    """One of the slots for uploads: free again when the thread that uses it is done, too."""

    slots: asyncio.Semaphore
    work: asyncio.Future[Any] | None = None

    def use(self, work: asyncio.Future[Any]) -> None:
        self.work = work

    def end(self) -> None:
        if self.work is None or self.work.done():
            self.slots.release()
        else:
            self.work.add_done_callback(lambda _: self.slots.release())


@dataclass(slots=True)
class _Reported:
    """Keeps the reports of a transfer apart, of which there are thousands a second."""

    percent: int = -1
    at: float = 0.0

    def is_news(self, percent: int) -> bool:
        now = time.monotonic()
        if percent <= self.percent and now < self.at + REPORT_S:
            return False
        self.percent, self.at = percent, now
        return True


class ObjectStores:
    """Those of one node, in `folder`; None has none."""

    def __init__(self, folder: Path | None, policy: StoragePolicy) -> None:
        self._folder = folder
        self.kept = notes.KeptCopies(folder)
        self._policy = policy
        self._downloads = ThreadPoolExecutor(DOWNLOADS, thread_name_prefix="downloads")
        self._uploads = ThreadPoolExecutor(UPLOADS, thread_name_prefix="uploads")
        self._download_slots = asyncio.Semaphore(DOWNLOADS)
        self._upload_slots = asyncio.Semaphore(UPLOADS)
        self._known: dict[AttemptKey, tuple[S3Mount, ...]] = {}  # with their keys
        self._learned = asyncio.Event()
        self._kept: set[AttemptKey] = set()  # whose folders this agent made, and has not removed
        self._copying: set[_Copying] = set()
        self._tasks: set[asyncio.Future[None]] = set()

    def close(self) -> None:
        self._downloads.shutdown(wait=False, cancel_futures=True)
        self._uploads.shutdown(wait=False, cancel_futures=True)

    def learn(self, specs: Iterable[AttemptSpec]) -> None:
        """Take over the keys for the attempts that are listed, and forget those of all others but
        the ones whose folders are here."""
        sent = {(one.attempt_id, one.epoch): tuple(one.s3) for one in specs}
        listed = {key: mounts for key, mounts in sent.items() if mounts or key in self._kept}
        kept = {key: mounts for key, mounts in self._known.items() if key in self._kept}
        self._known = kept | listed
        self._learned.set()
        self._learned = asyncio.Event()

    async def fetch(
        self, key: AttemptKey, mounts: tuple[S3Mount, ...], progress: Callable[[Progress], None]
    ) -> None:
        """Fill the folders of an attempt. Raises RuntimeFailure "storage_unavailable" and
        "disk_full"; then, and when it is cancelled, nothing is left of them."""
        for mount in mounts:
            check_object_store(mount)
            self._policy.check(mount)
        folder = self._of(key)
        if folder is None:
            raise unavailable("This agent has no folder for copies of object stores.")
        self._known.setdefault(key, mounts)
        self._kept.add(key)
        stop, loop = _Stop(), asyncio.get_running_loop()
        reported = _Reported()

        def report(one: Progress) -> None:
            if not stop.set and reported.is_news(one.percent):
                loop.call_soon_threadsafe(progress, one)

        try:
            await self._download_turn(progress)
        except BaseException:
            await self.discard(key)
            raise
        self._copying.add(stop.copying)
        work = loop.run_in_executor(self._downloads, self._fill, folder, mounts, report, stop)
        work.add_done_callback(lambda _: self._download_slots.release())
        try:
            await asyncio.shield(work)
        except OSError as error:
            await self.discard(key)
            raise unavailable(f"A copy of an object store: {error.strerror}.") from None
        except RuntimeFailure:
            await self.discard(key)
            raise
        except Exception as error:
            # By its kind alone: what it says may have addresses, or more.
            log.error("copy_broke", attempt_id=key[0], kind=type(error).__name__)
            await self.discard(key)
            raise unavailable(f"Storage {mounts[0].storage}: it cannot be copied.") from None
        except BaseException:
            stop.set = True
            self._later(self._discard_after(work, key))
            raise
        finally:
            self._copying.discard(stop.copying)

    def source(self, key: AttemptKey, mount: S3Mount) -> Path:
        """Return the folder of a mount of an attempt. Raises RuntimeFailure
        "storage_unavailable" where it was not filled from there."""
        folder = self._of(key)
        for place in sorted(folder.glob("*.place")) if folder else ():
            source = place.with_suffix("")
            if notes.read(place) == notes.place_of(mount) and source.is_dir():
                return source
        raise unavailable(f"Storage {mount.storage}: what was copied of it is not there any more.")

    async def hand_over(self, spec: AttemptSpec, owner: Owner) -> None:
        """Give the files of an attempt to the user of its container, and note what they are before
        it may write to them. Raises RuntimeFailure "storage_unavailable"."""
        key = spec.attempt_id, spec.epoch
        if not spec.s3:
            return
        self._known.setdefault(key, tuple(spec.s3))
        self._kept.add(key)
        for mount in spec.s3:
            source = self.source(key, mount)
            try:
                await asyncio.to_thread(notes.hand_over, source, owner, mount.read_only)
            except OSError as error:
                raise unavailable(f"Storage {mount.storage}: {error.strerror}.") from None

    def _keep(self, folder: Path, problems: list[str]) -> None:
        try:
            self.kept.mark(folder)
        except OSError as error:
            log.error("copies_not_kept", problem=error.strerror)
        else:
            problems.append(notes.NOTICE)

    def is_pending(self, key: AttemptKey) -> bool:
        """Return whether something of an attempt may have to be written back."""
        folder = self._of(key)
        return folder is not None and any(folder.glob("*.json"))

    async def sync(self, key: AttemptKey, may_go_on: Callable[[], bool]) -> None:
        """Write back what a container left that has ended, again and again while its store is out
        of order. It ends when it takes too long, and as soon as it may not go on. Raises
        RuntimeFailure "storage_not_synced"."""
        folder = self._of(key)
        if folder is None or not self.is_pending(key):
            return
        self._kept.add(key)
        problems: list[str] = []
        left: list[Left] = []
        try:
            left = await asyncio.to_thread(notes.left_in, folder, problems)
            await self._keys(key, may_go_on)
            await self._write_all(key, left, problems, may_go_on)
        except Ended:
            problems.append("The node lost the control plane before all files were written back.")
            raise RuntimeFailure(NOT_SYNCED, " ".join(problems)) from None
        except RuntimeFailure as failure:
            problems.append(failure.message)
        problems += [one.problem for one in left if one.problem]
        if problems:
            await asyncio.to_thread(self._keep, folder, problems)
            raise RuntimeFailure(NOT_SYNCED, " ".join(problems))

    async def _write_all(
        self,
        key: AttemptKey,
        left: list[Left],
        problems: list[str],
        may_go_on: Callable[[], bool],
    ) -> None:
        """Write back what is `left`, and take out of it what is done with. Raises Ended."""
        clock = asyncio.get_running_loop().time
        budget, pause_s = SYNC_S, BACKOFF_S
        while True:
            await self._upload_turn(may_go_on)
            begun, turn = clock(), _Turn(self._upload_slots)
            try:
                async with asyncio.timeout(budget):
                    for one in list(left):
                        if await self._try(key, one, problems, turn, may_go_on):
                            left.remove(one)
            except TimeoutError:
                budget = 0.0
            finally:
                turn.end()
            budget -= clock() - begun
            if not left:
                return
            if budget <= pause_s:
                problems.append(f"Writing back was ended after {SYNC_S / 60:.0f} minutes.")
                return
            await _pause(pause_s, may_go_on)
            budget, pause_s = budget - pause_s, min(2 * pause_s, BACKOFF_MAX_S)

    async def _try(
        self,
        key: AttemptKey,
        one: Left,
        problems: list[str],
        turn: _Turn,
        may_go_on: Callable[[], bool],
    ) -> bool:
        """Return whether a mount is done with: it was written back, or never will be. Raises
        Ended."""
        folder = self._of(key)
        assert folder is not None
        mount = self._mount_at(key, one.place)
        if mount is None:
            problems.append(
                f"Storage {one.place['storage']} is not what the task mounted any more, so nothing "
                "was written to it."
            )
            return True
        try:
            written = await self._upload(folder, one, mount, turn, may_go_on)
        except StoreRefused as failure:
            one.problem = failure.message
            if self._mount_at(key, one.place) != mount:  # other keys came meanwhile
                return False
        except RuntimeFailure as failure:
            one.problem = failure.message
            return False
        except OSError as error:
            one.problem = f"Storage {mount.storage}: {error.strerror}."
            return False
        except Ended:
            raise
        except Exception as error:
            log.error("write_back_broke", storage=mount.storage, kind=type(error).__name__)
            one.problem = f"Storage {mount.storage}: its files cannot be written back."
            return False
        else:
            log.info("storage_synced", storage=mount.storage, files=written.files)
            if not written.failed:
                one.problem = ""
                await asyncio.to_thread((folder / f"{one.number}.json").unlink, missing_ok=True)
                return True
            words = f"{written.failed} files were not written back to storage {mount.storage}"
            one.problem = f"{words}. {written.problem}"
            if written.again:
                return False
        problems.append(one.problem)
        return True

    def _mount_at(self, key: AttemptKey, place: dict[str, Any]) -> S3Mount | None:
        """Return the mount of that place as the server sent it last, with its keys."""
        return next((m for m in self._known.get(key, ()) if notes.place_of(m) == place), None)

    def watched(self, container: dict[str, Any]) -> Watched:
        """Return what the disk watch has to count for a container, as the engine describes it."""
        key = notes.key_of(container["Config"]["Labels"] or {})
        folder = self._of(key) if key else None
        if folder is None:
            return Watched()
        folders, given = [], 0
        for manifest in sorted(folder.glob("*.json")):
            folders.append(str(manifest.with_suffix("")))
            given += notes.given_in(manifest.with_suffix(".given"))
        return Watched(tuple(folders), given)

    async def discard(self, key: AttemptKey) -> None:
        """Remove the folders of an attempt whose container is gone, and forget its keys."""
        folder = self._of(key)
        if folder is not None and folder.exists():
            await asyncio.to_thread(self.kept.remove, folder)
        self._kept.discard(key)
        self._known.pop(key, None)

    def forget(self, attempt_id: str) -> None:
        """Remove what is left of an attempt that is gone, whatever became of its container."""
        for key in [key for key in self._kept if key[0] == attempt_id]:
            self._later(self.discard(key))

    async def tidy(self, containers: Collection[AttemptKey]) -> None:
        """Remove what agents before this one left of attempts without a container."""
        for folder in (
            await asyncio.to_thread(notes.folders_in, self._folder) if self._folder else ()
        ):
            key = notes.attempt_in(folder.name)
            if key is None or (key not in containers and key not in self._kept):
                await asyncio.to_thread(self.kept.remove, folder)

    async def _discard_after(self, work: asyncio.Future[None], key: AttemptKey) -> None:
        await asyncio.wait({work})
        _look(work)
        await self.discard(key)

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _keys(self, key: AttemptKey, may_go_on: Callable[[], bool]) -> tuple[S3Mount, ...]:
        """Wait until the server has sent the keys of an attempt: this agent may be a new one."""
        deadline = asyncio.get_running_loop().time() + KEYS_S
        while key not in self._known:
            if not may_go_on():
                raise Ended
            if asyncio.get_running_loop().time() > deadline:
                raise RuntimeFailure(NOT_SYNCED, "The server did not send the keys again.")
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._learned.wait()
            except TimeoutError:
                continue
        return self._known[key]

    async def _download_turn(self, progress: Callable[[Progress], None]) -> None:
        """Wait until there may be one more: what waits for that does not stall."""
        while True:
            progress(Progress(0, 0, 0))
            try:
                async with asyncio.timeout(QUEUED_S):
                    await self._download_slots.acquire()
            except TimeoutError:
                continue
            progress(Progress(0, 0, 0))
            return

    async def _upload_turn(self, may_go_on: Callable[[], bool]) -> None:
        """Wait until there may be one more. Raises Ended."""
        while True:
            if not may_go_on():
                raise Ended
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._upload_slots.acquire()
            except TimeoutError:
                continue
            return

    async def _upload(
        self,
        folder: Path,
        one: Left,
        mount: S3Mount,
        turn: _Turn,
        may_go_on: Callable[[], bool],
    ) -> transfers.Written:
        """Raises what the transfer does, and Ended."""
        stop = _Stop()
        if not may_go_on():
            raise Ended
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._uploads, notes.write_back, folder, one, mount, stop)
        turn.use(work)
        try:
            while not work.done():
                await asyncio.wait({work}, timeout=LOOK_S)
                if not work.done() and not may_go_on():
                    stop.set = True
                    await asyncio.wait({work}, timeout=GIVE_UP_S)
                    raise Ended
        finally:
            stop.set = True
            work.add_done_callback(_look)
        return work.result()

    def _fill(
        self,
        folder: Path,
        mounts: tuple[S3Mount, ...],
        report: Callable[[Progress], None],
        stop: _Stop,
    ) -> None:
        assert self._folder is not None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        found = [transfers.listed(mount, stop) for mount in mounts]
        total = sum(item.size for items in found for item in items)
        self._reserve(total, stop.copying, mounts)
        before = 0
        for number, (mount, items) in enumerate(zip(mounts, found, strict=True)):

            def progress(done: int, of: int, before: int = before) -> None:
                del of
                stop.copying.left = max(total - before - done, 0)
                percent = (before + done) * 100 // total if total else 100
                report(Progress(percent, before + done, total))

            made = folder / str(number)
            made.mkdir(mode=0o755)
            notes.write(made.with_suffix(".place"), notes.place_of(mount))
            at = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                transfers.download(mount, items, at, progress, stop)
            finally:
                os.close(at)
            before += sum(item.size for item in items)

    def _reserve(self, total: int, copying: _Copying, mounts: tuple[S3Mount, ...]) -> None:
        assert self._folder is not None
        self.kept.tidy()
        disk = os.statvfs(self._folder)
        kept = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // RESERVE_PART)
        others = sum(other.left for other in list(self._copying) if other is not copying)
        if total + kept + others > disk.f_bavail * disk.f_frsize:
            names = ", ".join(mount.storage for mount in mounts)
            message = f"The node's disk has no {total // MIB} MiB free for a copy of {names}."
            raise RuntimeFailure("disk_full", message)
        copying.left = total

    def _of(self, key: AttemptKey) -> Path | None:
        return self._folder / f"{key[0]}.{key[1]}" if self._folder else None


def _look(work: asyncio.Future[Any]) -> None:
    """Take the error of a transfer that no one waits for any more."""
    if not work.cancelled():
        work.exception()


async def _pause(seconds: float, may_go_on: Callable[[], bool]) -> None:
    """Raises Ended."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while (rest := until - loop.time()) > 0:
        if not may_go_on():
            raise Ended
        await asyncio.sleep(min(rest, LOOK_S))
