"""Finding J11: a merged log is ordered by the times of its lines, and each line has its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from tests.support.gateway_rows import frame
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_agent.frames import LogFrame, count_segments
from skep_platform.jobs.models import TaskAttempt
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.telemetry.models import LogChunk
from skep_platform.telemetry.services import append_logs

pytestmark = pytest.mark.django_db

BEGIN = datetime(2026, 11, 22, 12, tzinfo=UTC)
MS = 1_000_000


def at(ms: float) -> int:
    return int(BEGIN.timestamp() * 1000 + ms) * MS


def timed(
    attempt: TaskAttempt, offset: int, data: bytes, times: list[float], stream: str = "stdout"
) -> LogFrame:
    """A frame as it comes from the wire; `times` are milliseconds."""
    assert count_segments(data) == len(times)
    made = LogFrame(str(attempt.pk), stream, offset, 1.0, data, [at(ms) for ms in times])  # type: ignore[arg-type]
    return LogFrame.decode(made.encode())


def store(*frames: LogFrame, attempt: TaskAttempt) -> None:
    append_logs(attempt.node_id, list(frames))


@pytest.fixture
def tasks() -> list[TaskAttempt]:
    """Two tasks of one job on two nodes."""
    owner = make_user()
    vc = make_vc(quotas={"A100": 8}, members=[owner])
    job = make_job(vc, owner, tasks=2, gpus=0, state=JobState.RUNNING, attempt=1)
    return [
        place(job, [], node=make_node(), rank=index, state=AttemptState.RUNNING)
        for index in range(2)
    ]


@pytest.fixture
def api(tasks: list[TaskAttempt]) -> Api:
    return Api(tasks[0].job.owner)


def page(api: Api, attempt: TaskAttempt, **query: Any) -> Any:
    answer = api.get(f"/jobs/{attempt.job_id}/logs", times="true", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def lines(found: dict[str, Any]) -> list[tuple[float, str]]:
    """Milliseconds and text of each line of a page."""
    return [
        (
            (datetime.fromisoformat(chunk["at"]) - BEGIN) / timedelta(milliseconds=1) + us / 1000,
            line,
        )
        for chunk in found["chunks"]
        for us, line in zip(chunk["line_times"], chunk["text"].splitlines(), strict=True)
    ]


def download(api: Api, attempt: TaskAttempt, **query: Any) -> bytes:
    return content(api.get(f"/jobs/{attempt.job_id}/logs/download", **query))


def content(answer: Any) -> bytes:
    """The whole of a streamed answer, read by this thread."""

    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def write_mixed(tasks: list[TaskAttempt]) -> list[tuple[float, str]]:
    """Chunks that arrive whole, one after the other, of lines that were written in turn."""
    first, second = tasks
    store(
        timed(first, 0, b"a0\na2\na4\n", [0, 20, 40]),
        timed(first, 0, b"e1\ne3\n", [10, 30], "stderr"),
        attempt=first,
    )
    store(timed(second, 0, b"b1\nb3\nb5\n", [15, 35, 55]), attempt=second)
    store(timed(first, 9, b"a6\n", [60]), attempt=first)
    return [
        (0, "a0"),
        (10, "e1"),
        (15, "b1"),
        (20, "a2"),
        (30, "e3"),
        (35, "b3"),
        (40, "a4"),
        (55, "b5"),
        (60, "a6"),
    ]


class TestPages:
    def test_finding_j11_lines_of_a_page_are_ordered_by_their_own_times(self, api, tasks):
        expected = write_mixed(tasks)
        found = page(api, tasks[0])
        assert lines(found) == expected
        assert found["next"] == LogChunk.objects.latest("id").pk
        assert page(api, tasks[0], cursor=found["next"])["chunks"] == []

    @pytest.mark.parametrize("count", range(1, 11))
    def test_finding_j11_the_tail_is_the_newest_lines_by_time(self, api, tasks, count):
        expected = write_mixed(tasks)
        found = page(api, tasks[0], tail=count)
        assert lines(found) == expected[-count:]
        assert found["more"] is (count < len(expected))

    def test_finding_j11_a_tail_holds_a_line_of_several_chunks_whole(self, api, tasks):
        first = tasks[0]
        for offset, data, times in ((0, b"one\ntw", [1, 2]), (6, b"o", [2]), (7, b"\nend", [2, 3])):
            store(timed(first, offset, data, times), attempt=first)
        assert "".join(c["text"] for c in page(api, first, tail=2)["chunks"]) == "two\nend"
        assert "".join(c["text"] for c in page(api, first, tail=1)["chunks"]) == "end"

    def test_times_are_reported_only_to_who_asks(self, api, tasks):
        write_mixed(tasks)
        answer = api.get(f"/jobs/{tasks[0].job_id}/logs").json()
        assert {tuple(chunk["line_times"]) for chunk in answer["chunks"]} == {()}

    def test_lines_of_an_older_agent_have_the_time_of_their_chunk(self, api, tasks):
        first, second = tasks
        old = frame(first, 0, b"x\ny\n")
        store(LogFrame(old.attempt_id, old.stream, 0, at(20) / 1e9, old.data, ()), attempt=first)
        store(timed(second, 0, b"b1\nb3\n", [15, 35]), attempt=second)
        assert [line for _, line in lines(page(api, first))] == ["b1", "x", "y", "b3"]
        assert LogChunk.objects.filter(attempt=first, times_size=0).count() == 1

    def test_frames_sent_again_and_gaps_keep_the_times_with_their_lines(self, api, tasks):
        first = tasks[0]
        whole = timed(first, 0, b"one\ntwo\nthree\n", [1, 2, 3])
        store(whole.after(6), attempt=first)  # a gap: not stored
        store(timed(first, 0, b"one\ntw", [1, 2]), attempt=first)
        store(whole, whole.after(4), attempt=first)
        found = page(api, first)
        assert [line for line in lines(found) if line[0] != 2] == [(1, "one"), (3, "three")]
        assert "".join(chunk["text"] for chunk in found["chunks"]) == "one\ntwo\nthree\n"

    @pytest.mark.parametrize("wild", [-(2**63), -1, 0, 2**62])
    def test_a_clock_that_makes_no_sense_is_not_believed(self, api, tasks, wild):
        first = tasks[0]
        made = LogFrame(str(first.pk), "stdout", 0, 1.0, b"x\ny\n", [wild, wild])
        store(LogFrame.decode(made.encode()), attempt=first)
        years = {datetime.fromisoformat(c["at"]).year for c in page(api, first)["chunks"]}
        assert all(2020 < year < 2100 for year in years)


@pytest.mark.django_db(transaction=True)
class TestDownload:
    def test_finding_j11_a_download_is_ordered_by_time(self, api, tasks):
        expected = write_mixed(tasks)
        text = download(api, tasks[0], prefix="false").decode()
        assert text.splitlines() == [line for _, line in expected]

    def test_finding_j11_each_line_is_downloaded_with_its_own_time(self, api, tasks):
        expected = write_mixed(tasks)
        stamped = download(api, tasks[0], timestamps="true", prefix="false").decode().splitlines()
        assert stamped == [
            f"{BEGIN + timedelta(milliseconds=ms):%Y-%m-%dT%H:%M:%S.%fZ} {line}"
            for ms, line in expected
        ]
        objects = [
            json.loads(line) for line in download(api, tasks[0], **{"as": "jsonl"}).splitlines()
        ]
        assert [found["text"] for found in objects] == [line for _, line in expected]
        assert [found["stream"] for found in objects][:2] == ["stdout", "stderr"]
        assert [found["at"] for found in objects] == [line.split()[0] for line in stamped]

    def test_bytes_of_a_stream_are_what_was_written(self, api, tasks):
        write_mixed(tasks)
        answer = api.get(f"/attempts/{tasks[0].pk}/logs/stdout", raw=1)
        assert content(answer) == b"a0\na2\na4\na6\n"


def test_finding_j11_a_found_line_has_its_own_time(api, tasks):
    write_mixed(tasks)
    found = api.get(f"/jobs/{tasks[0].job_id}/logs/search", q="a4").json()["matches"]
    assert [datetime.fromisoformat(match["at"]) for match in found] == [
        BEGIN + timedelta(milliseconds=40)
    ]
