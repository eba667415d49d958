"""A running container as an image in a registry.

The engine exports the container's file system and lists what changed in it; `saved_layer` writes
the layer and the configuration, the engine loads them as an image and pushes it. The container is
not paused: one that is paused cannot be killed when the node's lease ends.

While it is on the node, the image has the name that it is pushed by, which may be that of an image
of other tenants. It is marked as private first (see `docker_images`): no task gets it from the
cache by that name without the word of the registry. What had the name before gets it back.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import structlog

from skep_agent.containers import RuntimeFailure, SavedImage
from skep_agent.isolation.create import NodeFacts, check_image
from skep_agent.runtimes import mount_points, saved_layer
from skep_agent.runtimes.base import SaveOrder
from skep_agent.runtimes.docker_engine import AnswerTooLong, Engine, EngineError
from skep_agent.runtimes.docker_images import PRIVATE_MARK, Images, familiar
from skep_agent.runtimes.docker_pull import auth_header, said_of, split_reference
from skep_agent.runtimes.saved_layer import Changes, Layer, LayerLimits, MissingTargets

if TYPE_CHECKING:
    from docker import APIClient

MAX_CHANGES_BYTES = 32 * 1024**2  # of the engine's list of what changed
# What is read of a container that has more than its image and what may be changed: headers, and
# what an engine counts in another way.
EXTRA_READ_BYTES = 32 * 1024**3
IMAGE_READS = 4  # an engine may say the size of an image as it is compressed
_DENIED_WORDS = (
    *("unauthorized", "authentication required", "no basic auth credentials", "denied"),
    *("incorrect username or password", "forbidden", "insufficient_scope"),
)
log = structlog.get_logger(__name__)


class Saver:
    """`state` is the agent's folder, in which layers are written; None: the machine's own for
    temporary files."""

    def __init__(
        self, engine: Engine, node: NodeFacts, images: Images, state: Path | None = None
    ) -> None:
        self._engine = engine
        self._node = node
        self._images = images
        self._folder = str(state or tempfile.gettempdir())

    async def save(self, found: dict[str, Any], order: SaveOrder) -> SavedImage:
        """See `Runtime.save`; `found` is the container as the engine describes it."""
        check_image(order.target)
        await self._images.check_registry(order.target)
        labels = found["Config"].get("Labels") or {}
        mine = labels.get("skep.cluster"), labels.get("skep.node")
        if mine != (self._node.cluster, self._node.name) or not found["State"]["Running"]:
            raise _not_running()
        try:
            return await self._save(found, order)
        except EngineError as error:
            raise error.failure("save_failed") from None

    async def _save(self, found: dict[str, Any], order: SaveOrder) -> SavedImage:
        whole = await self._loads_whole_images()
        folders = (self._folder, await self._root_of_engine())
        base = await self._engine.call(lambda api: api.inspect_image(found["Image"]))
        with tempfile.TemporaryFile(dir=self._folder) as spool:
            limits = LayerLimits(
                order.max_bytes,
                saved_layer.encoded(order.masks),
                IMAGE_READS * (base.get("Size") or 0) + order.max_bytes + EXTRA_READ_BYTES,
                folders,
                threading.Event(),
                await asyncio.to_thread(mount_points.of_container, found),
            )
            layer = await self._layer(found["Id"], spool, limits, whole)
            if not order.still_running():
                raise _not_running()
            now = datetime.now(UTC)
            config = saved_layer.config_of(base, layer, whole=whole, now=now)
            layers = len(json.loads(config)["rootfs"]["diff_ids"])
            saved_layer.check_space(folders, 2 * spool.seek(0, 2))
            # First, so that what an agent leaves that ends meanwhile is removed in its next life.
            # With containerd an image has another id, which is known later.
            expected = f"sha256:{hashlib.sha256(config).hexdigest()}"
            self._images.brought(expected, familiar(order.target.reference))
            image_id = await self._load(config, layers, spool)
            if image_id != expected:
                self._images.removed(expected)
        async with self._named(image_id, order):
            if not order.still_running():
                raise _not_running()
            digest = await self._push(order)
        return SavedImage(digest, layer.size)

    async def _loads_whole_images(self) -> bool:
        """Return whether the engine keeps images in containerd, which takes no archive without the
        layers that it has."""
        info = await self._engine.call(lambda api: api.info())
        status = dict(info.get("DriverStatus") or ())
        return "snapshotter" in str(status.get("driver-type", ""))

    async def _root_of_engine(self) -> str:
        info = await self._engine.call(lambda api: api.info())
        return str(info.get("DockerRootDir") or self._folder)

    # --- the layer

    async def _layer(
        self, container_id: str, spool: IO[bytes], limits: LayerLimits, whole: bool
    ) -> Layer:
        changes = None if whole else await self._changes(container_id, limits.mounts)
        try:
            return await self._engine.call(
                lambda api: _written(api, container_id, spool, changes, limits), repeat=False
            )
        finally:
            limits.cancelled.set()

    async def _changes(self, container_id: str, mounts: frozenset[str]) -> Changes:
        try:
            path = f"/containers/{container_id}/changes"
            answer = await self._engine.read(path, MAX_CHANGES_BYTES)
        except AnswerTooLong:
            raise saved_layer.too_many_files() from None
        return await asyncio.to_thread(Changes.of, answer, mounts)

    async def _load(self, config: bytes, layers: int, spool: IO[bytes]) -> str:
        """Load the image without a name, and return its id."""
        size = spool.seek(0, 2)
        spool.seek(0)
        pieces = saved_layer.archive(config, layers, spool, size)
        return await self._engine.call(lambda api: _loaded(api, pieces), repeat=False)

    # --- the push

    @asynccontextmanager
    async def _named(self, image_id: str, order: SaveOrder) -> AsyncIterator[None]:
        """Give the image the name that it is pushed by; at the end it is removed."""
        wanted = familiar(order.target.reference)
        repository, tag = split_reference(wanted)
        before = await self._id_of(wanted)
        call = self._engine.call
        try:
            mark = image_id.removeprefix("sha256:")
            await call(lambda api: api.tag(image_id, PRIVATE_MARK, mark))
            self._images.brought(image_id, wanted)
            await call(lambda api: api.tag(image_id, repository, tag))
            yield
        finally:
            try:
                if before is not None and await self._id_of(wanted) == image_id:
                    await call(lambda api: api.tag(before, repository, tag))
                await call(lambda api: api.remove_image(image_id, force=True))
                self._images.removed(image_id)
            except RuntimeFailure as failure:  # a task uses it by now, or the engine is away
                log.info("saved_image_stays", problem=failure.message[:300])

    async def _id_of(self, wanted: str) -> str | None:
        with suppress(EngineError):
            image = await self._engine.call(lambda api: api.inspect_image(wanted))
            return image["Id"] if wanted in (image.get("RepoTags") or ()) else None
        return None

    async def _push(self, order: SaveOrder) -> str:
        """Return the digest of the manifest."""
        repository, tag = split_reference(order.target.reference)
        layers: dict[str, float] = {}
        digest, percent = "", 0
        try:
            async with self._engine.lines(
                "POST", f"/images/{repository}/push", {"tag": tag}, auth_header(order.target)
            ) as lines:
                async for line in lines:
                    if "error" in line:
                        raise EngineError(500, str(line["error"]))
                    digest = (line.get("aux") or {}).get("Digest") or digest
                    if (now := _percent(layers, line)) > percent:
                        percent = now
                        order.pushed(percent)
        except EngineError as error:
            raise _push_failure(error, order) from None
        if not digest:
            raise RuntimeFailure("push_failed", "The engine does not say what it pushed.")
        return digest


def _written(
    api: APIClient,
    container_id: str,
    spool: IO[bytes],
    changes: Changes | None,
    limits: LayerLimits,
) -> Layer:
    """Read the container twice at most: files that hard links lead to come with them."""
    for _ in range(2):
        spool.seek(0)
        spool.truncate()
        pieces = api.export(container_id, chunk_size=saved_layer.PIECE_BYTES)
        try:
            return saved_layer.write_layer(pieces, spool, changes, limits)
        except MissingTargets as missing:
            if changes is None:
                break
            changes = changes.also(missing.targets)
        finally:
            pieces.close()
    raise RuntimeFailure(
        "save_failed",
        "It has hard links to files of the platform, or to none. Remove them and save again.",
    )


def _loaded(api: APIClient, pieces: Iterator[bytes]) -> str:
    image_id = ""
    for line in api.load_image(pieces) or ():
        if "error" in line:
            raise EngineError(500, str(line["error"]))
        _, said, loaded = str(line.get("stream") or "").partition("Loaded image ID: ")
        image_id = loaded.strip() if said else image_id
    if not image_id:
        raise RuntimeFailure("save_failed", "The engine does not say what it loaded.")
    return image_id


def _percent(layers: dict[str, float], line: dict[str, Any]) -> int:
    """Return how much of the layers that the registry lacked was pushed, as far as it is known."""
    name, status = line.get("id", ""), line.get("status", "")
    detail = line.get("progressDetail") or {}
    if status == "Pushing" and detail.get("total"):
        layers[name] = min(detail.get("current", 0) / detail["total"], 0.99)
    elif status in ("Pushed", "Mounted from") and name in layers:
        layers[name] = 1.0
    return int(99 * min(layers.values(), default=0.0))


def _push_failure(error: EngineError, order: SaveOrder) -> RuntimeFailure:
    text = error.message.lower()
    denied = any(word in text for word in _DENIED_WORDS)
    message = f"{order.target.reference}: {said_of(error)}"
    if denied:
        message = (
            f"The registry refuses {order.target.reference} for {order.target.username}: the "
            f"credential must be allowed to push there ({said_of(error)})."
        )
    return RuntimeFailure("push_denied" if denied else "push_failed", message)


def _not_running() -> RuntimeFailure:
    return RuntimeFailure("not_running", "The task does not run on this node any more.")
