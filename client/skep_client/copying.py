"""Files into and out of a running task: `tar` runs there, and its archive is made and read here.

What comes from a task is not trusted (see `unpacking`).
"""

from __future__ import annotations

import io
import os
import posixpath
import shutil
import stat
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, cast

from skep_client.client import Skep
from skep_client.errors import SkepError
from skep_client.streams import ERROR, Stream, open_exec
from skep_limits import inner_parts

Progress = Callable[[int], None]  # bytes so far
MAX_SAID = 2000  # characters of what tar says
PIECE_BYTES = 256 * 1024


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files)


def copy_in(
    client: Skep, attempt_id: str, source: Path, target: str, progress: Progress | None = None
) -> None:
    """`target` is a folder of the container if it ends with /, else the new name. Raises SkepError
    `copy_failed` with what `tar` said."""
    name = posixpath.basename(target) or source.resolve().name
    folder = posixpath.dirname(target) or "."
    script = 'mkdir -p -- "$1" && exec tar -xf - -C "$1"'
    with open_exec(client, attempt_id, ["sh", "-c", script, "sh", folder]) as stream:
        said = _Said(stream)
        with tarfile.open(fileobj=_Sink(stream, progress), mode="w|") as tar:
            tar.add(source, name, filter=_without_owner)
        stream.end_input()
        said.finish()


def copy_out(
    client: Skep, attempt_id: str, source: str, target: Path, progress: Progress | None = None
) -> list[str]:
    """Into the folder `target` if it is one, else to that name. Returns the names of what was not
    taken, such as devices and links that lead out."""
    source = posixpath.normpath(source)
    folder, name = posixpath.split(source)
    place = target / name if target.is_dir() and name not in ("", "..") else target
    argv = ["tar", "-cf", "-", "-C", folder or ".", "--", name or "."]
    with open_exec(client, attempt_id, argv) as stream:
        stream.end_input()
        reader = _Source(stream, progress)
        left_out = unpack(reader.file(), place.parent, lambda member: _below(place.name, member))
        reader.finish()
    return left_out


def _below(name: str, member: str) -> str:
    """All that comes lies below the one name that was asked for."""
    steps = [step for step in member.split("/") if step != "."]
    return "/".join([name, *steps[1:]]) if not member.startswith("/") else member


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the owner of a member: files belong to whoever runs tar there."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


class _Sink(io.RawIOBase):
    """Where an archive is written to."""

    def __init__(self, stream: Stream, progress: Progress | None) -> None:
        self._stream, self._progress, self._sent = stream, progress, 0

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._stream.write(bytes(data))
        self._sent += len(data)
        if self._progress:
            self._progress(self._sent)
        return len(data)


class _Said:
    """Reads what a command says while it is fed, and how it ended."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._text = b""
        self._error: SkepError | None = None
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._thread.join()
        if self._error is not None:
            raise self._error
        _check(self._stream, self._text)

    def _read(self) -> None:
        try:
            for _, data in self._stream.output():
                self._text = (self._text + data)[-MAX_SAID:]
        except SkepError as error:
            self._error = error


class _Source:
    """The output of a command as a file; what it says beside is kept."""

    def __init__(self, stream: Stream, progress: Progress | None) -> None:
        self._stream, self._progress = stream, progress
        self._text = b""
        self._pieces = self._read()

    def file(self) -> IO[bytes]:
        return cast(IO[bytes], io.BufferedReader(_Pieces(self._pieces)))

    def finish(self) -> None:
        for _ in self._pieces:
            pass
        _check(self._stream, self._text)

    def _read(self) -> Iterator[bytes]:
        received = 0
        for channel, data in self._stream.output():
            if channel == ERROR:
                self._text = (self._text + data)[-MAX_SAID:]
                continue
            received += len(data)
            if self._progress:
                self._progress(received)
            yield data


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._rest = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._rest:
            try:
                self._rest = next(self._pieces)
            except StopIteration:
                return 0
        size = min(len(buffer), len(self._rest))
        buffer[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def _check(stream: Stream, said: bytes) -> None:
    if stream.exit_code:
        text = said.decode("utf-8", "replace").strip() or f"exit code {stream.exit_code}"
        raise SkepError(409, "copy_failed", f"In the task: {text}")


def unpack(stream: IO[bytes], into: Path, rename: Callable[[str], str]) -> list[str]:
    """`rename` gives each member's path below `into`. Returns the names that were left out, such
    as devices and links that lead out. Raises SkepError `unsafe_archive` or `not_an_archive`."""
    into = into.resolve()
    left_out: list[str] = []
    links: list[tuple[Path, str]] = []
    try:
        with tarfile.open(fileobj=stream, mode="r|") as tar:
            for member in tar:
                path = into / _inner(rename(member.name))
                if member.isdir():
                    _make_folder(into, path)
                elif member.isreg():
                    _make_file(tar, member, into, path)
                elif member.issym() and _stays(into, path, member.linkname):
                    links.append((path, member.linkname))
                else:
                    left_out.append(member.name)
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise SkepError(400, "not_an_archive", f"No tar archive: {error}") from None
    for path, target in links:
        _make_link(into, path, target)
    return left_out


def _inner(name: str) -> str:
    steps = inner_parts(name)
    if steps is None:
        raise SkepError(400, "unsafe_archive", f"The task sent a file {name[:200]!r}: stopped.")
    return "/".join(steps)


def _stays(into: Path, path: Path, target: str) -> bool:
    steps = [step for step in target.split("/") if step not in ("", ".")]
    climbs = steps.count("..")
    # Past another link, `..` would lead anywhere: it may stand only at the front.
    if target.startswith("/") or "\0" in target or ".." in steps[climbs:]:
        return False
    lexically = os.path.normpath(path.parent / target)
    return lexically == str(into) or lexically.startswith(f"{into}/")


def _make_folder(into: Path, path: Path) -> None:
    """Make a folder with those above it. Refuses to go through a link."""
    at = into
    for step in path.relative_to(into).parts:
        at /= step
        if at.is_symlink():
            message = f"{at} is a link here: nothing is written through it."
            raise SkepError(400, "unsafe_archive", message)
        at.mkdir(exist_ok=True)


def _make_file(tar: tarfile.TarFile, member: tarfile.TarInfo, into: Path, path: Path) -> None:
    """Write a file, which has its name when it is whole: a copy that is cut off leaves what was
    there before."""
    _make_folder(into, path.parent)
    source = tar.extractfile(member)
    assert source is not None, "it is a plain file"
    mode = 0o755 if member.mode & 0o100 else 0o644
    known = path.stat(follow_symlinks=False) if os.path.lexists(path) else None
    part = path.with_name(f".{token_hex(8)}.part")
    if known and not stat.S_ISREG(known.st_mode) and not stat.S_ISLNK(known.st_mode):
        part = path  # it is written to, as /dev/null
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        with open(os.open(part, flags, mode), "wb") as file:
            if known and stat.S_ISREG(known.st_mode):
                os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
            shutil.copyfileobj(source, file, PIECE_BYTES)
        if part != path:
            os.replace(part, path)
    except BaseException:
        if part != path:
            part.unlink(missing_ok=True)
        raise
    with suppress(OverflowError, ValueError):  # a moment that no file system knows
        os.utime(path, (member.mtime, member.mtime))


def _make_link(into: Path, path: Path, target: str) -> None:
    _make_folder(into, path.parent)
    if path.is_symlink() or path.is_file():
        path.unlink()
    if not path.exists():
        path.symlink_to(target)
