"""Logs over REST: merged, by offset, tails, completeness, search, download."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.core.files.storage import storages
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone
from tests.support.gateway_rows import frame, running_attempt, write
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc, place, release

from skep_platform.jobs.models import Job, Task, TaskAttempt
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.telemetry import queries
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.services import append_logs
from skep_platform.telemetry.store import ChunkFiles

pytestmark = pytest.mark.django_db


@pytest.fixture
def attempt() -> TaskAttempt:
    return running_attempt()


@pytest.fixture
def api(attempt: TaskAttempt) -> Api:
    return Api(attempt.job.owner)


def end(attempt: TaskAttempt, job_state: str = JobState.SUCCEEDED) -> None:
    for stream in ("stdout", "stderr"):
        chunks = LogChunk.objects.filter(attempt=attempt, stream=stream)
        size = sum(chunks.values_list("size", flat=True))
        append_logs(attempt.node_id, [frame(attempt, size, b"", stream)])
    attempt.refresh_from_db()
    release(attempt)
    Job.objects.filter(pk=attempt.job_id).update(state=job_state)


def merged(api: Api, attempt: TaskAttempt, **query: Any) -> Any:
    response = api.get(f"/jobs/{attempt.job_id}/logs", **query)
    assert response.status_code == 200, response.json()
    return response.json()


def text(page: dict[str, Any]) -> str:
    return "".join(chunk["text"] for chunk in page["chunks"])


@pytest.mark.django_db(transaction=True)
def test_who_reads_logs_waits_for_the_store_without_a_connection_of_the_database(monkeypatch):
    attempt = running_attempt()
    write(attempt, b"one\n")
    write(attempt, b"two\n")
    held, open_chunk = [], ChunkFiles.open

    def noted(*args: Any) -> Any:
        held.append(connection.connection is not None)
        return open_chunk(*args)

    monkeypatch.setattr(ChunkFiles, "open", noted)
    api, logs = Api(attempt.job.owner), f"/jobs/{attempt.job_id}/logs"
    assert text(merged(api, attempt)) == "one\ntwo\n"
    assert api.get(f"{logs}/search", q="two").json()["matches"]
    assert api.get(f"/attempts/{attempt.pk}/logs/stdout").json()["text"] == "one\ntwo\n"
    assert set(held) == {False}


class TestMerged:
    def test_chunks_report_whose_they_are_in_order_of_arrival(self, api, attempt):
        write(attempt, b"one\n")
        write(attempt, b"oops\n", "stderr")
        write(attempt, b"two\n")
        page = merged(api, attempt)
        assert [(c["stream"], c["offset"], c["text"]) for c in page["chunks"]] == [
            ("stdout", 0, "one\n"),
            ("stderr", 0, "oops\n"),
            ("stdout", 4, "two\n"),
        ]
        first = page["chunks"][0]
        assert (first["role"], first["index"], first["rank"]) == ("worker", 0, 0)
        assert first["attempt_id"] == str(attempt.pk)
        assert page["next"] == page["chunks"][-1]["cursor"]
        assert page["complete"] is False

    def test_reading_on_gives_every_chunk_once(self, api, attempt):
        lines = [f"line {i}\n".encode() for i in range(20)]
        for line in lines:
            write(attempt, line)
        read, cursor = "", 0
        while (page := merged(api, attempt, cursor=cursor, limit=30))["chunks"]:
            read += text(page)
            cursor = page["next"]
        assert read.encode() == b"".join(lines)

    def test_a_chunk_larger_than_the_limit_is_still_given(self, api, attempt):
        write(attempt, b"x" * 1000)
        assert len(text(merged(api, attempt, limit=10))) == 1000

    def test_filters_by_rank_and_stream(self, api, attempt):
        write(attempt, b"out")
        write(attempt, b"err", "stderr")
        assert text(merged(api, attempt, stream="stderr")) == "err"
        assert text(merged(api, attempt, rank=0)) == "outerr"
        assert text(merged(api, attempt, rank=1)) == ""

    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            (1, "five"),
            (2, "four\nfive"),
            (4, "two\nthree\nfour\nfive"),
            (99, "one\ntwo\nthree\nfour\nfive"),
        ],
    )
    def test_the_tail_is_the_newest_lines(self, api, attempt, lines, expected):
        for piece in (b"one\ntwo\nthr", b"ee\nfour\n", b"five"):
            write(attempt, piece)
        page = merged(api, attempt, tail=lines)
        assert text(page) == expected
        write(attempt, b" and more")
        assert text(merged(api, attempt, cursor=page["next"])) == " and more"

    def test_backwards_from_a_cursor(self, api, attempt):
        for line in (b"one\n", b"two\n", b"three\n"):
            write(attempt, line)
        newest = merged(api, attempt, tail=1)["chunks"][0]["cursor"]
        assert text(merged(api, attempt, before=newest)) == "one\ntwo\n"

    def test_a_character_cut_by_a_chunk_border_is_whole(self, api, attempt):
        data = "grüße 🐝".encode()
        for i in range(len(data)):
            write(attempt, data[i : i + 1])
        assert text(merged(api, attempt)) == "grüße 🐝"

    def test_a_chunk_that_the_store_lost_is_reported_and_skipped(self, api, attempt):
        for piece in (b"a" * 80, b"b" * 80, b"c" * 80):
            write(attempt, piece)
        storages["logs"].delete(LogChunk.objects.order_by("id")[1].key)
        read = text(merged(api, attempt))
        assert "[80 bytes of this log are missing in the store]" in read
        assert len(read) == 240
        assert read.endswith("c" * 80)

    @pytest.mark.parametrize(
        "query",
        [
            {"cursor": -1},
            {"cursor": 2**63},
            {"limit": 0},
            {"limit": 2**30},
            {"tail": 0},
            {"stream": "stdin"},
            {"rank": "x"},
        ],
    )
    def test_bad_parameters_are_refused(self, api, attempt, query):
        assert refusal(api.get(f"/jobs/{attempt.job_id}/logs", **query)) == (400, "invalid")


class TestComplete:
    def test_when_the_job_ended_and_every_stream_reported_its_end(self, api, attempt):
        write(attempt, b"abc")
        assert merged(api, attempt)["complete"] is False
        end(attempt)
        assert merged(api, attempt)["complete"] is True

    def test_not_on_a_page_that_more_follows(self, api, attempt):
        write(attempt, b"abc")
        write(attempt, b"def")
        end(attempt)
        assert merged(api, attempt, limit=3)["complete"] is False

    def test_not_while_the_job_lives(self, api, attempt):
        end(attempt, JobState.RUNNING)
        assert merged(api, attempt)["complete"] is False

    @pytest.mark.parametrize(
        ("fields", "complete"),
        [
            ({"started_at": None}, True),
            ({"started_at": Now()}, False),
            ({"started_at": Now(), "state": AttemptState.LOST}, True),
            ({"started_at": Now(), "released_at": Now() - timedelta(minutes=5)}, True),
            ({"started_at": Now(), "log_sizes": {"stdout": 0}}, False),
        ],
        ids=[
            "never started",
            "end unknown",
            "node lost",
            "deadline passed",
            "one stream known",
        ],
    )
    def test_without_the_nodes_word(self, api, attempt, fields, complete):
        release(attempt, AttemptState.FAILED)
        TaskAttempt.objects.filter(pk=attempt.pk).update(**fields)
        Job.objects.filter(pk=attempt.job_id).update(state=JobState.FAILED)
        assert merged(api, attempt)["complete"] is complete


class TestStream:
    def read(self, api: Api, attempt: TaskAttempt, **query: Any) -> Any:
        return api.get(f"/attempts/{attempt.pk}/logs/stdout", **query).json()

    def test_by_offset_across_chunks(self, api, attempt):
        for piece in (b"0123", b"45", b"6789"):
            write(attempt, piece)
        assert self.read(api, attempt, offset=2, limit=5) == {
            "attempt_id": str(attempt.pk),
            "stream": "stdout",
            "offset": 2,
            "next_offset": 7,
            "size": 10,
            "complete": False,
            "text": "23456",
        }

    def test_tail_is_the_newest_bytes(self, api, attempt):
        for piece in (b"0123", b"45", b"6789"):
            write(attempt, piece)
        part = self.read(api, attempt, tail=5)
        assert (part["offset"], part["text"], part["next_offset"]) == (5, "56789", 10)

    def test_past_the_end_is_empty(self, api, attempt):
        write(attempt, b"abc")
        part = self.read(api, attempt, offset=99)
        assert (part["offset"], part["next_offset"], part["text"]) == (3, 3, "")

    def test_complete_once_the_end_was_reported(self, api, attempt):
        write(attempt, b"abc")
        append_logs(attempt.node_id, [frame(attempt, 3, b"")])
        assert self.read(api, attempt, limit=2)["complete"] is False
        assert self.read(api, attempt)["complete"] is True

    def test_unknown_stream(self, api, attempt):
        answer = api.get(f"/attempts/{attempt.pk}/logs/stdin")
        assert refusal(answer) == (404, "not_found")


def test_19_a_stranger_learns_nothing_not_even_that_the_job_exists(attempt):
    write(attempt, b"secret")
    stranger = make_user()
    make_vc(members=[stranger])
    paths = [
        f"/jobs/{attempt.job_id}/logs",
        f"/jobs/{attempt.job_id}/logs/search?q=secret",
        f"/jobs/{attempt.job_id}/metrics",
        f"/attempts/{attempt.pk}/logs/stdout",
        f"/attempts/{attempt.pk}/logs/stdout?raw=1",
    ]
    for path in paths:
        assert refusal(Api(stranger).get(path)) == (404, "not_found"), path
        assert refusal(Api().get(path)) == (401, "not_authenticated"), path
        assert Api(make_user(admin=True)).get(path).status_code == 200, path


def test_another_attempt_of_the_same_task_is_merged_too(api, attempt):
    write(attempt, b"first\n")
    end(attempt, JobState.WAITING)
    job = attempt.job
    job.attempt = 2
    again = place(job, [], node=attempt.node, state=AttemptState.RUNNING)
    write(again, b"second\n")
    assert text(merged(api, attempt)) == "first\nsecond\n"


class TestProgressBars:
    def test_read_as_the_last_state_of_their_line_unless_raw_is_asked(self, api, attempt):
        write(attempt, b"1%\r2%\r3%\r")
        write(attempt, b"done\nnext\n")
        assert [c["text"] for c in merged(api, attempt)["chunks"]] == ["\r3%\r", "done\nnext\n"]
        assert text(merged(api, attempt, progress="raw")) == "1%\r2%\r3%\rdone\nnext\n"
        assert text(merged(api, attempt, tail=3)) == "\r3%\rdone\nnext\n"

    def test_of_one_stream_too_and_the_offsets_are_those_of_the_bytes(self, api, attempt):
        write(attempt, b"a\n1%\r2%\n")
        path = f"/attempts/{attempt.pk}/logs/stdout"
        part = api.get(path).json()
        assert (part["text"], part["next_offset"]) == ("a\n2%\n", 8)
        assert api.get(path, progress="raw").json()["text"] == "a\n1%\r2%\n"


class TestMore:
    def test_reports_whether_to_read_on(self, api, attempt):
        for line in (b"one\n", b"two\n", b"three\n"):
            write(attempt, line)
        assert merged(api, attempt)["more"] is False
        first = merged(api, attempt, limit=1)
        assert first["more"] is True
        assert merged(api, attempt, cursor=first["next"])["more"] is False
        assert merged(api, attempt, tail=3)["more"] is False
        newest = merged(api, attempt, tail=2)
        assert newest["more"] is True
        before = newest["chunks"][0]["cursor"]
        assert merged(api, attempt, before=before, limit=1)["more"] is False


@pytest.mark.parametrize("deleted", [True, False], ids=["deleted", "about to be"])
def test_a_log_that_is_no_longer_kept_is_not_empty_but_gone(api, attempt, deleted, settings):
    write(attempt, b"abc\n")
    end(attempt)
    settings.SKEP_LOG_RETENTION_DAYS = 7
    week = timedelta(days=7)
    fields = {"logs_deleted_at": Now()} if deleted else {"finished_at": Now() - week}
    Job.objects.filter(pk=attempt.job_id).update(**fields)
    paths = [
        f"/jobs/{attempt.job_id}/logs",
        f"/jobs/{attempt.job_id}/logs/search?q=a",
        f"/jobs/{attempt.job_id}/logs/download",
        f"/attempts/{attempt.pk}/logs/stdout",
        f"/attempts/{attempt.pk}/logs/stdout?raw=1",
    ]
    for path in paths:
        answer = api.get(path)
        assert refusal(answer) == (410, "logs_deleted"), path
        assert answer.json()["details"]["deleted_at"] is not None


def test_logs_are_kept_for_ever_with_a_retention_of_0(api, attempt, settings):
    settings.SKEP_LOG_RETENTION_DAYS = 0
    write(attempt, b"abc\n")
    Job.objects.update(finished_at=Now() - timedelta(days=1000))
    assert text(merged(api, attempt)) == "abc\n"


def test_one_rank_is_read_by_the_index_of_its_own_chunks(attempt):
    """A gang of two, of which one writes a lot."""
    job = attempt.job
    task = Task.objects.create(job=job, role=attempt.role, index=1, rank=1)
    chatty = place(job, [], node=attempt.node, rank=task.rank)
    at = timezone.now()
    LogChunk.objects.bulk_create(
        LogChunk(job=job, attempt=whose, stream="stdout", offset=n, size=1, at=at, key="x")
        for n in range(3000)
        for whose in ([attempt, chatty] if n % 30 == 0 else [chatty])
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE telemetry_logchunk")
    which = queries.Filter(rank=0)
    plan = which.chunks(job).filter(id__gt=0).order_by("id")[:10].explain()
    assert "chunk_by_attempt" in plan
    assert "Sort" not in plan
