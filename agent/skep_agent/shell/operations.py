"""Instructions to the runtime, each as a task that ends in an event."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import structlog

from skep_agent import tracing
from skep_agent.containers import Exit, Progress, RuntimeFailure
from skep_agent.core import events as ev
from skep_agent.core import instructions as do
from skep_agent.core.attempt import Attempt
from skep_agent.protocol import AttemptSpec, ImageSpec
from skep_agent.runtimes.base import Runtime
from skep_agent.shell.lease_guard import LeaseGuard
from skep_agent.shell.tasks import TaskSet
from skep_agent.shell.working_files import Archives

PULLS = 4
CREATES = 8
WATCH_AGAIN_S = 1.0
_FALLBACK: dict[ev.Operation, str] = {
    "pull": "image_pull",
    "create": "create_failed",
    "start": "start_failed",
    "signal": "engine_down",
    "stop": "engine_down",
    "remove": "engine_down",
}

log = structlog.get_logger(__name__)


def _span(
    operation: ev.Operation, parent: str, ids: Mapping[str, str]
) -> AbstractContextManager[tracing.Span]:
    """Return the span of an operation for a task whose job is traced. That of "start" ends when the
    container has started, that of "stop" when it has stopped."""
    if not parent:
        return nullcontext(tracing.Span())
    about = {f"skep.{name.replace('_', '.')}": text for name, text in ids.items()}
    return tracing.span(f"attempt.{operation}", parent, about)


@dataclass(eq=False)
class _Flight:
    task: asyncio.Task[None]
    listeners: list[Callable[[Progress], None]] = field(default_factory=list)


class Pulls:
    """Several attempts that want one image share one pull; at most PULLS images at a time."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._flights: dict[ImageSpec, _Flight] = {}
        self._limit = asyncio.Semaphore(PULLS)

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        flight = self._flights.get(image) or self._begin(image)
        flight.listeners.append(progress)
        try:
            await asyncio.shield(flight.task)
        finally:
            flight.listeners.remove(progress)
            if not flight.listeners:
                self._flights.pop(image, None)
                flight.task.cancel()

    def _begin(self, image: ImageSpec) -> _Flight:
        flight = _Flight(asyncio.create_task(self._fly(image)))
        self._flights[image] = flight
        return flight

    async def _fly(self, image: ImageSpec) -> None:
        async with self._limit:
            await self._runtime.pull(image, lambda one: self._progress(image, one))

    def _progress(self, image: ImageSpec, progress: Progress) -> None:
        flight = self._flights.get(image)
        for listener in list(flight.listeners) if flight else ():
            listener(progress)


class Operations:
    def __init__(
        self,
        runtime: Runtime,
        archives: Archives,
        fence: LeaseGuard,
        emit: Callable[[ev.Event], None],
        may_write: Callable[[str], bool],
        find: Callable[[str], Attempt | None],
        keep_masks: Callable[[str, list[str]], None],
    ) -> None:
        """`may_write` says whether an attempt, given by its id, is still this node's to end; `find`
        returns what is known of it; `keep_masks` keeps what its log may not show."""
        self._runtime = runtime
        self._fence = fence
        self._archives = archives
        self._emit = emit
        self._may_write = may_write
        self._find = find
        self._keep_masks = keep_masks
        self._pulls = Pulls(runtime)
        self._creates = asyncio.Semaphore(CREATES)
        # Preparing an attempt, watching it and ending it may overlap; each has one task at most.
        self._tasks = TaskSet()
        self._starting: dict[tuple[str, int], str] = {}  # containers that the engine may start

    async def close(self) -> None:
        """Nothing under way is waited for; containers stay as they are."""
        await self._tasks.close()

    async def pull(self, image: ImageSpec, progress: Callable[[Progress], None]) -> None:
        """Pull an image for no attempt, together with the attempts that want it."""
        await self._pulls.pull(image, progress)

    def run(
        self, what: do.Pull | do.Create | do.Start | do.Watch | do.Signal | do.Stop | do.Remove
    ) -> None:
        match what:
            case do.Pull():
                self._go(what, "prepare", self._attempted(what, "pull", self._pull(what)))
            case do.Create():
                self._go(what, "prepare", self._attempted(what, "create", self._create(what)))
            case do.Start():
                self._go(what, "prepare", self._attempted(what, "start", self._start(what)))
            case do.Watch():
                self._go(what, "watch", self._watch(what))
            case do.Signal():
                self._go(what, "stop", self._attempted(what, "signal", self._signal(what)))
            case do.Stop():
                self._go(what, "stop", self._attempted(what, "stop", self._stop(what)))
            case do.Remove():
                self._go(what, "remove", self._attempted(what, "remove", self._remove(what)))

    def cancel(self, what: do.Cancel) -> None:
        """Give up what prepares an attempt. The engine may still do what it was asked for."""
        if container_id := self._starting.pop((what.attempt_id, what.epoch), None):
            self._fence.condemn(container_id)
        self._tasks.cancel((what.attempt_id, what.epoch, "prepare"))

    def _go(self, what: do.AttemptInstruction, lane: str, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start((what.attempt_id, what.epoch, lane), work)

    async def _attempted(
        self,
        what: do.AttemptInstruction,
        operation: ev.Operation,
        work: Coroutine[Any, Any, ev.Event | None],
    ) -> None:
        ids, parent = self._known(what.attempt_id)
        code = ""
        started = time.monotonic()
        with _span(operation, parent, ids) as span:
            try:
                event = await work
            except RuntimeFailure as failure:
                code = failure.code
                event = ev.OperationFailed(
                    what.attempt_id, what.epoch, operation, failure.code, failure.message
                )
            except Exception as error:
                code = _FALLBACK[operation]
                log.exception("operation_broke", operation=operation, **ids)
                event = ev.OperationFailed(
                    what.attempt_id, what.epoch, operation, code, repr(error)[:300]
                )
            if code:
                span.failed(code)
        seconds = round(time.monotonic() - started, 3)
        log.info("operation_ended", operation=operation, **ids, code=code, seconds=seconds)
        if event is not None:
            self._emit(event)

    def _known(self, attempt_id: str) -> tuple[dict[str, str], str]:
        """Return the ids that name an attempt in the log, and the parent of its spans."""
        found = self._find(attempt_id)
        ids = {"job_id": found.job_id} if found else {}
        spec = found.spec if found else None
        return {**ids, "attempt_id": attempt_id}, spec.trace_parent if spec else ""

    async def _pull(self, what: do.Pull) -> ev.Event:
        key = what.attempt_id, what.epoch

        parts = 2 if what.s3 else 1  # the image, then the copies of storages

        def progressed(one: Progress, part: int = 0) -> None:
            percent = (100 * part + one.percent) // parts
            self._emit(ev.PullProgressed(*key, percent, one.done, one.total))

        await self._pulls.pull(what.image, progressed)
        if what.working_files is not None:
            (await self._archives.open(what.working_files)).close()
        if what.s3:
            await self._runtime.fetch(key, what.s3, lambda one: progressed(one, 1))
        return ev.Pulled(*key)

    async def _create(self, what: do.Create) -> ev.Event:
        try:
            self._keep_masks(what.attempt_id, what.spec.masks)
        except OSError as error:
            code = "disk_full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "create_failed"
            message = f"The node cannot note what its log may not show: {error.strerror}."
            raise RuntimeFailure(code, message) from None
        await self._creates.acquire()
        with ExitStack() as turn:
            turn.callback(self._creates.release)
            async with self._archive(what.spec) as archive:
                container_id = await self._runtime.create(what.spec, archive, turn.close)
        return ev.Created(what.attempt_id, what.epoch, container_id)

    @asynccontextmanager
    async def _archive(self, spec: AttemptSpec) -> AsyncIterator[BinaryIO | None]:
        if spec.working_files is None:
            yield None
            return
        with await self._archives.open(spec.working_files) as archive:
            yield archive

    async def _start(self, what: do.Start) -> ev.Event:
        async with self._creates:
            key = what.attempt_id, what.epoch
            self._fence.starting(what.container_id)
            self._starting[key] = what.container_id
            try:
                await self._fence.ready()
                await self._runtime.start(what.container_id, what.ports)
            except RuntimeFailure:  # refused, by whoever: no start is under way
                self._started(key, what.container_id)
                raise
            self._started(key, what.container_id)
        return ev.Started(what.attempt_id, what.epoch)

    def _started(self, key: tuple[str, int], container_id: str) -> None:
        """Note that the engine answered."""
        self._starting.pop(key, None)
        self._fence.name(container_id)

    async def _signal(self, what: do.Signal) -> ev.Event:
        handled = await self._runtime.signal(what.container_id, what.signal)
        return ev.Signalled(what.attempt_id, what.epoch, handled)

    async def _stop(self, what: do.Stop) -> None:
        """The end itself is reported by the watch."""
        await self._runtime.stop(what.container_id, what.grace_s)

    async def _remove(self, what: do.Remove) -> ev.Event:
        # An agent before this one may have asked for its start, and not have the answer.
        self._fence.condemn(what.container_id)
        await self._runtime.remove(what.container_id)
        self._fence.unname(what.container_id)
        return ev.Removed(what.attempt_id, what.epoch)

    async def _watch(self, what: do.Watch) -> None:
        key = what.attempt_id, what.epoch
        while True:
            try:
                exit_ = await self._runtime.wait(what.container_id)
                ids, _ = self._known(what.attempt_id)
                log.info("container_exited", **ids, exit_code=exit_.exit_code)
                self._emit(ev.Exited(*key, await self._written_back(key, exit_)))
                return
            except RuntimeFailure as failure:
                if failure.code == "container_gone":
                    self._emit(ev.Vanished(*key))
                    # Nothing else takes it off what the watchdog and the runtime keep of it.
                    self._fence.unname(what.container_id)
                    with suppress(RuntimeFailure):
                        await self._runtime.remove(what.container_id)
                    return
            except Exception:
                log.exception("watch_broke", attempt_id=what.attempt_id)
            await asyncio.sleep(WATCH_AGAIN_S)

    async def _written_back(self, key: tuple[str, int], exit_: Exit) -> Exit:
        """Write back what the task left in object stores, before its end is reported: what waits
        for it finds its results. Without them a task has not succeeded; one that failed has its
        own reason."""
        try:
            await self._runtime.write_back(key, lambda: self._may_write(key[0]))
        except RuntimeFailure as failure:
            log.warning(failure.code, attempt_id=key[0], problem=failure.message)
            code = exit_.error_code or ("" if exit_.exit_code else failure.code)
            message = f"{exit_.message} {failure.message}".strip()
            return replace(exit_, error_code=code, message=message)
        return exit_
