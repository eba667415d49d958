"""Containers of running attempts that the node shall push as images.

The server sends the complete list. One container at a time is saved: each takes disk space and
a processor of the node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from skep_agent.containers import RuntimeFailure, SavedImage
from skep_agent.core.attempt import Attempt
from skep_agent.image_patterns import refusal
from skep_agent.protocol import ImageSaveReport, ImageSaves, ImageSaveSpec
from skep_agent.runtimes.base import Runtime, SaveOrder
from skep_agent.shell.tasks import TaskSet

SAVE_S = 3600.0  # the longest that one may take
REPORT_S = 1.0  # between two reports of how far a push is
MAX_MESSAGE = 500
Find = Callable[[str], Attempt | None]
Masks = Callable[[str], list[str] | None]
Send = Callable[[ImageSaveReport], Coroutine[Any, Any, None]]

log = structlog.get_logger(__name__)


class ContainerSaves:
    """`find` gives the attempt that the node holds by an id, `masks` what of its job is secret;
    `send` drops what it says while there is no session."""

    def __init__(self, runtime: Runtime, find: Find, masks: Masks, send: Send) -> None:
        self._runtime = runtime
        self._find = find
        self._masks = masks
        self._send = send
        self._wanted: dict[str, ImageSaveSpec] = {}
        self._ended: dict[str, ImageSaveReport] = {}  # of those that are wanted
        self._one = asyncio.Semaphore(1)
        self._tasks = TaskSet()

    def want(self, message: ImageSaves) -> None:
        """Take the complete list: what is new on it is saved, what is not on it any more is given
        up, and what ended is reported once more."""
        listed = {spec.save_id: spec for spec in message.saves}
        for gone in self._wanted.keys() - listed.keys():
            self._tasks.cancel(gone)
            self._tasks.cancel(("progress", gone))
            self._ended.pop(gone, None)
        for save_id in listed:
            if ended := self._ended.get(save_id):
                self._tasks.start(("again", save_id), self._send(ended))
            elif save_id not in self._wanted:
                self._tasks.start(save_id, self._save(save_id))
        self._wanted = listed

    async def close(self) -> None:
        await self._tasks.close()

    async def _save(self, save_id: str) -> None:
        async with self._one:
            spec = self._wanted[save_id]  # the rules and the credentials of now
            await self._send(ImageSaveReport(save_id=save_id, state="saving"))
            try:
                async with asyncio.timeout(SAVE_S):
                    saved = await self._save_checked(spec)
                ended = ImageSaveReport(
                    save_id=save_id, state="done", percent=100, digest=saved.digest, size=saved.size
                )
            except RuntimeFailure as failure:
                ended = _failed(save_id, failure.code, failure.message)
            except TimeoutError:
                message = f"It took longer than {SAVE_S / 60:.0f} minutes."
                ended = _failed(save_id, "save_timeout", message)
            except Exception:
                log.exception("save_broke", save_id=save_id)
                message = "The agent could not save it; its log says why."
                ended = _failed(save_id, "save_failed", message)
        self._ended[save_id] = ended
        self._tasks.cancel(("progress", save_id))  # it would be sent after the end
        await self._send(ended)

    async def _save_checked(self, spec: ImageSaveSpec) -> SavedImage:
        reference = spec.image.reference
        if why := refusal(spec.image_patterns, spec.latest_images, reference):
            raise RuntimeFailure("spec_refused", f"This node does not push it: {why}.")
        attempt = self._find(spec.attempt_id)
        if attempt is None or not self._runs(spec):
            raise RuntimeFailure("not_running", "The task does not run on this node any more.")
        masks = self._masks(spec.attempt_id)
        if masks is None or not spec.image.username or spec.max_bytes <= 0:
            message = "The node does not know the secrets of the task, or has no credential."
            raise RuntimeFailure("spec_refused", message)
        reported = 0.0

        def pushed(percent: int) -> None:
            nonlocal reported
            if (now := time.monotonic()) - reported >= REPORT_S:
                reported = now
                save_id = spec.save_id
                report = ImageSaveReport(save_id=save_id, state="pushing", percent=percent)
                self._tasks.start(("progress", save_id), self._send(report))

        order = SaveOrder(spec.image, spec.max_bytes, masks, pushed, lambda: self._runs(spec))
        return await self._runtime.save(attempt.container_id, order)

    def _runs(self, spec: ImageSaveSpec) -> bool:
        """Return whether the node holds this very attempt, and it is not being stopped: then the
        lease of the node has not ended either."""
        attempt = self._find(spec.attempt_id)
        return attempt is not None and attempt.epoch == spec.epoch and attempt.state == "running"


def _failed(save_id: str, code: str, message: str) -> ImageSaveReport:
    return ImageSaveReport(
        save_id=save_id, state="failed", code=code, message=message[:MAX_MESSAGE]
    )
