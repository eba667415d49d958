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


class ImageSaveReport(Message):
    """How far a save of `ImageSaves` is. `code` and `message` say why it failed."""

    type: Literal["image_save_report"] = "image_save_report"
    save_id: str
    state: Literal["saving", "pushing", "done", "failed"]
    percent: int = 0  # of the push
    code: str = ""
    message: str = ""
    digest: str = ""  # of the manifest in the registry, when it is done
    size: int = 0  # bytes of what the task changed, unpacked


class ImageSaveSpec(Message):
    """That the container of a running attempt shall be pushed as an image."""

    save_id: str
    attempt_id: str
    epoch: int
    image: ImageSpec  # where to, and the credentials for it
    max_bytes: int  # of what the task changed, unpacked
    # The rules of its virtual cluster, which the agent checks again.
    image_patterns: list[str] = []
    latest_images: bool = True


class ImageSaves(Message):
    """All containers that the node shall save: one that is not listed any more is given up."""

    type: Literal["image_saves"] = "image_saves"
    saves: list[ImageSaveSpec]
