"""What server and agent say about images: a part of the wire contract in `protocol`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skep_agent.inventory import Message

MAX_CACHED_IMAGES = 1000  # names of images that a node reports


class ImageSpec(Message):
    reference: str
    pull: Literal["always", "missing", "never"] = "missing"
    username: str = ""
    password: str = Field(default="", repr=False)


class CachedImage(Message):
    """An image on the node, by one of its names as the engine lists it."""

    reference: str
    size: int  # bytes on the disk


class NodeImages(Message):
    """All images on the node, at most MAX_CACHED_IMAGES. Sent after Welcome, and when they
    changed."""

    type: Literal["images"] = "images"
    images: list[CachedImage]


class PrefetchReport(Message):
    """How far an image of `Prefetches` is."""

    type: Literal["prefetch_report"] = "prefetch_report"
    prefetch_id: str
    state: Literal["pulling", "done", "failed"]
    percent: int = 0
    done: int = 0  # bytes, as the next
    total: int = 0  # 0: not known yet
    message: str = ""  # why it failed


class PrefetchSpec(Message):
    """An image that the node shall have before a task asks for it."""

    prefetch_id: str
    image: ImageSpec
    # The rules of the virtual cluster that it is for, which the agent checks again.
    image_patterns: list[str] = []
    latest_images: bool = True


class Prefetches(Message):
    """All images that the node shall have: a pull that is not listed any more is given up."""

    type: Literal["prefetches"] = "prefetches"
    images: list[PrefetchSpec]
