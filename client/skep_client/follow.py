"""Following a job: its log pieces as they come, and each change of its state."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any, Self
from urllib.parse import urlsplit

from skep_client.client import Skep, is_loopback
from skep_client.models import Event, JobSummary, LogChunk

# The doorbell makes it fast; reading again after this many seconds makes it certain.
LOOK_AGAIN_S = 2.0
WITHOUT_BELL_S = 0.5
PAGE_BYTES = 256 * 1024


def follow(client: Skep, job_id: str, **filters: Any) -> Iterator[LogChunk | JobSummary]:
    """Log chunks in order of arrival, between them the job whenever its state or its reason to
    wait changed; ends when the job has ended and every byte was told."""
    cursor: int | str = 0
    told: tuple[Any, ...] = (None,)
    with Doorbell(client, "job-logs", job_id) as bell:
        while True:
            job = client.job(job_id)
            if told != (told := (job.state, job.wait_reason)):
                yield job
            page = client.logs(job_id, cursor=cursor, limit=PAGE_BYTES, **filters)
            yield from page.chunks
            if page.complete and not page.chunks:
                # It was complete after the job was looked at: the last word is still to be told.
                if told[0] != (ended := client.job(job_id)).state:
                    yield ended
                return
            if not page.chunks:
                bell.wait(LOOK_AGAIN_S)
            filters.pop("tail", None)  # of the first look only
            cursor = page.next


def follow_events(client: Skep, job_id: str) -> Iterator[Event]:
    """The story of a job, each event once; ends when the job has ended."""
    told = 0
    with Doorbell(client, "job", job_id) as bell:
        while True:
            ended = client.job(job_id).is_finished
            for event in client.events(job_id):
                if event.id > told:
                    told = event.id
                    yield event
            if ended:
                return
            bell.wait(LOOK_AGAIN_S)


class Doorbell:
    """Rings when a topic of /ws/live changed. Where no WebSocket can be had, it is a short nap."""

    def __init__(self, client: Skep, topic: str, subject_id: str) -> None:
        self._client = client
        self._subscription = json.dumps({"subscribe": topic, "id": subject_id})
        self._socket: Any = None

    def __enter__(self) -> Self:
        from websockets.exceptions import WebSocketException
        from websockets.sync.client import connect

        server = urlsplit(self._client.server)
        scheme = "wss" if server.scheme == "https" else "ws"
        try:
            self._socket = connect(
                server._replace(scheme=scheme, path=f"{server.path}/ws/live").geturl(),
                additional_headers={"Authorization": f"Bearer {self._client.token}"},
                open_timeout=5,
                proxy=None if is_loopback(self._client.server) else True,
            )
            self._socket.send(self._subscription)
        except (OSError, WebSocketException):
            self._socket = None
        return self

    def __exit__(self, *_: object) -> None:
        if self._socket is not None:
            self._socket.close()

    def wait(self, at_most_s: float) -> None:
        """Return at the next ring, or when the time is over."""
        from websockets.exceptions import WebSocketException

        if self._socket is None:
            time.sleep(WITHOUT_BELL_S)
            return
        try:
            self._socket.recv(timeout=at_most_s)
        except TimeoutError:
            pass
        except (OSError, WebSocketException):  # a web server that restarts; polling goes on
            self._socket = None
