"""Files of storages, as the web server finds them in `SKEP_STORAGE_FILES/NAME`.

Tenants write what lies there. So each path is walked name by name from the storage's folder, no
link is followed, and what is opened is checked on its descriptor. Whatever a folder may hold, a
request ends: after BUDGET_S a deletion or a count reports how far it came. Nothing holds a
connection of the database meanwhile: a server of files that hangs would take all of them.
"""

from __future__ import annotations

import errno
import fcntl
import heapq
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import IO

from django.conf import settings

from skep_limits import is_folder_name
from skep_platform.accounts.models import User
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.serving import give_connection_back
from skep_platform.storage.models import Storage

MAX_DEPTH = 64
BUDGET_S = 20.0
TYPES = ("file", "folder", "link", "other")
PIECE = 1024 * 1024
PART = ".skep-part"  # end of the name of a file that is being uploaded
SOURCE = ".skep-from"  # of the file beside it that says which version of what file that is
MAX_SOURCE = 64  # characters
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True, slots=True)
class Entry:
    """What lies in a folder. `size`: bytes of a file."""

    name: str
    type: str
    size: int
    modified_at: datetime


@dataclass(slots=True)
class Total:
    """What lies below a path. `complete`: False where counting took too long."""

    size: int = 0
    files: int = 0
    folders: int = 0
    complete: bool = True
    modified_at: datetime | None = None  # of a file, as its entity tag
    etag: str | None = None


def list_folder(
    user: User, storage: Storage, path: str, after: str, limit: int, search: str = ""
) -> tuple[list[Entry], str | None]:
    """Return the entries of a folder in the order of their bytes, at most `limit` that come after
    this place and have `search` in their names, and the place to go on from; None at the end.
    Raises SkepError."""
    part, start = search.casefold(), _bytes_of(after)
    with _errors(path), _folder(user, storage, _parts(path)) as folder, os.scandir(folder) as found:
        fitting = (os.fsencode(e.name) for e in found if part in e.name.casefold())
        names = heapq.nsmallest(limit + 1, (name for name in fitting if name > start))
        entries = [entry for name in names[:limit] if (entry := _entry(folder, name))]
    return entries, _place_of(names[limit - 1]) if len(names) > limit else None


def _place_of(name: bytes) -> str:
    """Return a name as the place in a list; one that is no text as its hexadecimal digits behind
    "/", which no name has."""
    try:
        return name.decode()
    except UnicodeDecodeError:
        return f"/{name.hex()}"


def _bytes_of(place: str) -> bytes:
    if not place.startswith("/"):
        return place.encode()
    try:
        return bytes.fromhex(place[1:])
    except ValueError:
        message = "The place is not one that this list gave."
        raise SkepError(message, code="cursor_invalid") from None


def total(user: User, storage: Storage, path: str) -> Total:
    """Return `of_file` for a file and `count_folder` for a folder. Raises SkepError."""
    return of_file(user, storage, path) or count_folder(user, storage, path)


def of_file(user: User, storage: Storage, path: str) -> Total | None:
    """Describe a file; None for a folder. Raises SkepError."""
    *folders, name = _parts(path) or [""]
    if not name:
        return None
    with _errors(path), _folder(user, storage, folders) as folder:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        return None
    return Total(found.st_size, files=1, modified_at=_modified(found), etag=version(found))


def count_folder(user: User, storage: Storage, path: str) -> Total:
    """Count what is below a folder, each file once however many names it has. Raises SkepError."""
    result, seen = Total(), set[tuple[int, int]]()
    deadline = time.monotonic() + BUDGET_S
    with _errors(path), _folder(user, storage, _parts(path)) as folder:
        for _, folders, files, at in os.fwalk(".", dir_fd=folder):
            result.folders += len(folders)
            for name in files:
                with suppress(FileNotFoundError):
                    found = os.stat(name, dir_fd=at, follow_symlinks=False)
                    if found.st_nlink > 1 and (found.st_dev, found.st_ino) in seen:
                        continue
                    seen |= {(found.st_dev, found.st_ino)} if found.st_nlink > 1 else set()
                    result.size += found.st_size
                    result.files += 1
            if time.monotonic() > deadline:
                result.complete = False
                break
    return result


def version(found: os.stat_result) -> str:
    """Return the entity tag of a file, which another content of it has not. Whoever writes a file
    may set its time of modification, but not that of its change. A number of the file itself would
    differ from server to server, as some network file systems make it up."""
    return f'"{found.st_size:x}-{found.st_mtime_ns:x}-{found.st_ctime_ns:x}"'


def open_file(user: User, storage: Storage, path: str) -> IO[bytes]:
    """Open a plain file for reading. Raises SkepError."""
    *folders, name = _parts(path) or [""]
    with _errors(path), _folder(user, storage, folders) as folder:
        file = os.open(name, os.O_RDONLY | _FILE, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise _not_a_file(path)
        return os.fdopen(file, "rb")


def uploaded(user: User, storage: Storage, path: str, source: str = "") -> int:
    """Return how many bytes of a file that is being uploaded have arrived from this source: the
    bytes of another one cannot be continued. Raises SkepError."""
    *folders, name = _name_of(path)
    try:
        with _errors(path), _folder(user, storage, folders) as folder:
            found = os.stat(_part(name), dir_fd=folder, follow_symlinks=False)
            fits = stat.S_ISREG(found.st_mode) and _source_of(folder, name) == source
            return found.st_size if fits else 0
    except NotFound:
        return 0


def write(
    user: User,
    storage: Storage,
    path: str,
    stream: IO[bytes],
    offset: int,
    *,
    last: bool,
    source: str = "",
) -> int:
    """Append to a file that is being uploaded, and return its size. It appears under its own name,
    in place of one that was there, with the last piece. Folders on the way are made. `source` is
    the client's name for the version of its file: pieces of two never become one file.

    Raises Conflict `upload_offset` unless `offset` is what has arrived, `upload_replaced` where
    that came from another source, `upload_in_progress`, and SkepError."""
    *folders, name = _name_of(path)
    with _errors(path), _folder(user, storage, folders, make=not offset) as folder:
        part = _open_part(folder, name, make=not offset)
        try:
            if offset:
                _check_source(folder, name, source)
            else:
                os.ftruncate(part, 0)
                _note_source(folder, name, "" if last else source)
            size = _append(part, stream, offset)
            if last:
                _settle(folder, part, name)
        finally:
            os.close(part)
    return size


def remove(user: User, storage: Storage, path: str, *, recursive: bool) -> bool:
    """Remove a file, a link or a folder, and return whether all of it is gone: a large folder takes
    more than one call. Raises Conflict `folder_not_empty` and SkepError."""
    *folders, name = _name_of(path)
    with _errors(path), _folder(user, storage, folders) as folder:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISDIR(found.st_mode):
            os.unlink(name, dir_fd=folder)
            return True
        if recursive:
            return _remove_tree(folder, name)
        os.rmdir(name, dir_fd=folder)
        return True


# --- on the way to a file


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    if len(parts) > MAX_DEPTH or not all(map(is_folder_name, parts)):
        message = f"A path has at most {MAX_DEPTH} plain names, none of them '.' or '..'."
        raise SkepError(message, code="storage_path_invalid")
    return parts


def _name_of(path: str) -> list[str]:
    parts = _parts(path)
    if not parts:
        raise SkepError("Name a file or folder in the storage.", code="storage_path_invalid")
    if len(_part(parts[-1]).encode()) > 255:
        raise SkepError("The name is too long.", code="storage_path_invalid")
    return parts


def _part(name: str) -> str:
    return f".{name}{PART}"


@contextmanager
def _folder(user: User, storage: Storage, parts: list[str], *, make: bool = False) -> Iterator[int]:
    """Yield a descriptor of a folder in what the user sees of a storage."""
    if not settings.SKEP_STORAGE_FILES:
        message = "This server shows no files of storages: an admin has not set SKEP_STORAGE_FILES."
        raise Conflict(message, code="storage_files_not_served")
    give_connection_back()
    try:
        folder = os.open(
            os.path.join(settings.SKEP_STORAGE_FILES, storage.name),
            os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC,
        )
    except OSError:
        message = f"Storage {storage.name} is not mounted at this server."
        raise Conflict(message, code="storage_files_not_served") from None
    try:
        if storage.per_user:
            folder = _own_folder(folder, user)
        for name in parts:
            folder = _inner(folder, name, make)
        yield folder
    finally:
        os.close(folder)


def _own_folder(folder: int, user: User) -> int:
    name = user.get_username()
    if not is_folder_name(name):
        raise Forbidden("Your user name cannot be the name of a folder.", code="storage_forbidden")
    try:
        return _inner(folder, name, False)
    except FileNotFoundError:
        message = "You have no folder here yet: the first job of yours that mounts it makes one."
        raise NotFound(message, code="file_not_found") from None


def _inner(folder: int, name: str, make: bool) -> int:
    """Open a folder within an open one, which is closed."""
    try:
        inner = os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not make:
            raise
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        inner = os.open(name, _FOLDER, dir_fd=folder)
        with suppress(PermissionError):
            _own_as(inner, folder)
    os.close(folder)
    return inner


def _own_as(made: int, folder: int) -> None:
    """Give what was made to the owner of its folder, whom containers know."""
    owner = os.fstat(folder)
    if os.geteuid() == 0:
        os.fchown(made, owner.st_uid, owner.st_gid)


def _entry(folder: int, name: bytes) -> Entry | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # removed meanwhile
        return None
    kinds = {stat.S_IFDIR: "folder", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "other")
    return Entry(
        name.decode(errors="replace"),
        kind,
        found.st_size if kind == "file" else 0,
        _modified(found),
    )


def _modified(found: os.stat_result) -> datetime:
    """Return a time that can be shown: a tenant may set any."""
    return datetime.fromtimestamp(max(found.st_mtime, 0) % 2**36, UTC)


# --- writing


def _open_part(folder: int, name: str, *, make: bool) -> int:
    """Open a file that is being uploaded, and lock it."""
    try:
        create = os.O_CREAT if make else 0
        part = os.open(_part(name), os.O_RDWR | create | _FILE, 0o600, dir_fd=folder)
    except FileNotFoundError:
        raise _not_arrived(0) from None
    try:
        found = os.fstat(part)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise Conflict("Another file has the name of the upload.", code="upload_in_progress")
        try:
            fcntl.flock(part, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "Another upload of this file is under way."
            raise Conflict(message, code="upload_in_progress") from None
        # Whoever had the lock before may have given the file its name, and it is complete.
        if not _is_named(part, folder, _part(name)):
            message = "Another upload of this file ended at this moment."
            raise Conflict(message, code="upload_in_progress")
    except BaseException:
        os.close(part)
        raise
    return part


def _is_named(file: int, folder: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(file))


def _append(part: int, stream: IO[bytes], offset: int) -> int:
    size = os.fstat(part).st_size
    if offset != size:
        raise _not_arrived(size)
    os.lseek(part, size, os.SEEK_SET)
    while data := stream.read(PIECE):
        view = memoryview(data)
        while view:
            view = view[os.write(part, view) :]
        size += len(data)
    return size


def _not_arrived(size: int) -> Conflict:
    message = f"{size} bytes of this file have arrived: go on from there, or from 0."
    return Conflict(message, code="upload_offset", offset=size)


def _settle(folder: int, part: int, name: str) -> None:
    os.fchmod(part, 0o644)
    _own_as(part, folder)
    os.fsync(part)
    # The lock ends with the name of the part: what is noted afterwards is of the next upload.
    _note_source(folder, name, "")
    os.rename(_part(name), name, src_dir_fd=folder, dst_dir_fd=folder)


def _source_of(folder: int, name: str) -> str:
    """Return what the bytes that have arrived are from; "" where no client has said it."""
    try:
        file = os.open(f".{name}{SOURCE}", os.O_RDONLY | _FILE, dir_fd=folder)
    except OSError:
        return ""
    try:
        return os.read(file, MAX_SOURCE).decode(errors="replace")
    except OSError:  # a folder, or a pipe
        return ""
    finally:
        os.close(file)


def _note_source(folder: int, name: str, source: str) -> None:
    """Note it anew: a link of a tenant to another file is replaced, and not written to."""
    with suppress(FileNotFoundError):
        os.unlink(f".{name}{SOURCE}", dir_fd=folder)
    if source:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        file = os.open(f".{name}{SOURCE}", flags, 0o600, dir_fd=folder)
        try:
            os.write(file, source.encode())
        finally:
            os.close(file)


def _check_source(folder: int, name: str, source: str) -> None:
    if _source_of(folder, name) != source:
        message = (
            "Another upload of this file, or of another version of it, has begun meanwhile: "
            "begin again from 0."
        )
        raise Conflict(message, code="upload_replaced")


def _remove_tree(folder: int, name: str) -> bool:
    deadline = time.monotonic() + BUDGET_S
    for _, folders, files, at in os.fwalk(name, topdown=False, dir_fd=folder):
        for one in files:
            with suppress(FileNotFoundError):
                os.unlink(one, dir_fd=at)
            if time.monotonic() > deadline:
                return False
        for one in folders:
            with suppress(FileNotFoundError):
                _remove_folder(one, at)
    os.rmdir(name, dir_fd=folder)
    return True


def _remove_folder(name: str, folder: int) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except NotADirectoryError:  # a link to one
        os.unlink(name, dir_fd=folder)


# --- errors


def _too_deep(shown: str) -> SkepError:
    message = f"The folders of {shown} lie too deep in each other: name one further in."
    return Conflict(message, code="folder_too_deep")


def _not_a_file(path: str) -> SkepError:
    return SkepError(f"{path[:200]} is not a plain file.", code="not_a_file")


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Turn errors of the file system into typed ones."""
    shown = path[:200] or "/"
    try:
        yield
    except FileNotFoundError:
        raise NotFound(f"There is no {shown} in the storage.", code="file_not_found") from None
    except (NotADirectoryError, IsADirectoryError) as error:
        folder = isinstance(error, NotADirectoryError)
        message = f"{shown} is no {'folder' if folder else 'file'}, or a link; none is followed."
        raise SkepError(message, code="not_a_folder" if folder else "not_a_file") from None
    except PermissionError:
        message = f"The server may not do that to {shown}."
        raise Forbidden(message, code="storage_file_denied") from None
    except RecursionError:
        raise _too_deep(shown) from None
    except OSError as error:
        raise _refusal(error, shown) from None


def _refusal(error: OSError, shown: str) -> SkepError:
    match error.errno:
        case errno.ELOOP | errno.ENXIO | errno.ENODEV:
            return _not_a_file(shown)
        case errno.ENOTEMPTY | errno.EEXIST:
            message = f"{shown} is not empty; remove it with what is in it."
            return Conflict(message, code="folder_not_empty")
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG:
            return Conflict("The storage is full.", code="storage_full")
        case errno.ENOSYS | errno.ENOLCK | errno.EOPNOTSUPP:
            message = (
                "The storage knows no locks, which uploads need: an admin mounts it with them."
            )
            return Conflict(message, code="storage_failed")
        case errno.EROFS:
            return Forbidden("The storage is read-only.", code="storage_read_only")
        case errno.EMFILE | errno.ENAMETOOLONG:
            return _too_deep(shown)
        case _:
            return Conflict(f"The storage failed: {error.strerror}.", code="storage_failed")
