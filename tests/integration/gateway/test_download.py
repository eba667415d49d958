"""A whole log as one download from the real server."""

from __future__ import annotations

import random
import threading

import httpx
import pytest
from tests.support.gateway_rows import frames, running_attempt
from tests.support.platform_api import Api

from skep_platform.telemetry import download
from skep_platform.telemetry.services import append_logs

SIZE = 5_000_000


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


def get(port: int, attempt: object, offset: int) -> httpx.Response:
    return httpx.get(**request(port, attempt, offset))


def request(port: int, attempt: object, offset: int) -> dict:
    path = f"/api/v1/attempts/{attempt.pk}/logs/stdout?raw=1&offset={offset}"
    token = Api(attempt.job.owner).token
    headers = {"Authorization": f"Bearer {token}"}
    return {"url": f"http://127.0.0.1:{port}{path}", "headers": headers, "trust_env": False}
