"""Logs in an S3 store, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.core.files.storage import storages
from django.utils import timezone
from tests.support.gateway_rows import frame, frames, running_attempt
from tests.support.object_store import ObjectStore, object_store
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node

from skep_platform.core.errors import Unavailable
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JobState
from skep_platform.telemetry import retention
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.services import append_logs

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with object_store() as running:
        yield running


@pytest.fixture
def bucket(server: ObjectStore, settings, monkeypatch):
    backend = "skep_platform.telemetry.objects.ChunkObjects"
    return server.bucket_for("logs", backend, settings, monkeypatch)


def keys(bucket) -> list[str]:
    return sorted(item.key for item in bucket.objects.all())


def test_bytes_go_there_once_each_and_come_back(bucket):
    attempt = running_attempt()
    data = b"".join(b"line %7d\n" % n for n in range(200_000))  # 2.6 MB: three chunks
    sent = frames(attempt, data, range(0, len(data), 200_000))
    for _ in range(2):
        append_logs(attempt.node_id, sent)
    chunks = LogChunk.objects.order_by("offset")
    assert keys(bucket) == [f"skep/logs/{chunk.key}" for chunk in chunks]
    api = Api(attempt.job.owner)
    part = api.get(f"/attempts/{attempt.pk}/logs/stdout", offset=1_000_000, limit=200_000).json()
    assert part["next_offset"] == 1_200_000
    assert part["text"] == data[1_000_000:1_200_000].decode()


def test_pages_tails_and_search_read_from_there(bucket):
    attempt = running_attempt()
    for number in range(4):
        append_logs(attempt.node_id, [frame(attempt, 7 * number, b"line %d\n" % number)])
    api, path = Api(attempt.job.owner), f"/jobs/{attempt.job_id}/logs"
    page = api.get(path).json()
    assert "".join(c["text"] for c in page["chunks"]) == "line 0\nline 1\nline 2\nline 3\n"
    assert [c["text"] for c in api.get(path, tail=1).json()["chunks"]] == ["line 3\n"]
    assert len(api.get(f"{path}/search", q="line [23]", regex=1).json()["matches"]) == 2


def test_one_call_of_a_node_with_many_streams(bucket):
    node = make_node()
    attempts = [running_attempt(node, gpus=0) for _ in range(20)]
    append_logs(node.pk, [frame(attempt, 0, b"abc\n") for attempt in attempts])
    assert len(keys(bucket)) == 20


def test_old_logs_are_deleted_there_too(bucket, settings):
    settings.SKEP_LOG_RETENTION_DAYS = 7
    attempt = running_attempt()
    for number in range(5):
        append_logs(attempt.node_id, [frame(attempt, number, b"x")])
    Job.objects.update(state=JobState.FAILED, finished_at=timezone.now() - timedelta(days=8))
    assert retention.delete_old_logs() == 1
    assert keys(bucket) == []


def test_an_object_that_is_gone_reads_as_a_note(bucket):
    attempt = running_attempt()
    append_logs(attempt.node_id, [frame(attempt, 0, b"x" * 80)])
    bucket.objects.all().delete()
    page = Api(attempt.job.owner).get(f"/jobs/{attempt.job_id}/logs").json()
    assert page["chunks"][0]["text"].startswith("[80 bytes of this log are missing in the store]")
    with pytest.raises(FileNotFoundError):
        storages["logs"].open("never/written")


def test_a_store_that_is_away_is_reported_and_nothing_is_acknowledged(bucket):
    attempt = running_attempt()
    append_logs(attempt.node_id, [frame(attempt, 0, b"abc")])
    name, storages["logs"].bucket_name = storages["logs"].bucket_name, "no-such-bucket"
    with pytest.raises(Unavailable):
        append_logs(attempt.node_id, [frame(attempt, 3, b"def")])
    assert LogChunk.objects.count() == 1
    storages["logs"].bucket_name = name
    answer = append_logs(attempt.node_id, [frame(attempt, 3, b"def")])
    assert [ack.offset for ack in answer] == [6]
    storages["logs"].bucket_name = "no-such-bucket"
    refused = Api(attempt.job.owner).get(f"/attempts/{attempt.pk}/logs/stdout")
    assert refusal(refused) == (503, "unavailable")
