"""Files of storages, up and down piece by piece. What was cut goes on where it ended, if the file
is still the same; pieces of two versions of a file never become one."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from glob import escape
from pathlib import Path
from typing import IO, NamedTuple

from skep_client import calls
from skep_client.calls import Call
from skep_client.client import Skep
from skep_client.errors import SkepError
from skep_client.flow import log
from skep_client.models import StorageUpload, StorageUsage

PIECE = 2 * 1024 * 1024
READ_PIECE = 8 * 1024 * 1024
PART = ".skep-part"
MAX_NAME = 180  # bytes of a name in the name of its part, which has at most 255
TRIES = 3  # to read one version of a file that is written to
# Seconds before each repetition while the server still works on a piece whose answer was lost.
BUSY_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)

Progress = Callable[[int], None]  # bytes so far


class Place(NamedTuple):
    """A path in a storage."""

    storage: str
    path: str

    def inner(self, name: str) -> Place:
        return Place(self.storage, f"{self.path}/{name}" if self.path else name)

    def __str__(self) -> str:
        return f"{self.storage}:{self.path}"


class Content(NamedTuple):
    """What differs between two contents of a file."""

    size: int
    etag: str | None
    modified_at: datetime | None


def upload(skep: Skep, source: Path, target: Place, progress: Progress | None = None) -> bool:
    """Send a file, and return whether it stayed the same meanwhile: of one that grew, the copy has
    what was there at the beginning. Raises SkepError `file_changed` for any other change."""
    with source.open("rb") as file:
        found = os.fstat(file.fileno())
        size = found.st_size
        version = version_of(found)
        known = skep.run(calls.following(calls.storage_upload(*target, version)))
        # A server that does not know versions does not say of which one the bytes are.
        offset = known.offset if known.source == version and known.offset <= size else 0
        before = _content_of(skep, target) if size > PIECE else None
        while True:
            file.seek(offset)
            data = file.read(min(PIECE, size - offset))
            last = offset + len(data) == size
            now = os.fstat(file.fileno())
            same = (now.st_size, now.st_mtime_ns) == (size, found.st_mtime_ns)
            if now.st_size <= size and not same:
                raise _changed(source)
            call = calls.write_storage_file(*target, data, offset, last=last, source=version)
            arrived = _arrived(skep, target, call, offset, offset + len(data), before, last=last)
            if progress is not None:
                progress(arrived)
            if last and arrived == size:
                return same
            offset = arrived


def version_of(found: os.stat_result) -> str:
    """Return what a server is given as the name of this version of a file."""
    return _hash(f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")


def _arrived(
    skep: Skep,
    target: Place,
    call: Call[StorageUpload],
    offset: int,
    end: int,
    before: Content | None,
    *,
    last: bool,
) -> int:
    """Send a piece, and return how much of the file has arrived then. It may have arrived, whole or
    in part, with a request before whose answer was lost."""
    pauses = iter(BUSY_PAUSES_S)
    while True:
        try:
            return skep.run(calls.following(call)).offset
        except SkepError as error:
            pause = next(pauses, None) if error.code == "upload_in_progress" else None
            if pause is None:
                arrived = error.details.get("offset", -1) if error.code == "upload_offset" else -1
                if offset < arrived <= end:
                    return int(arrived)
                # No piece waits for another one: the file has its name, if it is a new one.
                if last and offset and arrived == 0:
                    now = _content_of(skep, target)
                    if now is not None and now != before and now.size == end:
                        return end
                raise
        time.sleep(pause)


def _content_of(skep: Skep, place: Place) -> Content | None:
    """Return what a content of a file has alone; None where there is no file."""
    try:
        about = skep.run(calls.following(calls.storage_usage(*place)))
    except SkepError as error:
        if error.code != "file_not_found":
            raise
        return None
    return Content(about.size, about.etag, about.modified_at)


def download(skep: Skep, source: Place, target: Path, progress: Progress | None = None) -> bool:
    """Fetch a file into one beside its target, which takes its name at the end; return whether it
    stayed the same meanwhile: of one that grew, the copy has what was there at the beginning.
    Raises SkepError `file_changed` for one that is written anew again and again."""
    for left in reversed(range(TRIES)):
        about = skep.run(calls.following(calls.storage_usage(*source)))
        try:
            return _fetch(skep, source, about, target, progress)
        except SkepError as error:
            if error.code != "file_changed" or not left:
                raise
        log.warning(f"{source} was written to while it was copied: copying it again.")
    raise AssertionError("the last try returns or raises")


def _fetch(
    skep: Skep, source: Place, about: StorageUsage, target: Path, progress: Progress | None
) -> bool:
    # A server that knows no tags of files is asked again at the end.
    etag, modified_at = about.etag or "", about.modified_at
    part = _part(target, f"{source} {etag or about.size} {modified_at}")
    known = target.stat() if target.exists() else None
    if known and not stat.S_ISREG(known.st_mode):
        raise SkepError(400, "not_a_file", f"{target} is no plain file.")
    grew = False
    with part.open("ab") as file:
        offset = _locked(file, target)
        if known:
            os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
        whole = about.size < READ_PIECE and not offset
        if whole:  # in one piece it is one version, whichever
            data = _read(skep, source, 0, READ_PIECE, "") if about.size else b""
            if len(data) == READ_PIECE:
                part.unlink()
                raise _changed(source)
            file.write(data)
        while not whole and offset < about.size:
            size = min(READ_PIECE, about.size - offset)
            try:
                data = _read(skep, source, offset, size, "" if grew else etag)
            except SkepError as error:
                if error.code not in ("file_changed", "range_invalid"):
                    raise
                grew = offset > 0 and error.details.get("size", 0) > about.size
                if grew:
                    continue
                data = b""
            if not data:
                part.unlink()
                raise _changed(source)
            file.write(data)
            offset += len(data)
            if progress is not None:
                progress(offset)
        if not whole and not etag:
            now = skep.run(calls.following(calls.storage_usage(*source)))
            if now.size < about.size or (now.size == about.size and now.modified_at != modified_at):
                part.unlink()
                raise _changed(source)
            grew = now.size > about.size
    part.replace(target)
    if not whole:
        _remove_older_parts(target)
    return not grew


def _remove_older_parts(target: Path) -> None:
    """Remove what was fetched of versions that are no more, unless that still goes on."""
    for part in target.parent.glob(f"{escape(_part_prefix(target))}*{PART}"):
        with suppress(OSError, SkepError), part.open("ab") as file:
            _locked(file, target)
            part.unlink()


def _read(skep: Skep, source: Place, first: int, size: int, etag: str) -> bytes:
    return skep.run(calls.following(calls.read_storage_file(*source, first, size, etag)))


def _part(target: Path, version: str) -> Path:
    """Return where a version of a file is fetched to."""
    return target.with_name(f"{_part_prefix(target)}{_hash(version)}{PART}")


def _part_prefix(target: Path) -> str:
    return f".{os.fsencode(target.name)[:MAX_NAME].decode(errors='ignore')}."


def _locked(part: IO[bytes], target: Path) -> int:
    """Lock it, as two processes that append to one file would mix their pieces, and return how much
    it has. Raises SkepError."""
    try:
        fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        message = f"Another copy to {target} is under way."
        raise SkepError(409, "copy_in_progress", message) from None
    return part.seek(0, os.SEEK_END)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _changed(name: object) -> SkepError:
    message = f"{name} was written to while it was copied: copy it again."
    return SkepError(409, "file_changed", message)
