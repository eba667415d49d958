"""A whole stream as bytes, in constant memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from asgiref.sync import sync_to_async

from skep_platform.jobs.models import TaskAttempt
from skep_platform.telemetry.frames import MAX_CHUNK
from skep_platform.telemetry.queries import stream_bytes


async def stream_download(
    attempt: TaskAttempt, stream: str, offset: int, end: int
) -> AsyncIterator[bytes]:
    """Bytes [offset, end): a store that fails breaks the transfer off, short of its announced
    length."""
    while offset < end:
        data = await sync_to_async(_read)(attempt, stream, offset, min(end, offset + MAX_CHUNK))
        if not data:
            raise EOFError(f"{stream} of {attempt.pk} ends at {offset}, not at {end}")
        offset += len(data)
        yield data


def _read(attempt: TaskAttempt, stream: str, offset: int, end: int) -> bytes:
    return b"".join(stream_bytes(attempt, stream, offset, end))
