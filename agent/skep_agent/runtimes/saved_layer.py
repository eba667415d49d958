"""The layer and the configuration of an image that a container is saved as.

The engine's own commit cannot be used: it puts the container's environment, its command and all
files below FILES_DIR into the image. Here a layer is written out of the container's root file
system as the engine exports it, with what the task changed and nothing of the platform, and the
configuration is that of the image which the container was made from. Mount points that a runtime
made in the container are left out: see `mount_points`.

Runs on a thread, and is given up when `cancelled` is set.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import PurePosixPath
from typing import IO, Any

from skep_agent.containers import RuntimeFailure
from skep_agent.protocol import FILES_DIR
from skep_agent.runtimes.mount_points import folders_of, libraries_in, library_of

PIECE_BYTES = 256 * 1024
MAX_ENTRIES = 2_000_000
MAX_PATHS_BYTES = 32 * 1024**2  # of the paths that are kept in memory
RESERVE_BYTES = 1024**3  # of the disk that stay free
LOOK_BYTES = 64 * 1024**2  # so much is written between two looks at the disk
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
# What a registry gets of the image's way: not the commands, which may hold what is no one's
# business.
SAVED_BY = "saved by Skep from a running container"
_OURS = FILES_DIR.strip("/")
_ABOVE_OURS = frozenset({_OURS, *map(str, PurePosixPath(_OURS).parents)} - {"."})
# Of an image's configuration; the rest is of a container, or of the engine alone.
_KEPT = (
    *("User", "ExposedPorts", "Env", "Entrypoint", "Cmd", "Volumes", "WorkingDir", "Labels"),
    *("StopSignal", "Shell", "Healthcheck", "OnBuild"),
)
_ADDED, _DELETED = 1, 2  # of the engine's kinds of change
_END_BYTES = 2 * tarfile.BLOCKSIZE


class MissingTargets(Exception):
    """Hard links lead to files that are not among the changes: they have to be written, too."""

    def __init__(self, targets: set[str]) -> None:
        super().__init__()
        self.targets = targets


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths without a leading slash. `deleted` may come again as a folder: then it hides what the
    image has there. `links`: what is left out if it is a link to a library that is mounted."""

    kept: frozenset[str]
    deleted: frozenset[str]
    links: frozenset[str] = frozenset()

    @classmethod
    def of(cls, answer: bytes, mounts: frozenset[str] = frozenset()) -> Changes:
        """Return what the engine's list says, without what was made only to mount something there.
        For a thread: it is long, and is read row by row, so that other threads are not kept
        waiting."""
        kept: set[str] = set()
        deleted: set[str] = set()
        folders, libraries = folders_of(mounts), libraries_in(mounts)
        empty: set[str] = set()  # folders that have nothing but mount points
        links: set[str] = set()
        for row in _rows(answer.decode("utf-8", "replace")):
            path, kind = str(row["Path"]).strip("/"), row["Kind"]
            if not path or _is_ours(path):
                continue
            if kind == _DELETED:
                deleted.add(path)
            elif kind == _ADDED and path in folders:
                empty.add(path)
            elif kind != _ADDED or path not in mounts:
                kept.add(path)
                if kind == _ADDED and library_of(path) in libraries:
                    links.add(path)
        kept_above: set[str] = set()
        for path in kept if empty else ():
            above = path
            while empty and (above := above.rpartition("/")[0]):
                if above in empty:
                    empty.remove(above)
                    kept_above.add(above)
        return cls(frozenset(kept | kept_above), frozenset(deleted), frozenset(links))

    def also(self, paths: set[str]) -> Changes:
        return Changes(self.kept | paths, self.deleted, self.links)


@dataclass(frozen=True, slots=True)
class LayerLimits:
    max_bytes: int
    masks: tuple[bytes, ...]
    max_read: int  # bytes of the whole archive
    folders: tuple[str, ...]  # on the disks that it takes space of
    cancelled: threading.Event
    mounts: frozenset[str] = frozenset()  # the mount points of the container


@dataclass(frozen=True, slots=True)
class Layer:
    diff_id: str  # "sha256:…" of the tar archive
    size: int  # of its files


def write_layer(
    pieces: Iterable[bytes], spool: IO[bytes], changes: Changes | None, limits: LayerLimits
) -> Layer:
    """Write what changed of an exported file system to `spool` as a layer; with None all of it.
    Raises RuntimeFailure "save_too_large", "save_has_secret", "save_changed" or "disk_full", and
    MissingTargets."""
    source, target = _Source(pieces, limits), _Target(spool)
    try:
        with (
            tarfile.open(fileobj=source, mode="r|", bufsize=PIECE_BYTES) as whole,  # type: ignore[call-overload]
            tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT) as layer,  # type: ignore[call-overload]
        ):
            size = _Writer(layer, changes, limits, target).write(whole)
            source.drain()
            if source.count < whole.offset + _END_BYTES:
                raise tarfile.ReadError("no end of the archive")
    except tarfile.TarError:
        message = "Files of the task changed while they were read. Save again when it writes less."
        raise RuntimeFailure("save_changed", message) from None
    return Layer(f"sha256:{target.hash.hexdigest()}", size)


class _Source:
    """An archive that comes in pieces, as a file."""

    def __init__(self, pieces: Iterable[bytes], limits: LayerLimits) -> None:
        self._pieces = iter(pieces)
        self._limits = limits
        self._rest = b""
        self.count = 0

    def read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            if not self._rest:
                if self._limits.cancelled.is_set():
                    raise RuntimeFailure("save_failed", "It was given up.")
                self._rest = next(self._pieces, b"")
                if not self._rest:
                    break
            part, self._rest = self._rest[:missing], self._rest[missing:]
            parts.append(part)
            missing -= len(part)
        found = b"".join(parts)
        self.count += len(found)
        if self.count > self._limits.max_read:
            raise _too_much_to_read(self._limits)
        return found

    def drain(self) -> None:
        while self.read(PIECE_BYTES):
            pass


class _Target:
    def __init__(self, spool: IO[bytes]) -> None:
        self._spool = spool
        self.hash = hashlib.sha256()
        self.count = 0

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        self.count += len(data)
        return self._spool.write(data)


@dataclass(slots=True)
class _Writer:
    layer: tarfile.TarFile
    changes: Changes | None
    limits: LayerLimits
    target: _Target
    size: int = 0
    looked_at: int = 0
    entries: int = 0
    paths_bytes: int = 0  # of the two sets
    written: set[str] = field(default_factory=set)  # folders, and what was deleted and came again
    missing: set[str] = field(default_factory=set)

    def write(self, whole: tarfile.TarFile) -> int:
        while (entry := whole.next()) is not None:
            whole.members.clear()  # type: ignore[attr-defined]  # or all of them stay in memory
            self.layer.members.clear()  # type: ignore[attr-defined]
            if whole.offset > self.limits.max_read:  # where the next entry begins
                raise _too_much_to_read(self.limits)
            path = entry.name.strip("/")
            if path in _ABOVE_OURS and not entry.isdir():
                # What it leads to would not be known as the platform's.
                message = f"/{path} of the container is no folder. Make it one and save again."
                raise RuntimeFailure("save_failed", message)
            if path in ("", ".") or not self._is_wanted(path) or self._is_for_a_mount(entry, path):
                continue
            self._add(whole, entry, path)
            self._look_at_disk()
        if self.missing:
            raise MissingTargets(self.missing)
        self._hide()
        return self.size

    def _is_wanted(self, path: str) -> bool:
        changes = self.changes
        if _is_ours(path):
            return False
        return changes is None or path in changes.kept or path in changes.deleted

    def _is_for_a_mount(self, entry: tarfile.TarInfo, path: str) -> bool:
        """Return whether it is an empty file on which something is mounted, where it is not known
        whether the image has it, or a link to a library that is mounted beside it."""
        if self.changes is None:
            return entry.isreg() and entry.size == 0 and path in self.limits.mounts
        if path not in self.changes.links or not entry.issym():
            return False
        target = PurePosixPath(path).parent / entry.linkname
        return library_of(str(target).strip("/")) == library_of(path)

    def _add(self, whole: tarfile.TarFile, entry: tarfile.TarInfo, path: str) -> None:
        self.entries += 1
        if self.entries > MAX_ENTRIES:
            raise RuntimeFailure("save_too_large", f"It has more than {MAX_ENTRIES} files.")
        self._check_names(entry)
        # The engine lists what a hard link leads to before the link.
        if entry.islnk() and not self._is_wanted(target := entry.linkname.strip("/")):
            self._remember(self.missing, target)
            return
        deleted = self.changes.deleted if self.changes is not None else ()
        if path in deleted or (deleted and entry.isdir()):
            self._remember(self.written, path)
        if not entry.isreg():
            self.layer.addfile(entry)
            if entry.isdir() and path in deleted:
                self.layer.addfile(_empty(f"{path}/{OPAQUE}"))
            return
        self.size += entry.size
        if self.size > self.limits.max_bytes:
            most = self.limits.max_bytes // 1024**2
            message = (
                f"The task changed more than {most} MiB, the most that its virtual cluster allows. "
                "Delete caches and data that the image does not need."
            )
            raise RuntimeFailure("save_too_large", message)
        content = whole.extractfile(entry)
        assert content is not None
        self.layer.addfile(entry, _Searched(content, path, self.limits.masks))  # type: ignore[arg-type]

    def _remember(self, paths: set[str], path: str) -> None:
        self.paths_bytes += len(path)
        if self.paths_bytes > MAX_PATHS_BYTES:
            raise too_many_files()
        paths.add(path)

    def _check_names(self, entry: tarfile.TarInfo) -> None:
        texts = (entry.name, entry.linkname, entry.uname, entry.gname)
        extra = (text for pair in entry.pax_headers.items() for text in pair)
        for text in (*texts, *extra):
            data = text.encode("utf-8", "surrogateescape")
            if any(mask in data for mask in self.limits.masks):
                message = (
                    "The name or an attribute of a file, or what a link leads to, holds a secret "
                    "of the job, or its job token. Remove it from the container and save again."
                )
                raise RuntimeFailure("save_has_secret", message)

    def _look_at_disk(self) -> None:
        if self.target.count - self.looked_at < LOOK_BYTES:
            return
        self.looked_at = self.target.count
        # The engine unpacks it twice, if it has the same disk.
        check_space(self.limits.folders, 2 * self.target.count)

    def _hide(self) -> None:
        if self.changes is None:
            return
        for path in sorted(self.changes.deleted - self.written):
            parent, name = str(PurePosixPath(path).parent), PurePosixPath(path).name
            if parent == "." or parent in self.written:
                entry = _empty(str(PurePosixPath(parent, WHITEOUT + name)))
                self._check_names(entry)
                self.layer.addfile(entry)
                self._look_at_disk()


class _Searched:
    """A file that is searched for secrets while it is read."""

    def __init__(self, file: IO[bytes], path: str, masks: tuple[bytes, ...]) -> None:
        self._file = file
        self._path = path
        self._masks = masks
        self._overlap = max(map(len, masks), default=1) - 1
        self._tail = b""

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        seen = self._tail + data
        if any(mask in seen for mask in self._masks):
            message = (
                f"The file /{self._path[:300]} holds a secret of the job, or its job token. Remove "
                "it from the container and save again."
            )
            raise RuntimeFailure("save_has_secret", message)
        self._tail = seen[-self._overlap :] if self._overlap else b""
        return data


def _rows(text: str) -> Iterator[dict[str, Any]]:
    """Return the objects of a list in JSON, one after the other; of "null" none."""
    read, at = json.JSONDecoder().raw_decode, text.find("{")
    while at >= 0:
        row, end = read(text, at)
        yield row
        at = text.find("{", end)


def check_space(folders: Iterable[str], size: int) -> None:
    """Raise RuntimeFailure "disk_full" unless so many bytes fit on the disks of all folders. One
    that the agent does not see is left out: the engine may be on another machine."""
    for folder in folders:
        with suppress(OSError):
            if shutil.disk_usage(folder).free < size + RESERVE_BYTES:
                raise RuntimeFailure("disk_full", "The node's disk has no space for the image.")


def too_many_files() -> RuntimeFailure:
    message = (
        "The task changed too many files, or files with too long paths. Delete caches and data "
        "that the image does not need."
    )
    return RuntimeFailure("save_too_large", message)


def _too_much_to_read(limits: LayerLimits) -> RuntimeFailure:
    message = (
        f"The files of the container have more than {limits.max_read // 1024**3} GiB, holes "
        "included. Delete large files that are mostly empty."
    )
    return RuntimeFailure("save_too_large", message)


def _empty(name: str) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.mode = 0o644
    return entry


def _is_ours(path: str) -> bool:
    return path == _OURS or path.startswith(f"{_OURS}/")


def config_of(image: Mapping[str, Any], layer: Layer, *, whole: bool, now: datetime) -> bytes:
    """Return the configuration of the saved image: that of `image`, as the engine describes it,
    with one more layer; `whole`: with this one alone."""
    below = [] if whole else list((image.get("RootFS") or {}).get("Layers") or [])
    at = now.astimezone(UTC).isoformat()
    history = [{"created": at, "created_by": "layer of the image it was made from"} for _ in below]
    known = image.get("Config") or {}
    config = {
        "architecture": image.get("Architecture") or "amd64",
        "os": image.get("Os") or "linux",
        **({"variant": image["Variant"]} if image.get("Variant") else {}),
        "created": at,
        "config": {name: known[name] for name in _KEPT if known.get(name)},
        "rootfs": {"type": "layers", "diff_ids": [*below, layer.diff_id]},
        "history": [*history, {"created": at, "created_by": SAVED_BY}],
    }
    return json.dumps(config, separators=(",", ":")).encode()


def archive(config: bytes, layers: int, spool: IO[bytes], size: int) -> Iterator[bytes]:
    """Return what the engine loads: the newest of `layers` layers from `spool`; those below it the
    engine has."""
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    # The engine looks them up by their content, and asks for no file of those that it has.
    listed = [*(f"{number}/layer.tar" for number in range(layers - 1)), "saved/layer.tar"]
    manifest = json.dumps([{"Config": name, "RepoTags": None, "Layers": listed}]).encode()
    yield from _member(name, BytesIO(config), len(config))
    yield from _member("saved/layer.tar", spool, size)
    yield from _member("manifest.json", BytesIO(manifest), len(manifest))
    yield bytes(_END_BYTES)


def _member(name: str, content: IO[bytes], size: int) -> Iterator[bytes]:
    entry = tarfile.TarInfo(name)
    entry.size = size
    yield entry.tobuf(tarfile.GNU_FORMAT)
    left = size
    while left:
        piece = content.read(min(left, PIECE_BYTES))
        if not piece:
            raise RuntimeFailure("save_failed", "The layer is shorter than it was.")
        left -= len(piece)
        yield piece
    if rest := size % tarfile.BLOCKSIZE:
        yield bytes(tarfile.BLOCKSIZE - rest)


def encoded(masks: Sequence[str]) -> tuple[bytes, ...]:
    """Return what no file may hold, without what is part of another one: the shorter one is found
    in each of them."""
    found: list[bytes] = []
    for mask in sorted({m.encode("utf-8", "surrogatepass") for m in masks if m}, key=len):
        if not any(one in mask for one in found):
            found.append(mask)
    return tuple(found)
