"""Following a job: its log pieces as they come, and each change of its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from skep_client import calls
from skep_client.calls import Call
from skep_client.client import Skep
from skep_client.live import Subscription
from skep_client.model import Page
from skep_client.models import Event, JobSummary, LogChunk

# Notifications make it fast; reading again after this many seconds makes it certain.
LOOK_AGAIN_S = 2.0
PAGE_BYTES = 256 * 1024


def follow(client: Skep, job_id: str, **filters: Any) -> Iterator[LogChunk | JobSummary]:
    """Log chunks as they come, the lines of those that came together ordered by time, and between
    them the job whenever its state or its reason to wait changed; ends when the job has ended and
    every byte was given."""
    asked = calls.following(calls.job(job_id))
    cursor: int | str = 0
    shown: tuple[Any, ...] = (None,)
    with Subscription(client.server, client.token, "job-logs", job_id) as changes:
        while True:
            job = client.run(asked)
            if shown != (shown := (job.state, job.wait_reason)):
                yield job
            logs = calls.logs(job_id, cursor=cursor, limit=PAGE_BYTES, times=True, **filters)
            page = client.run(calls.following(logs))
            yield from page.chunks
            if page.complete and not page.chunks:
                # The log became complete after the job was read: its last state is not shown yet.
                if shown[0] != (ended := client.run(asked)).state:
                    yield ended
                return
            if not page.chunks:
                changes.wait(LOOK_AGAIN_S)
            filters.pop("tail", None)  # of the first look only
            cursor = page.next


def follow_events(client: Skep, job_id: str) -> Iterator[Event]:
    """Yield the events of a job, each once, and a row that stands for many whenever it has grown;
    ends when the job has ended."""
    seen: dict[int, int] = {}

    def events(cursor: str) -> Call[Page[Event]]:
        return calls.following(calls.events(job_id, cursor=cursor))

    with Subscription(client.server, client.token, "job", job_id) as changes:
        while True:
            ended = client.run(calls.following(calls.job(job_id))).is_finished
            for event in client.all(events):
                if seen.get(event.id) != event.count:
                    seen[event.id] = event.count
                    yield event
            if ended:
                return
            changes.wait(LOOK_AGAIN_S)
