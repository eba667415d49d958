"""Images that the node shall have before a task asks for them.

The server sends the complete list. One image at a time is pulled, so that most of the pulls at a
time are left to tasks; what is on the node already is done at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

from skep_agent.containers import Progress, RuntimeFailure
from skep_agent.core.lifecycle import PULL_STALL_S
from skep_agent.image_patterns import refusal
from skep_agent.protocol import ImageSpec, Prefetches, PrefetchReport, PrefetchSpec
from skep_agent.shell.tasks import TaskSet

REPORT_S = 1.0  # between two reports of how far a pull is
MAX_MESSAGE = 300
Pull = Callable[[ImageSpec, Callable[[Progress], None]], Awaitable[None]]
Send = Callable[[PrefetchReport], Awaitable[None]]

log = structlog.get_logger(__name__)


class PrefetchPulls:
    """`pull` is shared with tasks that want the same image; `send` drops what it says while there
    is no session. `pulled` is called after each pull."""

    def __init__(self, pull: Pull, send: Send, pulled: Callable[[], None]) -> None:
        self._pull = pull
        self._send = send
        self._pulled = pulled
        self._wanted: dict[str, PrefetchSpec] = {}
        self._ended: dict[str, PrefetchReport] = {}  # of those that are wanted
        self._one = asyncio.Semaphore(1)
        self._tasks = TaskSet()

    def want(self, message: Prefetches) -> None:
        """Take the complete list: what is new on it is pulled, what is not on it any more is given
        up, and what ended is reported once more."""
        listed = {spec.prefetch_id: spec for spec in message.images}
        for gone in self._wanted.keys() - listed.keys():
            self._tasks.cancel(gone)
            self._ended.pop(gone, None)
        for prefetch_id in listed:
            if ended := self._ended.get(prefetch_id):
                self._tasks.start(("again", prefetch_id), self._report(ended))
            elif prefetch_id not in self._wanted:
                self._tasks.start(prefetch_id, self._bring(prefetch_id))
        self._wanted = listed

    async def close(self) -> None:
        await self._tasks.close()

    async def _bring(self, prefetch_id: str) -> None:
        problem = ""
        async with self._one:
            await self._report(PrefetchReport(prefetch_id=prefetch_id, state="pulling"))
            try:  # the rules and the credentials of now: it may have waited for long
                await self._pull_checked(self._wanted[prefetch_id])
            except RuntimeFailure as failure:
                problem = failure.message
            except Exception:
                log.exception("prefetch_broke", prefetch_id=prefetch_id)
                problem = "The agent could not pull it; its log says why."
        ended = PrefetchReport(
            prefetch_id=prefetch_id,
            state="failed" if problem else "done",
            percent=0 if problem else 100,
            message=problem[:MAX_MESSAGE],
        )
        self._ended[prefetch_id] = ended
        self._pulled()
        await self._report(ended)

    async def _pull_checked(self, spec: PrefetchSpec) -> None:
        reference = spec.image.reference
        if why := refusal(spec.image_patterns, spec.latest_images, reference):
            raise RuntimeFailure("spec_refused", f"This node does not pull it: {why}.")
        reported = 0.0, 0
        loop = asyncio.get_running_loop()

        def progressed(progress: Progress) -> None:
            nonlocal reported
            if not stall.expired():
                stall.reschedule(loop.time() + PULL_STALL_S)
            at, percent = reported
            now = time.monotonic()
            if progress.percent > percent and now - at >= REPORT_S:
                reported = now, progress.percent
                report = PrefetchReport(
                    prefetch_id=spec.prefetch_id,
                    state="pulling",
                    percent=progress.percent,
                    done=progress.done,
                    total=progress.total,
                )
                self._tasks.start(("progress", spec.prefetch_id), self._report(report))

        try:
            async with asyncio.timeout(PULL_STALL_S) as stall:
                await self._pull(spec.image, progressed)
        except TimeoutError:
            if not stall.expired():
                raise
            message = f"The pull made no progress for {PULL_STALL_S / 60:.0f} minutes."
            raise RuntimeFailure("image_pull", message) from None

    async def _report(self, report: PrefetchReport) -> None:
        await self._send(report)
