"""Logs as files, in constant memory: one stream byte by byte, or a whole job line by line.

Between two pieces nothing is held but a little text: no database connection, however slowly the
file is taken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from skep_platform.core.threads import at_database
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.telemetry.frames import MAX_CHUNK
from skep_platform.telemetry.lines import Merger
from skep_platform.telemetry.queries import Chunk, Filter, newest_cursor, next_chunks, stream_bytes
from skep_platform.telemetry.store import read_chunk

PIECE = 4 * MAX_CHUNK  # bytes of chunks that are read at a time

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
    job: Job, which: Filter, *, prefix: bool, settled: bool
) -> AsyncIterator[bytes]:
    """The merged log as far as it is stored now. Lines of different tasks never mix; with `prefix`
    each begins with its task's name."""
    end = await _off_loop(newest_cursor, job, which)
    merger, cursor = Merger(settled=settled), 0
    while cursor < end:
        chunks = await _off_loop(next_chunks, job, which, cursor, end, PIECE)
        if not chunks:
            break
        cursor = chunks[-1].cursor
        yield await _off_loop(_merge, merger, chunks, prefix)
    yield merger.end()


def _read(attempt: TaskAttempt, stream: str, offset: int, end: int) -> bytes:
    return b"".join(stream_bytes(attempt.pk, stream, offset, end))


def _merge(merger: Merger, chunks: list[Chunk], prefix: bool) -> bytes:
    return b"".join(
        merger.feed(
            (chunk.attempt_id, chunk.stream),
            f"[{chunk.role}-{chunk.index}] ".encode() if prefix else b"",
            read_chunk(chunk.key, chunk.size),
        )
        for chunk in chunks
    )


async def _off_loop(work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return await sync_to_async(at_database)(work, *args, **kwargs)
