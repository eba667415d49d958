"""What is noted beside a copy of an object store, on the disk of the agent's state.

In the folder of an attempt: the files of one mount below `0`, and in `0.place` where they are from,
which is where they go back to: the server may send other mounts later, or in another order. Once a
container may write to them, `0.json` says what they were before, and `0.given` how many MiB. It
goes when they were written back.

What a task wrote is not lost when its store refuses it for good: the copies of its attempt are
moved beside those in use, for the node's admin. They go after `KEPT_S`, and sooner, the oldest
first, while less of the disk is free than `FREE_PART` of it.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from skep_agent.isolation.files import Owner
from skep_agent.protocol import S3Mount
from skep_agent.runtimes import object_transfers as transfers
from skep_agent.runtimes.base import AttemptKey
from skep_agent.runtimes.object_transfers import Seen

MIB = 1024 * 1024
BYTES_PER_INODE = 16 * 1024  # as the watch of the disk counts them
KEPT_S = 24 * 3600.0
FREE_PART = 5  # a fifth
NOTICE = f"The files are kept on the node for {KEPT_S / 3600:.0f} hours: ask an admin for them."
_MARK = "kept"

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Left:
    """A mount that is not written back yet, as it was filled."""

    number: str
    place: dict[str, Any]
    known: dict[str, Seen]  # what its files were when they were last in the bucket
    problem: str = ""  # why not, when it was last tried


def hand_over(source: Path, owner: Owner, read_only: bool) -> None:
    at = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        known, taken, inodes = transfers.own(at, owner.uid, owner.gid)
    finally:
        os.close(at)
    if read_only:
        return
    given_mb = -(-max(taken, inodes * BYTES_PER_INODE) // MIB)
    write(source.with_suffix(".given"), given_mb)
    write(source.with_suffix(".json"), known)


def write_back(
    folder: Path, one: Left, mount: S3Mount, ended: Callable[[], bool]
) -> transfers.Written:
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    at = os.open(folder / one.number, flags)
    try:
        return transfers.upload(mount, at, one.known, ended)
    finally:
        os.close(at)


def left_in(folder: Path, problems: list[str]) -> list[Left]:
    """Return the mounts of an attempt that may have to be written back."""
    found = []
    for manifest in sorted(folder.glob("*.json")):
        place, files = read(manifest.with_suffix(".place")), read(manifest)
        if isinstance(place, dict) and isinstance(files, dict):
            known = {name: Seen(*seen) for name, seen in files.items()}
            found.append(Left(manifest.stem, place, known))
        else:
            problems.append("What a storage had before is not known any more.")
    return found


def place_of(mount: S3Mount) -> dict[str, Any]:
    """Return what makes a mount the same: its keys may change, and how its store is reached."""
    names = ("storage", "endpoint", "bucket", "prefix", "user_folder", "target", "read_only")
    return {name: getattr(mount, name) for name in names}


def write(path: Path, what: object) -> None:
    """Write all of it or nothing, also when the machine loses its power."""
    part = path.with_suffix(".part")
    with part.open("w") as file:
        json.dump(what, file)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read(path: Path) -> Any:
    """Return None where it is broken, or not there."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def given_in(path: Path) -> int:
    given = read(path)
    return given if isinstance(given, int) else 0


def key_of(labels: dict[str, str]) -> AttemptKey | None:
    """Return the attempt and the epoch of a container; None when it is not well labelled."""
    attempt, epoch = labels.get("skep.attempt", ""), labels.get("skep.epoch", "")
    return (attempt, int(epoch)) if attempt and epoch.isdecimal() else None


def attempt_in(name: str) -> AttemptKey | None:
    """Return whose folder has this name; None for other names."""
    attempt, _, epoch = name.rpartition(".")
    return (attempt, int(epoch)) if attempt and epoch.isdecimal() else None


def folders_in(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


class KeptCopies:
    """Those of one node, beside `folder`, in which attempts have their copies."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder and folder.with_name(f"{folder.name}-kept")

    def mark(self, copies: Path) -> None:
        """See that the copies of an attempt are kept when it is removed."""
        write(copies / _MARK, time.time())

    def remove(self, copies: Path) -> None:
        """Remove the copies of an attempt, or keep what of them was not written back. Where they
        cannot be moved, they stay where they are, and the next agent tries again."""
        if self._folder is None or not (copies / _MARK).exists():
            shutil.rmtree(copies, ignore_errors=True)
            return
        for place in copies.glob("*.place"):
            if not place.with_suffix(".json").exists():
                shutil.rmtree(place.with_suffix(""), ignore_errors=True)
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            shutil.rmtree(self._folder / copies.name, ignore_errors=True)
            copies.rename(self._folder / copies.name)
            self.tidy()
        except OSError as error:
            log.warning("copies_not_moved", attempt=copies.name, error=error.strerror)

    def tidy(self) -> None:
        """Remove what was kept for long enough, or takes space that is needed."""
        if self._folder is None or not self._folder.exists():
            return
        found = sorted((_since(one), one) for one in self._folder.iterdir())
        for since, copies in found:
            if since + KEPT_S > time.time() and not self._is_disk_full():
                return
            shutil.rmtree(copies, ignore_errors=True)

    def _is_disk_full(self) -> bool:
        assert self._folder is not None
        disk = os.statvfs(self._folder)
        return disk.f_bavail * FREE_PART < disk.f_blocks


def _since(copies: Path) -> float:
    since = read(copies / _MARK)
    return float(since) if isinstance(since, int | float) else 0.0
