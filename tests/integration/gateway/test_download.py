"""A whole log as one download from the real server."""

from __future__ import annotations

import contextlib
import random
import threading

import httpx
import pytest
from django.conf import settings
from tests.support.gateway_rows import frame, frames, running_attempt
from tests.support.platform_api import Api
from tests.support.platform_factories import place

from skep_platform.jobs.models import Job, Task, TaskAttempt
from skep_platform.telemetry import download
from skep_platform.telemetry.services import append_logs

SIZE = 5_000_000
PREFIXED = b"[worker-0] loss 3\n[worker-0] loss 2\n[worker-0] the end"


@pytest.fixture
def data() -> bytes:
    return random.Random(1).randbytes(SIZE)


@pytest.mark.parametrize("offset", [0, 1, 1_234_567, SIZE - 1, SIZE, SIZE + 5])
def test_every_byte_from_an_offset_on(port, data, offset):
    attempt = running_attempt()
    append_logs(attempt.node_id, frames(attempt, data, range(0, SIZE, 99_999)))
    response = get(port, attempt, offset)
    assert response.content == data[offset:]
    assert response.headers["content-length"] == str(max(0, SIZE - offset))
    assert response.headers["content-type"].startswith("text/plain")
    assert response.headers["content-disposition"].startswith("attachment")
    assert response.headers["x-content-type-options"] == "nosniff"


def test_it_is_read_piece_by_piece_as_the_reader_takes_it(port, data, monkeypatch):
    attempt = running_attempt()
    append_logs(attempt.node_id, frames(attempt, data, range(0, SIZE, 200_000)))
    taken, read = threading.Event(), download._read

    def waiting(attempt, stream, offset, end):
        assert offset == 0 or taken.wait(60), "the second piece was read before the first was sent"
        return read(attempt, stream, offset, end)

    monkeypatch.setattr(download, "_read", waiting)
    with httpx.stream("GET", **request(port, attempt, 0)) as response:
        pieces = response.iter_raw()
        whole = next(pieces)
        taken.set()
        whole += b"".join(pieces)
    assert whole == data


class TestWholeJob:
    """Lines of two tasks, merged."""

    @pytest.fixture
    def attempts(self) -> list[TaskAttempt]:
        first = running_attempt(gpus=0)
        Task.objects.create(job=first.job, role=first.role, index=1, rank=1)
        Job.objects.filter(pk=first.job_id).update(tasks_total=2, name="two")
        second = place(first.job, [], node=first.node, rank=1)
        pieces = [
            frame(first, 0, b"loss 3\nlo"),
            frame(second, 0, b"10%\r99%\rready\n"),
            frame(first, 9, b"ss 2\n"),
            frame(second, 0, b"warning\n", "stderr"),
            frame(first, 14, b"the end"),
        ]
        for piece in pieces:
            append_logs(first.node_id, [piece])
        return [first, second]

    def get(self, port: int, of: TaskAttempt, **query: object) -> httpx.Response:
        path = f"/api/v1/jobs/{of.job_id}/logs/download"
        return httpx.get(**request_for(port, of, path), params=query)

    def test_each_line_names_its_task_and_none_is_cut(self, port, attempts):
        response = self.get(port, attempts[0])
        assert response.content.decode().split("\n") == [
            "[worker-0] loss 3",
            "[worker-1] 10%\r99%\rready",
            "[worker-0] loss 2",
            "[worker-1] warning",
            "[worker-0] the end",
        ]
        assert response.headers["content-disposition"] == 'attachment; filename="two.log"'
        assert response.headers["content-type"].startswith("text/plain")

    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"rank": 0}, b"loss 3\nloss 2\nthe end"),
            ({"rank": 0, "prefix": 1, "role": "worker"}, PREFIXED),
            ({"stream": "stderr"}, b"[worker-1] warning\n"),
            ({"stream": "stderr", "prefix": 0}, b"warning\n"),
            ({"rank": 1, "stream": "stdout", "progress": "final"}, b"ready\n"),
            ({"role": "ps"}, b""),
            ({"role": "worker", "rank": 1, "stream": "stderr"}, b"warning\n"),
            ({"attempt": 2}, b""),
            ({"attempt": 1, "rank": 1, "stream": "stderr"}, b"warning\n"),
        ],
    )
    def test_a_part_of_it(self, port, attempts, query, expected):
        assert self.get(port, attempts[0], **query).content == expected

    def test_one_task_of_megabytes_arrives_byte_for_byte_in_pieces(self, port, data, monkeypatch):
        monkeypatch.setattr(download, "PIECE", 300_000)
        attempt = running_attempt(gpus=0)
        append_logs(attempt.node_id, frames(attempt, data, range(0, SIZE, 99_999)))
        assert self.get(port, attempt).content == data

    def test_slow_readers_hold_no_database_connection(self, port, data, monkeypatch):
        """More of them than the pool has connections: another request is answered all the same."""
        monkeypatch.setattr(download, "PIECE", 300_000)
        attempt = running_attempt(gpus=0)
        append_logs(attempt.node_id, frames(attempt, data * 4, range(0, 4 * SIZE, 500_000)))
        path = f"/api/v1/jobs/{attempt.job_id}/logs/download"
        with contextlib.ExitStack() as readers:
            for _ in range(settings.DATABASES["default"]["OPTIONS"]["pool"]["max_size"] + 2):
                started = httpx.stream("GET", **request_for(port, attempt, path))
                next(readers.enter_context(started).iter_raw())
            assert get(port, attempt, 4 * SIZE).status_code == 200


def get(port: int, attempt: object, offset: int) -> httpx.Response:
    return httpx.get(**request(port, attempt, offset))


def request(port: int, attempt: object, offset: int) -> dict:
    return request_for(
        port, attempt, f"/api/v1/attempts/{attempt.pk}/logs/stdout?raw=1&offset={offset}"
    )


def request_for(port: int, attempt: object, path: str) -> dict:
    token = Api(attempt.job.owner).token
    headers = {"Authorization": f"Bearer {token}"}
    url = f"http://127.0.0.1:{port}{path}"
    return {"url": url, "headers": headers, "trust_env": False, "timeout": 60}
