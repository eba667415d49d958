"""Files into and out of a running task: `tar` runs there, and its archive is made and read here.

What comes from a task is not trusted (see `unpacking`).
"""

from __future__ import annotations

import io
import posixpath
import tarfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from skep_client.client import Skep
from skep_client.errors import SkepError
from skep_client.streams import ERROR, Stream, open_exec
from skep_client.unpacking import unpack

Progress = Callable[[int], None]  # bytes so far
MAX_SAID = 2000  # characters of what tar says


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
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
            tar.add(source, name, filter=_nobody)
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


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Files belong to whoever runs tar there."""
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
