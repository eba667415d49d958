"""Copies between a bucket and a folder of the node: many objects, and many parts of each, at once.

The transfers are those of s3transfer, which boto3 and the AWS command line use. Files are opened
name by name from the folder, no link is followed, and what is opened is checked on its descriptor.
No message has a key, an address or what a store answers in words of its own: they reach tenants.

Everything here blocks, and ends soon after `ended` says so.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.mounts import unavailable
from skep_agent.isolation.objects import MAX_DEPTH, NoFile, file_of, key_of, prefix_of
from skep_agent.protocol import S3Mount
from skep_agent.runtimes.object_refusals import (
    ObjectRefused,
    StoreRefused,
    failure_of,
    refused_address,
)
from skep_limits import is_closed_address

if TYPE_CHECKING:
    from s3transfer.manager import TransferManager

MAX_OBJECTS = 100_000  # of one mount; more belong into archives
REQUESTS = 16  # at a time, of one mount
FILES = 48  # open at a time, of one mount
PART_BYTES = 8 * 1024 * 1024
PARTS = 6  # of uploads in memory, of one mount
CONNECT_S, READ_S = 10, 30
ATTEMPTS = 3
LOOK_S = 0.2
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MADE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK

Progress = Callable[[int, int], None]  # bytes that were copied, and of all
Names = tuple[str, ...]


class Ended(Exception):
    """The transfer was given up."""


class Item(NamedTuple):
    """An object that becomes a file, or a folder."""

    key: str
    names: Names
    is_folder: bool
    size: int


class Seen(NamedTuple):
    """What shows whether a file was written to since: no program sets its change time."""

    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, found: os.stat_result) -> Seen:
        return cls(found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(slots=True)
class Written:
    """What was written back: files, and those that were not, by the reason of the first. `again`:
    so many of these may be written back when it is tried again."""

    files: int = 0
    failed: int = 0
    problem: str = ""
    again: int = 0

    def fail(self, problem: str, *, again: bool = False) -> None:
        self.failed += 1
        self.again += again
        self.problem = self.problem or problem


def listed(mount: S3Mount, ended: Callable[[], bool]) -> list[Item]:
    """Return the objects of a mount. Raises RuntimeFailure "storage_unavailable", also for one that
    no file can be, and Ended."""
    prefix, items = prefix_of(mount), []
    with _store(mount) as client:
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=mount.bucket, Prefix=prefix)
        for page in pages:
            if ended():
                raise Ended
            for found in page.get("Contents", ()):
                items.append(_item(mount, found["Key"], prefix, int(found["Size"])))
            if len(items) > MAX_OBJECTS:
                raise unavailable(
                    f"Storage {mount.storage} has more than {MAX_OBJECTS} objects, more than a task"
                    " can mount: keep small files in archives, or mount a dataset of a part of it."
                )
    return items


def _item(mount: S3Mount, key: str, prefix: str, size: int) -> Item:
    try:
        names, is_folder = file_of(key, prefix)
    except NoFile as problem:
        raise unavailable(
            f"Storage {mount.storage} has an object that {problem}, so it can be no file: rename"
            " or remove it."
        ) from None
    return Item(key, names, is_folder, 0 if is_folder else size)


def download(
    mount: S3Mount, items: list[Item], folder: int, progress: Progress, ended: Callable[[], bool]
) -> None:
    """Fill an empty folder, which no one else may enter yet. Raises RuntimeFailure
    "storage_unavailable" and "disk_full", and Ended."""
    total = sum(item.size for item in items)
    copied = _Copied(total, progress)
    with (
        _store(mount) as client,
        closing(_Flights(ended)) as flights,
        _manager(client) as manager,
    ):
        for item in items:
            if not item.names:
                continue
            try:
                file = _made(folder, item)
            except OSError as error:
                raise _not_made(mount, error) from None
            if file is None:
                continue
            if not item.size:
                file.close()
                continue
            flights.take(file)
            flight = _Flight(flights, file, item.size, copied)
            manager.download(mount.bucket, item.key, file, subscribers=[flight])
            if flights.errors:
                break
        for problem in flights.wait():
            raise failure_of(mount, problem) from None
    if copied.done != total:
        raise unavailable(f"Storage {mount.storage} was written to while it was copied.")


def upload(
    mount: S3Mount, folder: int, known: dict[str, Seen], ended: Callable[[], bool]
) -> Written:
    """Write back each plain file that is not as it is `known`, where it is noted then. Links,
    sockets and devices are left out, and nothing is removed from the bucket. It gives up early
    where the store takes none. Raises RuntimeFailure "storage_unavailable", StoreRefused and
    Ended."""
    prefix, written = prefix_of(mount), Written()
    with (
        _store(mount) as client,
        closing(_Flights(ended)) as flights,
        _manager(client) as manager,
    ):
        for names, file in _files(folder, written, ended):
            name, seen = "/".join(names), Seen.of(os.fstat(file.fileno()))
            if known.get(name) == seen:
                file.close()
                continue
            try:
                key = key_of(names, prefix)
            except NoFile as problem:
                file.close()
                written.fail(f"A file {problem}.")
                continue
            flights.take(file)
            written.files += 1
            done = partial(known.__setitem__, name, seen)
            flight = _Flight(flights, file, done=done)
            manager.upload(file, mount.bucket, key, subscribers=[flight])
            if len(flights.errors) >= REQUESTS:
                break
        for error in flights.wait():
            failure = failure_of(mount, error)
            if isinstance(failure, StoreRefused):
                raise failure
            written.files -= 1
            written.fail(failure.message, again=not isinstance(failure, ObjectRefused))
    return written


def own(folder: int, uid: int, gid: int) -> tuple[dict[str, Seen], int, int]:
    """Give all that was downloaded to its user. Return what is known of the files then, the bytes
    that all of it takes, and the number of files and folders."""
    known, taken, inodes = dict[str, Seen](), 0, 1
    os.fchown(folder, uid, gid)
    for names, at, found in _walk(folder, (), Written(), lambda: False):
        os.chown(names[-1], uid, gid, dir_fd=at, follow_symlinks=False)
        taken, inodes = taken + found.st_blocks * 512, inodes + 1
        if stat.S_ISREG(found.st_mode):
            now = os.stat(names[-1], dir_fd=at, follow_symlinks=False)
            known["/".join(names)] = Seen.of(now)
    return known, taken, inodes


def _walk(
    folder: int, above: Names, problems: Written, ended: Callable[[], bool]
) -> Iterator[tuple[Names, int, os.stat_result]]:
    """Yield what lies below a folder, as far as it is not too much. Raises Ended."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in islice(entries, MAX_OBJECTS + 1)]
    if len(names) > MAX_OBJECTS:
        names.pop()
        problems.fail(f"A folder has more than {MAX_OBJECTS} files.")
    for name in sorted(names):
        if ended():
            raise Ended
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield (*above, name), folder, found
        if not stat.S_ISDIR(found.st_mode):
            continue
        if len(above) + 1 >= MAX_DEPTH:
            problems.fail(f"A file lies in more than {MAX_DEPTH - 1} folders.")
            continue
        inner = os.open(name, _FOLDER, dir_fd=folder)
        try:
            yield from _walk(inner, (*above, name), problems, ended)
        finally:
            os.close(inner)


def _files(
    folder: int, written: Written, ended: Callable[[], bool]
) -> Iterator[tuple[Names, IO[bytes]]]:
    """Yield the plain files below a folder, opened. Raises Ended."""
    count = 0
    for names, at, found in _walk(folder, (), written, ended):
        if not stat.S_ISREG(found.st_mode):
            continue
        count += 1
        if count > MAX_OBJECTS:
            written.fail(f"There are more than {MAX_OBJECTS} files.")
            return
        file = os.fdopen(os.open(names[-1], _READ, dir_fd=at), "rb")
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            continue
        yield names, file


def _made(folder: int, item: Item) -> IO[bytes] | None:
    """Make the file of an object with its folders, none of which is a link; None for a folder.
    Raises OSError."""
    at = os.dup(folder)
    try:
        for name in item.names if item.is_folder else item.names[:-1]:
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=at)
            inner = os.open(name, _FOLDER, dir_fd=at)
            os.close(at)
            at = inner
        if item.is_folder:
            return None
        return os.fdopen(os.open(item.names[-1], _MADE, 0o644, dir_fd=at), "r+b")
    finally:
        os.close(at)


class _Copied:
    def __init__(self, total: int, progress: Progress) -> None:
        self.done = 0
        self._total = total
        self._progress = progress
        self._lock = threading.Lock()

    def add(self, size: int) -> None:
        with self._lock:  # fewer when a part begins anew
            self.done += size
            done = self.done
        self._progress(done, self._total)


class _Flights:
    """The transfers under way, and the errors of those that are over."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        self.errors: list[BaseException] = []
        self._ended = ended
        self._free = threading.Semaphore(FILES)
        self._open: set[IO[bytes]] = set()
        self._lock = threading.Lock()

    def take(self, file: IO[bytes]) -> None:
        """Wait until there may be one more. Raises Ended."""
        try:
            self._acquire()
        except Ended:
            file.close()
            raise
        with self._lock:
            self._open.add(file)

    def land(self, file: IO[bytes], error: BaseException | None) -> None:
        with self._lock:
            self._open.discard(file)
            if error is not None:
                self.errors.append(error)
        with suppress(OSError):
            file.close()
        self._free.release()

    def wait(self) -> list[BaseException]:
        """Wait for all, and return their errors. Raises Ended."""
        for _ in range(FILES):
            self._acquire()
        return self.errors

    def close(self) -> None:
        with self._lock:
            files, self._open = self._open, set()
        for file in files:
            file.close()

    def _acquire(self) -> None:
        while not self._free.acquire(timeout=LOOK_S):
            if self._ended():
                raise Ended
        if self._ended():
            raise Ended


class _Flight:
    """One transfer, as s3transfer reports it."""

    def __init__(
        self,
        flights: _Flights,
        file: IO[bytes],
        size: int = 0,
        copied: _Copied | None = None,
        done: Callable[[], None] | None = None,
    ) -> None:
        self._flights = flights
        self._file = file
        self._size = size
        self._copied = copied
        self._done = done

    def on_queued(self, future: Any, **_: Any) -> None:
        if self._copied is not None:  # its size is known, and not asked for again
            future.meta.provide_transfer_size(self._size)

    def on_progress(self, future: Any, bytes_transferred: int, **_: Any) -> None:
        del future
        if self._copied is not None:
            self._copied.add(bytes_transferred)

    def on_done(self, future: Any, **_: Any) -> None:
        error: BaseException | None = None
        try:
            future.result()
            if self._done is not None:
                self._done()
        except Exception as problem:
            error = problem
        self._flights.land(self._file, error)


@contextmanager
def _store(mount: S3Mount) -> Iterator[Any]:
    """Yield a client of the mount's store. It has the keys of the mount and no others: nothing is
    taken from the files, the variables or the cloud of the node."""
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.session import Session

    _check_address(mount)
    nothing = (None, None, os.devnull, None)
    session = Session(
        {"profile": (None, None, None, None), "config_file": nothing, "credentials_file": nothing}
    )
    config = Config(
        signature_version="s3v4" if mount.access_key else UNSIGNED,
        s3={"addressing_style": "path" if mount.path_style else "virtual"},
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
        max_pool_connections=REQUESTS,
        # Stores that are not Amazon's do not know its newer checksums.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client = session.create_client(
        "s3",
        region_name=mount.region or "us-east-1",
        endpoint_url=mount.endpoint,
        aws_access_key_id=mount.access_key or None,
        aws_secret_access_key=mount.secret_key or None,
        config=config,
    )
    try:
        yield client
    except (BotoCoreError, ClientError) as error:
        raise failure_of(mount, error) from None
    finally:
        client.close()


def _check_address(mount: S3Mount) -> None:
    """Refuse names that lead to the machines themselves: whoever has the name chooses where it
    leads. Raises StoreRefused. A name that leads nowhere is left to the client, which may have a
    proxy."""
    url = urlsplit(mount.endpoint)
    host = url.hostname or ""
    if not mount.path_style:
        host = f"{mount.bucket}.{host}"
    try:
        found = socket.getaddrinfo(host, url.port or 443, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    if any(is_closed_address(str(address[0])) for *_, address in found):
        raise refused_address(mount)


def _manager(client: Any) -> TransferManager:
    from s3transfer.manager import TransferConfig, TransferManager

    config = TransferConfig(
        multipart_threshold=PART_BYTES,
        multipart_chunksize=PART_BYTES,
        max_request_concurrency=REQUESTS,
        max_in_memory_upload_chunks=PARTS,
        max_io_queue_size=128,
        num_download_attempts=ATTEMPTS,
    )
    return TransferManager(client, config)


def _not_made(mount: S3Mount, error: OSError) -> RuntimeFailure:
    if error.errno in (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP):
        return unavailable(
            f"Storage {mount.storage} has an object whose name is that of a folder, too: rename or"
            " remove one of them."
        )
    return failure_of(mount, error)
