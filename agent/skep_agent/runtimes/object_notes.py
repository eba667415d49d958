"""What is noted beside a copy of an object store, on the disk of the agent's state.

In the folder of an attempt: the files of one mount below `0`, and in `0.place` where they are from,
which is where they go back to: the server may send other mounts later, or in another order. Once a
container may write to them, `0.json` says what they were before, and `0.given` how many MiB. It
goes when they were written back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from skep_agent.isolation.files import Owner
from skep_agent.protocol import S3Mount
from skep_agent.runtimes import object_transfers as transfers
from skep_agent.runtimes.object_transfers import Seen

MIB = 1024 * 1024
BYTES_PER_INODE = 16 * 1024  # as the watch of the disk counts them


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
