"""The images that this agent brought onto the node, and their removal when the disk fills up.

Only images that the agent pulled, and that were not there before, are ever removed: what the
owner of the machine loaded, tagged or pulled stays. An image is kept while a container was made
from it, running or not, and for `RECENT_S` after a task asked for it: a task that is about to
start finds what was pulled for it. The least recently used goes first.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import structlog

from skep_agent.config import Watermarks
from skep_agent.containers import RuntimeFailure
from skep_agent.runtimes.docker_engine import Engine, EngineError

RECENT_S = 600.0
WRITE_S = 60.0  # the times of use in the file are at most so much older
Space = Callable[[], tuple[int, int] | None]  # free and total MiB
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Cached:
    names: set[str]  # by which the agent pulled it, as the engine lists them
    used: float  # seconds since the epoch


class ImageCache:
    """`state` is the file in which it survives the agent; None keeps it in memory."""

    def __init__(self, engine: Engine, state: Path | None, watermarks: Watermarks) -> None:
        self._engine = engine
        self._state = state
        self._watermarks = watermarks
        self._images = _read(state)  # by id
        self._asked: dict[str, float] = {}  # name -> monotonic seconds
        self._removing = asyncio.Lock()
        self._written = 0.0

    async def ask(self, name: str) -> None:
        """Keep what has this name for a while. Returns when nothing is being removed: what is seen
        then stays."""
        now = time.monotonic()
        self._asked[name] = now
        self._asked = {k: at for k, at in self._asked.items() if now - at < RECENT_S}
        async with self._removing:
            pass

    def use(self, image_id: str) -> None:
        """Count a use of an image."""
        if known := self._images.get(image_id):
            known.used = time.time()
            if time.monotonic() - self._written > WRITE_S:
                self._write()

    def add(self, image_id: str, name: str) -> None:
        """Take an image that this agent pulled, and that was not there before, or one of ours by
        one more name."""
        known = self._images.setdefault(image_id, _Cached(set(), 0.0))
        known.names.add(name)
        known.used = time.time()
        self._write()

    def forget(self, image_id: str) -> None:
        """Note that an image is not on the node any more."""
        if self._images.pop(image_id, None):
            self._write()

    def has(self, image_id: str) -> bool:
        """Return whether the agent brought this image."""
        return image_id in self._images

    async def clean(self, space: Space, is_mark: Callable[[str], bool]) -> list[str]:
        """Remove images while the disk is too full, and return their ids. `is_mark` says which tags
        are the agent's own. Raises nothing."""
        removed: list[str] = []
        try:
            if not self._watermarks.high or await _used(space) < self._watermarks.high:
                return removed
            for image_id in sorted(self._images, key=lambda one: self._images[one].used):
                if await _used(space) <= self._watermarks.low:
                    break
                if await self._remove(image_id, is_mark):
                    removed.append(image_id)
                    log.info("image_removed", image=image_id)
        except (RuntimeFailure, EngineError, OSError) as error:
            log.warning("images_not_cleaned", problem=str(error)[:300])
        finally:
            self._write()
        return removed

    async def _remove(self, image_id: str, is_mark: Callable[[str], bool]) -> bool:
        """Remove an image unless it is used, was asked for, or has names that are not ours."""
        async with self._removing:
            try:
                image = await self._engine.call(lambda api: api.inspect_image(image_id))
            except EngineError as error:
                if error.status == 404:
                    self._images.pop(image_id, None)  # who removed it was not this agent
                    return False
                raise
            if image_id not in self._images:  # a save removes what it made itself
                return False
            tags, digests = image.get("RepoTags") or [], image.get("RepoDigests") or []
            mine = self._images[image_id].names
            if any(tag not in mine and not is_mark(tag) for tag in tags):
                return False
            now = time.monotonic()
            names = {*tags, *digests, *mine}
            if any(now - self._asked.get(name, -RECENT_S) < RECENT_S for name in names):
                return False
            containers = await self._engine.call(lambda api: api.containers(all=True))
            if any(container.get("ImageID") == image_id for container in containers):
                return False
            # Never by force: what the engine still needs, it keeps.
            for name in (*tags, *digests) or (image_id,):
                if not await self._untag(name):
                    return False
            self._images.pop(image_id, None)
            return True

    async def _untag(self, name: str) -> bool:
        try:
            await self._engine.call(lambda api: api.remove_image(name))
        except EngineError as error:
            return error.status == 404  # gone with its last tag
        return True

    def _write(self) -> None:
        self._written = time.monotonic()
        if self._state is None:
            return
        rows = {
            image_id: {"names": sorted(one.names), "used": one.used}
            for image_id, one in self._images.items()
        }
        fresh = self._state.with_suffix(".new")
        try:
            fresh.write_text(json.dumps(rows))
            os.replace(fresh, self._state)
        except OSError as error:  # a full disk, of all things
            log.warning("image_cache_not_written", problem=str(error))


async def _used(space: Space) -> float:
    """Return the percents of the disk that are in use; 0 where that is not known."""
    found = await asyncio.to_thread(space)
    free, total = found or (0, 0)
    return 100 * (total - free) / total if total else 0.0


def _read(state: Path | None) -> dict[str, _Cached]:
    """Read the file; one that cannot be read names no image, and none of them is removed."""
    if state is None or not state.exists():
        return {}
    try:
        rows = json.loads(state.read_text())
        return {k: _Cached(set(row["names"]), float(row["used"])) for k, row in rows.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
