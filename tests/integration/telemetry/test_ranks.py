"""The tasks of a job attempt side by side: use, last lines, and what the attempt used in all."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.gateway_rows import write
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place, release

from skep_platform.accounts.models import User
from skep_platform.jobs.models import Job, JobAttempt, TaskAttempt
from skep_platform.telemetry import ranks
from skep_platform.telemetry.models import GpuRollup
from skep_platform.telemetry.ranks import _lines

pytestmark = pytest.mark.django_db


def gang(tasks: int) -> list[TaskAttempt]:
    """A job of so many tasks with a GPU each, on one node."""
    owner = make_user()
    job = make_job(make_vc(members=[owner]), owner, tasks=tasks, state="RUNNING", attempt=1)
    devices = list(make_node(gpus=tasks).devices.order_by("index"))
    Job.objects.filter(pk=job.pk).update(placed_at=timezone.now(), started_at=timezone.now())
    return [place(job, [device], rank=rank) for rank, device in enumerate(devices)]


def measure(attempt: TaskAttempt, percent: float, *, minutes_ago: int, memory_mb: int = 10) -> None:
    GpuRollup.objects.create(
        device_id=attempt.gpu_uuids[0],
        attempt=attempt,
        at=timezone.now() - timedelta(minutes=minutes_ago),
        seconds=60,
        samples=10,
        utilization_sum=10 * percent,
        utilization_max=percent,
        memory_used_mb_max=memory_mb,
    )


def get(task: TaskAttempt, path: str, **query: Any) -> Any:
    answer = Api(task.job.owner).get(f"/jobs/{task.job_id}/{path}", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_each_rank_has_its_use_over_all_and_of_late():
    fast, slow = gang(2)
    for one, old, new in ((fast, 90.0, 90.0), (slow, 90.0, 10.0)):
        measure(one, old, minutes_ago=30, memory_mb=500)
        measure(one, new, minutes_ago=2)
    found = get(fast, "ranks")
    assert (found["attempt"], found["total"]) == (1, 2)
    assert [one["rank"] for one in found["ranks"]] == [0, 1]
    assert [one["gpu_utilization"] for one in found["ranks"]] == [90.0, 50.0]
    assert [one["gpu_utilization_recent"] for one in found["ranks"]] == [90.0, 10.0]
    assert found["ranks"][0]["gpu_memory_peak_mb"] == 500
    assert found["ranks"][0]["cpu_percent"] is None
    assert found["ranks"][1]["node"] == slow.node.name


def test_ranks_are_read_from_a_first_one_on():
    first, *_ = gang(3)
    assert [one["rank"] for one in get(first, "ranks", first=2)["ranks"]] == [2]
    assert get(first, "ranks", attempt=7)["ranks"] == []


def test_the_last_lines_of_16_ranks_are_shown():
    attempts = gang(18)
    for attempt in attempts:
        write(attempt, b"".join(b"step %d\n" % n for n in range(30)))
    write(attempts[3], b"oops\n", "stderr")
    found = get(attempts[0], "log-tails", lines=3)
    assert [one["rank"] for one in found["ranks"]] == list(range(16))
    assert found["ranks"][0]["lines"] == ["step 27", "step 28", "step 29"]
    assert found["ranks"][3]["lines"] == ["step 28", "step 29", "oops"]
    rest = get(attempts[0], "log-tails", first=16)
    assert [one["rank"] for one in rest["ranks"]] == [16, 17]


def test_long_lines_and_progress_bars_are_cut():
    (attempt,) = gang(1)
    write(attempt, b"10%\r20%\r30%\n" + b"x" * 100_000 + b"\nend\n")
    lines = get(attempt, "log-tails")["ranks"][0]["lines"]
    assert (len(lines[-2]), lines[-1]) == (500, "end")
    write(attempt, b"1%\r2%\r3%\n")
    assert get(attempt, "log-tails", lines=1)["ranks"][0]["lines"] == ["3%"]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"1%\r2%\r", ["2%"]),
        (b"1%\r\n2%\r\n", ["1%", "2%"]),
        ("a\u2028b\x0bc\n\nd".encode(), ["a\u2028b\x0bc", "", "d"]),
        (b"", []),
    ],
)
def test_a_line_ends_at_its_newline_and_shows_its_last_state(text, lines):
    assert _lines([text], 8) == lines


@pytest.mark.parametrize("path", ["ranks", "log-tails"])
def test_more_ranks_take_as_many_queries(path):
    def queries(attempt: TaskAttempt) -> int:
        with CaptureQueriesContext(connection) as captured:
            get(attempt, path)
        return len(captured)

    one, many = gang(1), gang(12)
    for attempt in [*one, *many]:
        write(attempt, b"a line\n")
    assert queries(one[0]) == queries(many[0]) <= 7


def test_an_attempt_has_its_nodes_its_ends_and_what_it_used():
    first, second = gang(2)
    measure(first, 80.0, minutes_ago=3, memory_mb=700)
    measure(second, 40.0, minutes_ago=3)
    now = timezone.now()
    release(first, "FAILED")
    TaskAttempt.objects.filter(pk=first.pk).update(exit_code=3)
    of_both = TaskAttempt.objects.filter(job=first.job)
    of_both.update(created_at=now - timedelta(hours=2), released_at=now)
    JobAttempt.objects.create(
        job=first.job,
        index=1,
        outcome="FAILED",
        placed_at=now,
        finished_at=now,
        reason={"code": "failed", "message": "worker-0 failed.", "details": {}},
    )
    found = get(first, "attempts/1")
    assert (found["index"], found["outcome"]) == (1, "FAILED")
    assert found["nodes"] == [{"name": first.node.name, "tasks": 2}]
    assert (found["gpu_utilization"], found["gpu_memory_peak_mb"]) == (60.0, 700)
    assert found["gpu_hours"] == pytest.approx(4.0, abs=0.01)
    ends = {(end["state"], end["exit_code"], end["tasks"]) for end in found["ends"]}
    assert ends == {("FAILED", 3, 1), ("ASSIGNED", None, 1)}
    assert found["reason"]["message"] == "worker-0 failed."


@pytest.mark.parametrize("path", ["ranks", "attempts/1"])
def test_the_use_is_summed_once_for_all_who_look(path):
    def rollups_read(user: User) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert Api(user).get(f"/jobs/{attempt.job_id}/{path}").status_code == 200
        return sum("rollup" in query["sql"] for query in captured)

    (attempt,) = gang(1)
    measure(attempt, 80.0, minutes_ago=3)
    assert rollups_read(attempt.job.owner) > 0
    first = get(attempt, path)
    measure(attempt, 20.0, minutes_ago=2)
    assert rollups_read(make_user(admin=True)) == 0
    assert get(attempt, path) == first
    refused = Api(make_user()).get(f"/jobs/{attempt.job_id}/{path}")
    assert refusal(refused) == (404, "not_found")


@pytest.mark.parametrize("path", ["ranks", "attempts/1"])
def test_what_is_over_is_kept_for_longer(path, monkeypatch):
    monkeypatch.setattr(ranks, "KEEP_S", 0)  # nothing is kept

    def use() -> float:
        found = get(attempt, path)
        return (found["ranks"][0] if path == "ranks" else found)["gpu_utilization"]

    (attempt,) = gang(1)
    measure(attempt, 80.0, minutes_ago=30)
    assert use() == 80.0
    measure(attempt, 40.0, minutes_ago=29)
    assert use() == 60.0, "it runs: summed again"
    release(attempt, "FAILED")
    Job.objects.filter(pk=attempt.job_id).update(state="FAILED", finished_at=timezone.now())
    measure(attempt, 30.0, minutes_ago=28)
    assert use() == 50.0, "the last minutes may be on their way"
    over = timezone.now() - timedelta(minutes=11)
    TaskAttempt.objects.filter(pk=attempt.pk).update(released_at=over)
    assert use() == 50.0
    measure(attempt, 0.0, minutes_ago=27)
    assert use() == 50.0, "kept"


def test_a_task_that_is_tried_again_is_summed_at_once():
    (attempt,) = gang(1)
    measure(attempt, 80.0, minutes_ago=3)
    assert get(attempt, "ranks")["ranks"][0]["gpu_utilization"] == 80.0
    release(attempt, "FAILED")
    again = TaskAttempt.objects.get(pk=attempt.pk)
    again.pk, again.retry, again._state.adding = uuid4(), 1, True
    again.released_at, again.state = None, "RUNNING"
    again.save()
    measure(again, 20.0, minutes_ago=1)
    assert get(attempt, "ranks")["ranks"][0]["gpu_utilization"] == 20.0


def test_the_present_attempt_is_one_too_and_others_are_not_there():
    (attempt,) = gang(1)
    assert get(attempt, "attempts/1")["outcome"] == ""
    api = Api(attempt.job.owner)
    assert refusal(api.get(f"/jobs/{attempt.job_id}/attempts/2")) == (404, "not_found")
