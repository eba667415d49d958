"""Files of storages, up and down piece by piece. What was cut goes on where it ended, if the file
is still the same; pieces of two versions of a file never become one.

A file that grows while it is copied may have been written anew as well. So what was copied of it is
compared with what is there afterwards: where both are the same, the copy is the beginning that the
file had between the two readings."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from glob import escape
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

from skep_client import calls
from skep_client.calls import Call
from skep_client.client import Skep
from skep_client.errors import ServerUnreachable, SkepError
from skep_client.flow import log
from skep_client.models import StorageUpload, StorageUsage

PIECE = 2 * 1024 * 1024
READ_PIECE = 8 * 1024 * 1024
PART = ".skep-part"  # end of the name of what has arrived of a file, here and in storages
SOURCE = ".skep-from"  # of what says in storages which version that is
MAX_NAME = 140  # bytes of a name in the name of its part, which has at most 255
TRIES = 3  # to read one version of a file that is written to
# Seconds before each repetition while the server still works on a piece whose answer was lost; with
# the last piece of a large file it waits until all of it is stored.
BUSY_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
LAST_PAUSES_S = (*BUSY_PAUSES_S, *[15.0] * 40)
# What file systems without locks answer, such as Lustre without `flock` and NFS without its daemon.
NO_LOCKS = frozenset({errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP})

Progress = Callable[[int], None]  # bytes so far


class Place(NamedTuple):
    """A path in a storage."""

    storage: str
    path: str

    def inner(self, name: str) -> Place:
        return Place(self.storage, f"{self.path}/{name}" if self.path else name)

    def __str__(self) -> str:
        return f"{self.storage}:{self.path}"


def is_part(name: str) -> bool:
    """Return whether a file of this name belongs to a copy that has not ended."""
    return name.startswith(".") and name.endswith((PART, SOURCE))


class Content(NamedTuple):
    """What differs between two contents of a file."""

    size: int
    etag: str | None
    modified_at: datetime | None


# --- up


class Outgoing:
    """A file of this machine that is sent, and how far that is."""

    def __init__(self, file: IO[bytes], name: Path) -> None:
        self.file, self.name = file, name
        self.found = os.fstat(file.fileno())
        self.size, self.version = self.found.st_size, version_of(self.found)
        self.offset, self.grew = 0, False
        # Of what was sent; None where a command before sent a part of it.
        self.sent: Any = hashlib.sha256()

    def go_on_from(self, offset: int) -> None:
        self.offset, self.sent = offset, None if offset else hashlib.sha256()

    def piece(self) -> tuple[bytes, bool]:
        """Return the next bytes, and whether they are the last ones. Raises SkepError
        `file_changed`."""
        self.file.seek(self.offset)
        data = self.file.read(min(PIECE, self.size - self.offset))
        last = self.offset + len(data) == self.size
        if not data and not last:
            message = f"{self.name} ends after {self.offset} bytes, and its size is {self.size}."
            raise SkepError(409, "file_changed", message)
        now = os.fstat(self.file.fileno())
        if (now.st_size, now.st_mtime_ns) == (self.size, self.found.st_mtime_ns):
            return data, last
        if now.st_size <= self.size:
            raise _changed(self.name)
        if self.sent is None:  # what was sent before cannot be compared
            log.warning(f"{self.name} grew while it was copied: it is sent again from 0.")
            self.go_on_from(0)
            return self.piece()
        # At the first growth, too, so as not to send the rest of a file that was written anew.
        if (last or not self.grew) and not self._is_what_was_sent(self.sent, data):
            raise _changed(self.name)
        self.grew = True
        return data, last

    def _is_what_was_sent(self, sent: Any, data: bytes) -> bool:
        """Return whether the file still begins with what was sent of it, and these bytes."""
        before, again = sent.copy(), hashlib.sha256()
        before.update(data)
        self.file.seek(0)
        left = self.offset + len(data)
        while left and (found := self.file.read(min(PIECE, left))):
            again.update(found)
            left -= len(found)
        return again.digest() == before.digest()

    def has_arrived(self, data: bytes, offset: int) -> None:
        if self.sent is not None:
            self.sent.update(data[: offset - self.offset])
        self.offset = offset


def upload(skep: Skep, source: Path, target: Place, progress: Progress | None = None) -> bool:
    """Send a file, and return whether it stayed the same meanwhile: of one that grew, the copy has
    what was there at the beginning. Raises SkepError `file_changed` for any other change."""
    # Without a buffer: it would have the bytes from before a change.
    with source.open("rb", buffering=0) as file:
        out = Outgoing(file, source)
        known = skep.run(calls.following(calls.storage_upload(*target, out.version)))
        # A server that does not know versions does not say of which one the bytes are.
        if known.source == out.version and known.offset <= out.size:
            out.go_on_from(known.offset)
        before = _content_of(skep, target) if out.offset or out.size > PIECE else None
        replaced = False
        while True:
            data, last = out.piece()
            start, end = out.offset, out.offset + len(data)
            call = calls.write_storage_file(*target, data, start, last=last, source=out.version)
            pauses = LAST_PAUSES_S if last and start else BUSY_PAUSES_S
            try:
                arrived, done = _arrived(skep, call, start, end, pauses)
            except SkepError as error:
                if error.code not in ("upload_offset", "upload_replaced"):
                    raise
                if last and _has_its_name(skep, target, out, before):
                    return not out.grew
                if error.code == "upload_offset" or replaced:
                    raise
                # Another upload did it, or a server of the version before, which notes no version.
                log.warning(f"The upload to {target} was replaced: it begins again from 0.")
                replaced = True
                out.go_on_from(0)
                continue
            out.has_arrived(data, arrived)
            if progress is not None:
                progress(arrived)
            if last and done and arrived == out.size:
                return not out.grew


def version_of(found: os.stat_result) -> str:
    """Return what a server is given as the name of this version of a file."""
    return _hash(f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}")


def _arrived(
    skep: Skep, call: Call[StorageUpload], start: int, end: int, pauses_s: Iterable[float]
) -> tuple[int, bool]:
    """Send a piece, and return how much of the file has arrived then, and whether this request was
    done: the piece may have arrived, whole or in part, with one before whose answer was lost, and
    the server may have ended before it gave the file its name."""
    pauses = iter(pauses_s)
    while True:
        try:
            return skep.run(calls.following(call)).offset, True
        except SkepError as error:
            pause = next(pauses, None) if error.code == "upload_in_progress" else None
            if pause is None:
                arrived = error.details.get("offset", -1) if error.code == "upload_offset" else -1
                if start < arrived <= end:
                    return int(arrived), False
                raise
        time.sleep(pause)


def _has_its_name(skep: Skep, target: Place, out: Outgoing, before: Content | None) -> bool:
    """Return whether a request whose answer was lost gave the file its name: no piece of it waits
    for another one, and what is there is new, and ends as the file does."""
    now = _content_of(skep, target)
    if now is None or now == before or now.size != out.size:
        return False
    first = max(0, out.size - PIECE)
    out.file.seek(first)
    data = out.file.read(out.size - first)
    return _read(skep, target, first, len(data), now.etag or "") == data


def _content_of(skep: Skep, place: Place) -> Content | None:
    """Return what a content of a file has alone; None where there is no file."""
    try:
        about = skep.run(calls.following(calls.storage_usage(*place)))
    except SkepError as error:
        if error.code != "file_not_found":
            raise
        return None
    return Content(about.size, about.etag, about.modified_at)


# --- down


class Incoming:
    """The file beside a target that a version of a file is fetched to, open."""

    def __init__(self, path: Path, target: Path, *, make: bool = True) -> None:
        self.path, self.target = path, target
        flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_CREAT if make else 0)
        self.file = os.fdopen(os.open(path, flags, 0o666), "r+b")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def lock(self) -> bool:
        """Lock it, and return False where the file system knows no locks: two processes then write
        the same bytes to the same places. Raises SkepError `copy_in_progress`."""
        locked = True
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_progress() from None
        except OSError as error:
            if error.errno not in NO_LOCKS:
                raise
            locked = False
        self.check()
        return locked

    def check(self) -> None:
        """Raise SkepError `copy_in_progress` if it has lost its name, as when another process gave
        it that of the target."""
        try:
            same = os.path.samestat(os.lstat(self.path), os.fstat(self.file.fileno()))
        except FileNotFoundError:
            same = False
        if not same:
            raise self._in_progress()

    def _in_progress(self) -> SkepError:
        message = f"Another copy to {self.target} is under way."
        return SkepError(409, "copy_in_progress", message)

    def size(self) -> int:
        return self.file.seek(0, os.SEEK_END)

    def write(self, offset: int, data: bytes) -> None:
        self.check()
        self.file.seek(offset)
        self.file.write(data)

    def read(self, offset: int, size: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(size)

    def give_name(self, mode: int | None) -> None:
        """Let it take the place of its target, once it is stored."""
        self.file.flush()
        os.fsync(self.file.fileno())
        if mode is not None:
            os.fchmod(self.file.fileno(), mode)
        self.check()
        self.path.replace(self.target)


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
    known = target.stat() if target.exists() else None
    if known and not stat.S_ISREG(known.st_mode):
        raise SkepError(400, "not_a_file", f"{target} is no plain file.")
    mode = stat.S_IMODE(known.st_mode) if known else None
    path = _part(target, f"{source} {about.etag or about.size} {about.modified_at}")
    with Incoming(path, target) as part:
        part.lock()
        if mode is not None:  # and can be opened again if it is cut
            os.fchmod(part.file.fileno(), mode | stat.S_IRUSR | stat.S_IWUSR)
        try:
            grew = _fill(skep, source, about, part, progress)
        except SkepError as error:
            if error.code == "file_changed":
                path.unlink(missing_ok=True)
            raise
        part.give_name(mode)
    if about.size > READ_PIECE:
        _remove_older_parts(target)
    return not grew


def _fill(
    skep: Skep, source: Place, about: StorageUsage, part: Incoming, progress: Progress | None
) -> bool:
    """Fetch what a part lacks, and return whether the file grew meanwhile. Raises SkepError
    `file_changed` unless all of the part is of one version."""
    offset, etag, grew = part.size(), about.etag or "", False
    while offset < about.size:
        size = min(READ_PIECE, about.size - offset)
        try:
            data = _read(skep, source, offset, size, "" if grew else etag)
        except SkepError as error:
            if error.code != "file_changed":
                raise
            # At once, so as not to fetch the rest of a file that was written anew.
            grew = error.details.get("size", 0) > about.size
            if not grew or not _is_same(skep, source, part, max(0, offset - READ_PIECE), offset):
                raise _changed(source) from None
            continue
        if not data:
            raise _changed(source)
        part.write(offset, data)
        offset += len(data)
        if progress is not None:
            progress(offset)
    # A server of the version before, which may have answered any piece, compares no versions.
    if not grew and (not etag or about.size > READ_PIECE):
        now = skep.run(calls.following(calls.storage_usage(*source)))
        grew = now.size > about.size
        other_tag = etag and now.etag and now.etag != etag
        other = now.size < about.size or now.modified_at != about.modified_at or other_tag
        if other and not grew:
            raise _changed(source)
    if grew:
        if about.size > READ_PIECE:
            log.warning(f"{source} grew while it was copied: comparing the copy with it.")
        if not _is_same(skep, source, part, 0, about.size):
            raise _changed(source)
    return grew


def _is_same(skep: Skep, source: Place, part: Incoming, first: int, end: int) -> bool:
    """Return whether these bytes of a part are what the file has now."""
    while first < end:
        data = _read(skep, source, first, min(READ_PIECE, end - first))
        if not data or part.read(first, len(data)) != data:
            return False
        first += len(data)
    return True


def _read(skep: Skep, source: Place, first: int, size: int, etag: str = "") -> bytes:
    """Return bytes of a file; none where it ends before."""
    try:
        data = skep.run(calls.following(calls.read_storage_file(*source, first, size, etag)))
    except SkepError as error:
        if error.code != "range_invalid":
            raise
        return b""
    if len(data) > size:
        message = f"The server answered {len(data)} bytes of {source} where {size} were asked for."
        raise ServerUnreachable(f"{message} A proxy before it must pass on the header Range.")
    return data


def _remove_older_parts(target: Path) -> None:
    """Remove what was fetched of versions that are no more, unless that still goes on."""
    names = f"{escape(_part_prefix(target))}{'[0-9a-f]' * 32}{PART}"
    for path in target.parent.glob(names):
        with suppress(OSError, SkepError), Incoming(path, target, make=False) as part:
            if part.lock():
                path.unlink()


def _part(target: Path, version: str) -> Path:
    """Return where a version of a file is fetched to."""
    return target.with_name(f"{_part_prefix(target)}{_hash(version)}{PART}")


def _part_prefix(target: Path) -> str:
    """Return how the names of the parts of a target begin, and of nothing else."""
    name = os.fsencode(target.name)
    if len(name) <= MAX_NAME:
        return f".{target.name}.copy-"
    return f".{name[:MAX_NAME].decode(errors='ignore')}.{_hash(target.name)}.copy-"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:32]


def _changed(name: object) -> SkepError:
    message = f"{name} was written to while it was copied: copy it again."
    return SkepError(409, "file_changed", message)
