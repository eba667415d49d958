"""Logs as files, in constant memory: one stream byte by byte, or a whole job line by line.

Between two pieces nothing is held but a little text: no database connection, however slowly the
file is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, Protocol, TypeVar

from asgiref.sync import sync_to_async

from skep_platform.core.serving import at_database
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry.appending import MAX_CHUNK
from skep_platform.telemetry.merged_lines import (
    Format,
    LineRun,
    LineWriter,
    Merger,
    TimeOrder,
    as_text,
)
from skep_platform.telemetry.merged_lines import as_json as as_json_line
from skep_platform.telemetry.queries import (
    Chunk,
    Filter,
    newest_cursor,
    next_chunks,
    read_lines,
    stream_bytes,
)
from skep_platform.telemetry.retention import check_kept

PIECE = 4 * MAX_CHUNK  # bytes of chunks that are read at a time
WINDOW = 16 * MAX_CHUNK  # bytes of lines that wait for older ones, which arrived later

P = ParamSpec("P")
R = TypeVar("R")


async def stream_download(
    attempt: TaskAttempt, stream: str, offset: int, end: int
) -> AsyncIterator[bytes]:
    """Bytes [offset, end): a store that fails breaks the transfer off, short of its announced
    length."""
    while offset < end:
        data = await _off_loop(_read, attempt, stream, offset, min(end, offset + MAX_CHUNK))
        if not data:
            raise EOFError(f"{stream} of {attempt.pk} ends at {offset}, not at {end}")
        offset += len(data)
        yield data


async def job_download(
    job: Job,
    which: Filter,
    *,
    prefix: bool,
    settled: bool,
    timestamps: bool = False,
    as_json: bool = False,
) -> AsyncIterator[bytes]:
    """The merged log as far as it is stored now, its lines ordered by time. Lines of different
    tasks never mix; with `prefix` each begins with its task's name. Raises EOFError and Gone where
    the log is deleted meanwhile: the transfer is broken off."""
    end = await _off_loop(newest_cursor, job, which)
    writer: _Writer = (
        _Lines(settled, _json_of if as_json else _text_of(prefix))
        if timestamps or as_json
        else _Text(settled, prefix)
    )
    order: TimeOrder[Chunk] = TimeOrder()
    cursor = 0
    while cursor < end:
        chunks = await _off_loop(next_chunks, job, which, cursor, end, PIECE)
        # The time of the log may be over by now: what is left of it would look like all of it.
        check_kept(job)
        if not chunks:
            raise EOFError(f"the log of {job.pk} ends at {cursor}, not at {end}")
        cursor = chunks[-1].cursor
        yield await _off_loop(_merge, order, writer, chunks, WINDOW)
    yield await _off_loop(_merge, order, writer, [], 0)
    yield writer.end()


def _read(attempt: TaskAttempt, stream: str, offset: int, end: int) -> bytes:
    return b"".join(stream_bytes(attempt.pk, stream, offset, end))


class _Writer(Protocol):
    def feed(self, piece: LineRun[Chunk]) -> bytes:
        """Return the lines that are whole with these."""

    def end(self) -> bytes:
        """Return the lines that never ended."""


class _Text:
    """The lines as they were written, each behind its prefix."""

    def __init__(self, settled: bool, prefix: bool) -> None:
        self._merger, self._prefix = Merger(settled=settled), prefix

    def feed(self, piece: LineRun[Chunk]) -> bytes:
        chunk = piece.source
        prefix = f"{_task(chunk)} ".encode() if self._prefix else b""
        return self._merger.feed((chunk.attempt_id, chunk.stream), prefix, piece.data)

    def end(self) -> bytes:
        return self._merger.end()


class _Lines:
    """Each line with its time."""

    def __init__(self, settled: bool, format_of: Callable[[Chunk], Format]) -> None:
        self._lines, self._format_of = LineWriter(settled=settled), format_of

    def feed(self, piece: LineRun[Chunk]) -> bytes:
        chunk = piece.source
        stream = (chunk.attempt_id, chunk.stream)
        return self._lines.feed(stream, self._format_of(chunk), piece.data, piece.times)

    def end(self) -> bytes:
        return self._lines.end()


def _text_of(prefix: bool) -> Callable[[Chunk], Format]:
    return lambda chunk: as_text(f"{_task(chunk)} " if prefix else "")


def _json_of(chunk: Chunk) -> Format:
    return as_json_line(chunk.role, chunk.index, chunk.rank, chunk.stream)


def _task(chunk: Chunk) -> str:
    return f"[{chunk.role}-{chunk.index}]"


def _merge(order: TimeOrder[Chunk], writer: _Writer, chunks: list[Chunk], keep: int) -> bytes:
    for chunk in chunks:
        order.add((chunk.attempt_id, chunk.stream), chunk.cursor, chunk, *read_lines(chunk))
    return b"".join([writer.feed(piece) for piece in order.take(keep)])


async def _off_loop(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await sync_to_async(at_database)(work, *args, **kwargs)
