"""Metrics that jobs write into their logs: reading them on, storing and showing them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.gateway_rows import frame, running_attempt, write
from tests.support.jobs_world import submit
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_platform.core.models import Event
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import JobState
from skep_platform.telemetry import retention, runs, user_metrics, user_metrics_api
from skep_platform.telemetry.metric_lines import MAX_POINTS
from skep_platform.telemetry.models import LogChunk, MetricLog, UserMetric
from skep_platform.telemetry.services import append_logs

pytestmark = pytest.mark.django_db


def measuring(metrics: Any = True, **fields: object) -> TaskAttempt:
    """A running attempt of a job that asks for metrics."""
    attempt = running_attempt(started_at=timezone.now(), **fields)
    ask(attempt.job, metrics)
    return attempt


def ask(job: Job, metrics: Any = True) -> None:
    job.spec = {"extras": {"skep": {"metrics": metrics}}}
    job.metrics_rank = 0
    job.save()


def again(attempt: TaskAttempt) -> TaskAttempt:
    """The next attempt of the job, after the end of this one."""
    end(attempt)
    job = attempt.job
    Job.objects.filter(pk=job.pk).update(attempt=job.attempt + 1)
    job.refresh_from_db()
    return place(job, [], node=attempt.node, state="RUNNING", started_at=timezone.now())


def end(attempt: TaskAttempt) -> None:
    for stream in ("stdout", "stderr"):
        chunks = LogChunk.objects.filter(attempt=attempt, stream=stream)
        size = sum(chunks.values_list("size", flat=True))
        append_logs(attempt.node_id, [frame(attempt, size, b"", stream)])
    attempt.refresh_from_db()
    release(attempt)


def read_on() -> int:
    """Read as if the time had come for every log."""
    MetricLog.objects.exclude(due_at=None).update(due_at=Now())
    return user_metrics.read_due()


def values(attempt: TaskAttempt, name: str = "loss") -> list[float]:
    metric = UserMetric.objects.filter(attempt=attempt, name=name).first()
    return metric.values if metric else []


def shown(job: Job, **query: Any) -> Any:
    answer = Api(job.owner).get(f"/jobs/{job.pk}/metrics/user", **query)
    assert answer.status_code == 200, answer.json()
    return answer.json()


class TestReading:
    def test_points_come_as_the_log_grows_and_each_once(self):
        attempt = measuring()
        write(attempt, b"hello\n::skep-metric loss=3 step=10\n")
        assert read_on() == 1
        write(attempt, b"::skep-metric lo")
        assert read_on() == 0
        write(attempt, b"ss=2 step=20\n")
        write(attempt, b"::skep-metric loss=1 step=30\n", "stderr")
        assert read_on() == 2
        assert read_on() == 0
        (found,) = shown(attempt.job)["attempts"]
        (metric,) = found["metrics"]
        assert [(step, value) for step, _, value in metric["points"]] == [(10, 3), (20, 2), (30, 1)]
        assert all(time == 1_790_000_000.0 for _, time, _ in metric["points"])
        assert (metric["count"], metric["last"], metric["low"], metric["high"]) == (3, 1, 1, 3)
        assert found["attempt"] == 1
        assert found["reading"] is True

    def test_patterns_of_the_job_file_are_looked_for(self):
        asked = ["loss", {"name": "top", "pattern": "top1 ([0-9.]+)"}]
        attempt = measuring(asked)
        write(attempt, b"step 4: loss=0.5, top1 76\n::skep-metric lr=0.1 step=4\n")
        read_on()
        stored = UserMetric.objects.order_by("name").values_list("name", "steps", "values")
        assert list(stored) == [
            ("loss", [4.0], [0.5]),
            ("lr", [4.0], [0.1]),
            ("top", [4.0], [76.0]),
        ]

    def test_jobs_that_ask_for_none_are_not_read(self):
        write(running_attempt(started_at=timezone.now()), b"::skep-metric loss=1\n")
        assert read_on() == 0
        assert not MetricLog.objects.exists()

    def test_only_the_task_of_the_rank_is_read(self):
        node, owner = make_node(), make_user()
        job = make_job(make_vc(), owner, tasks=2, gpus=0, state=JobState.RUNNING, attempt=1)
        ask(job)
        now = timezone.now()
        first, second = (place(job, [], node=node, rank=n, started_at=now) for n in (0, 1))
        for attempt in (first, second):
            write(attempt, b"::skep-metric loss=1\n")
        assert read_on() == 1
        assert values(first) == [1.0]

    def test_the_rest_is_read_after_the_end_and_then_nothing_more(self):
        attempt = measuring()
        write(attempt, b"::skep-metric loss=1\n::skep-metric loss=2")
        read_on()
        assert values(attempt) == [1.0]
        end(attempt)
        long_ago = timezone.now() - timedelta(hours=1)
        Job.objects.update(state=JobState.SUCCEEDED, finished_at=long_ago)
        read_on()
        assert values(attempt) == [1.0, 2.0]
        assert MetricLog.objects.get().due_at is None
        assert Job.objects.get().metrics_rank is None
        assert shown(attempt.job)["attempts"][0]["reading"] is False

    def test_a_job_that_was_over_before_it_was_looked_at_is_read(self):
        attempt = measuring()
        write(attempt, b"::skep-metric loss=1\n")
        end(attempt)
        long_ago = timezone.now() - timedelta(hours=1)
        Job.objects.update(state=JobState.FAILED, finished_at=long_ago, started_at=None)
        read_on()
        assert values(attempt) == [1.0]
        assert Job.objects.get().metrics_rank is None

    def test_each_attempt_has_its_own_series(self):
        first = measuring()
        write(first, b"::skep-metric loss=4 step=1\n")
        second = again(first)
        write(second, b"::skep-metric loss=3 step=2\n")
        read_on()
        found = shown(first.job)["attempts"]
        assert [(one["attempt"], one["metrics"][0]["last"]) for one in found] == [(1, 4), (2, 3)]

    def test_two_workers_store_a_point_once(self, monkeypatch):
        attempt = measuring()
        write(attempt, b"::skep-metric loss=1\n")
        read_on()
        write(attempt, b"::skep-metric loss=2\n")
        store = user_metrics._store

        def slow(*read):
            monkeypatch.setattr(user_metrics, "_store", store)
            read_on()  # by another worker, while this one was away for longer than its claim
            return store(*read)

        monkeypatch.setattr(user_metrics, "_store", slow)
        read_on()
        assert values(attempt) == [1.0, 2.0]

    def test_a_long_log_is_read_in_parts(self, monkeypatch):
        monkeypatch.setattr(user_metrics, "MAX_BYTES", 100)
        attempt = measuring()
        for number in range(30):
            write(attempt, b"::skep-metric loss=%d\n" % number)
        end(attempt)
        read_on()
        assert values(attempt) == [float(n) for n in range(30)]

    def test_a_log_that_did_not_grow_is_not_read_again(self, monkeypatch):
        read_lines, chunks = user_metrics.read_lines, []

        def counted(chunk):
            chunks.append(chunk)
            return read_lines(chunk)

        monkeypatch.setattr(user_metrics, "read_lines", counted)
        attempt = measuring()
        write(attempt, b"::skep-metric loss=1\n::skep-metric loss=")
        for _ in range(3):
            read_on()
        assert len(chunks) == 1
        write(attempt, b"2")
        read_on()
        assert values(attempt) == [1.0]
        end(attempt)
        read_on()
        assert values(attempt) == [1.0, 2.0]

    def test_reading_goes_on_behind_a_hole_in_the_log(self):
        attempt = measuring()
        for part in (
            b"::skep-metric loss=1\n::skep-metric loss=2",
            b"5\n",
            b"::skep-metric loss=3\n",
        ):
            write(attempt, part)
        middle = LogChunk.objects.filter(attempt=attempt).order_by("offset")[1]
        middle.delete()
        assert read_on() == 2
        assert values(attempt) == [1.0, 3.0]

    def test_a_line_in_many_chunks_does_not_hold_up_the_next_ones(self, monkeypatch):
        monkeypatch.setattr(user_metrics, "MAX_CHUNKS", 3)
        attempt = measuring()
        for part in (*[b"."] * 7, b"\n", b"::skep-metric loss=1\n"):
            write(attempt, part)
        assert read_on() == 1
        assert values(attempt) == [1.0]

    def test_a_log_that_cannot_be_read_holds_up_no_other_and_is_given_up(self):
        broken, whole = measuring(), measuring()
        for attempt in (broken, whole):
            write(attempt, b"::skep-metric loss=1\n")
            end(attempt)
        LogChunk.objects.filter(attempt=broken).update(key="../outside")
        read_on()
        assert values(whole) == [1.0]
        over = timezone.now() - timedelta(hours=1)
        Job.objects.update(state=JobState.SUCCEEDED, finished_at=over)
        read_on()
        assert MetricLog.objects.get(attempt=broken).due_at is not None
        long_ago = timezone.now() - user_metrics.GIVE_UP - timedelta(hours=1)
        Job.objects.update(finished_at=long_ago)
        MetricLog.objects.update(at=long_ago)
        read_on()
        assert not MetricLog.objects.exclude(due_at=None).exists()
        assert not Job.objects.exclude(metrics_rank=None).exists()

    def test_a_flood_is_thinned_and_its_ends_are_known(self):
        attempt = measuring()
        count = 2 * MAX_POINTS + 100
        for first in range(0, count, 500):
            numbers = range(first, min(first + 500, count))
            write(attempt, b"".join(b"::skep-metric loss=%d\n" % n for n in numbers))
        read_on()
        metric = UserMetric.objects.get()
        assert len(metric.values) <= MAX_POINTS
        assert (metric.count, metric.stride) == (count, 4)
        (found,) = shown(attempt.job, points=10)["attempts"][0]["metrics"]
        assert len(found["points"]) == 10
        assert (found["points"][0][0], found["points"][-1][0]) == (0, count - 1)
        assert found["kept_each"] == 4

    def test_what_is_dropped_is_counted_and_said(self):
        attempt = measuring()
        write(attempt, b"::skep-metric Loss=1 loss=x\n::skep-metric Loss=1\n")
        read_on()
        (found,) = shown(attempt.job)["attempts"]
        assert [(one["reason"], one["count"]) for one in found["dropped"]] == [
            ("name", 2),
            ("number", 1),
        ]
        assert found["dropped"][0]["message"].startswith("2 more numbers were dropped because")

    def test_a_loss_that_is_no_number_is_an_event_once(self):
        attempt = measuring()
        for _ in range(2):
            write(attempt, b"::skep-metric loss=nan step=7\n")
            read_on()
        (event,) = Event.objects.filter(kind="job.metric_not_finite")
        assert "loss" in event.message
        assert "step 7" in event.message
        (metric,) = shown(attempt.job)["attempts"][0]["metrics"]
        assert (metric["not_finite"], metric["not_finite_step"], metric["points"]) == (2, 7, [])

    def test_no_query_for_each_log(self):
        def reading(attempts: int) -> int:
            for _ in range(attempts):
                write(measuring(["loss"]), b"loss=1\n::skep-metric a=1 b=2\n")
            with CaptureQueriesContext(
                connection,
            ) as queries:
                assert read_on() == 3 * attempts
            return len(queries)

        assert reading(1) == reading(5)

    def test_a_submitted_job_is_marked_by_its_file(self):
        owner = make_user()
        vc = make_vc(quotas={"A100": 8}, members=[owner])
        make_node()
        roles = {"ps": {"instances": 2, "gpus": 0}, "worker": {"gpus": 0}}
        skep = {"metrics": ["loss"], "metricsRole": "worker"}
        assert submit(owner, vc, roles=roles, skep=skep).metrics_rank == 2
        assert submit(owner, vc, gpus=0).metrics_rank is None


class TestRetention:
    def test_old_metrics_go_with_the_samples(self, settings):
        old, fresh = measuring(), measuring()
        for attempt in (old, fresh):
            write(attempt, b"::skep-metric loss=1\n")
            end(attempt)
        read_on()
        days = settings.SKEP_METRIC_RETENTION_DAYS = 30
        Job.objects.update(metrics_rank=None)
        before = timezone.now() - timedelta(days=days + 1)
        for model in (UserMetric, MetricLog):
            model.objects.filter(attempt=old).update(at=before)
        assert retention.delete_old_rollups() == 2
        assert [one.attempt_id for one in UserMetric.objects.all()] == [fresh.pk]
        assert [one.attempt_id for one in MetricLog.objects.all()] == [fresh.pk]

    def test_a_job_that_goes_on_keeps_them(self, settings):
        settings.SKEP_METRIC_RETENTION_DAYS = 30
        first = measuring()
        write(first, b"::skep-metric loss=1\n")
        again(first)
        read_on()
        long_ago = timezone.now() - timedelta(days=90)
        for model in (UserMetric, MetricLog):
            model.objects.update(at=long_ago)
        assert retention.delete_old_rollups() == 0


class TestComparing:
    @pytest.fixture
    def owner(self):
        return make_user()

    @pytest.fixture
    def vc(self, owner):
        return make_vc("vision", members=[owner])

    def run(self, vc: Any, owner: Any, log: bytes, **fields: Any) -> Job:
        skep = {"metrics": True}
        parameters = fields.pop("parameters", {})
        command = fields.pop("command", "true")
        job = make_job(vc, owner, gpus=0, state=JobState.RUNNING, attempt=1, **fields)
        job.spec = {
            "parameters": parameters,
            "taskRoles": {"worker": {"commands": [command]}},
            "extras": {"skep": skep},
        }
        job.metrics_rank = 0
        job.save()
        attempt = place(job, [], node=make_node(gpus=0), started_at=timezone.now())
        write(attempt, log)
        return job

    def compared(self, user: Any, **query: Any) -> Any:
        answer = Api(user).get("/jobs/compare", **query)
        assert answer.status_code == 200, answer.json()
        return answer.json()

    def test_jobs_of_a_tag_with_the_parameters_that_differ(self, vc, owner):
        runs = [
            self.run(
                vc,
                owner,
                b"::skep-metric loss=%d step=1\n" % n,
                tags=["lr"],
                parameters={"seed": 1, "lr": n},
                command=f"python train.py --depth {n} --width=8 --verbose",
                environment={"MODE": f"m{n}"},
            )
            for n in (1, 2)
        ]
        self.run(vc, owner, b"::skep-metric loss=9\n", tags=["other"])
        make_job(vc, owner, tags=["lr"])  # has no metrics
        read_on()
        found = self.compared(owner, tag="lr")
        assert [one["id"] for one in found["runs"]] == [str(job.pk) for job in reversed(runs)]
        assert found["more"] is False
        newest = found["runs"][0]
        assert newest["parameters"] == {"lr": "2", "--depth": "2", "$MODE": "m2"}
        (metric,) = newest["metrics"]
        assert (metric["name"], metric["last"], metric["points"][0][0]) == ("loss", 2, 1)

    def test_a_later_attempt_goes_on_from_its_checkpoint(self, vc, owner):
        job = self.run(vc, owner, b"".join(b"::skep-metric a=1 step=%d\n" % n for n in range(6)))
        first = TaskAttempt.objects.get(job=job)
        second = again(first)
        write(second, b"::skep-metric a=2 step=4\n::skep-metric a=2 step=5\n")
        read_on()
        (run,) = self.compared(owner, jobs=str(job.pk))["runs"]
        (metric,) = run["metrics"]
        steps = [(step, value) for step, _, value in metric["points"]]
        assert steps == [(0, 1), (1, 1), (2, 1), (3, 1), (4, 2), (5, 2)]

    def test_of_a_job_with_many_attempts_the_last_ones(self, vc, owner, monkeypatch):
        monkeypatch.setattr(runs, "MOST_ATTEMPTS", 2)
        job = self.run(vc, owner, b"::skep-metric a=0 b=0 step=0\n")
        attempt = TaskAttempt.objects.get(job=job)
        for n in range(1, 4):
            attempt = again(attempt)
            write(attempt, b"::skep-metric a=%d b=0 step=%d\n" % (n, n))
        read_on()
        (run,) = self.compared(owner, jobs=str(job.pk))["runs"]
        assert [metric["name"] for metric in run["metrics"]] == ["a", "b"]
        assert [value for _, _, value in run["metrics"][0]["points"]] == [2, 3]

    def test_many_series_of_one_job_take_none_from_another(self, vc, owner, monkeypatch):
        monkeypatch.setattr(runs, "MOST_SERIES", 4)
        few = self.run(vc, owner, b"::skep-metric a=1\n", tags=["s"])
        many = self.run(vc, owner, b"::skep-metric a=1 b=2 c=3 d=4\n", tags=["s"])
        again_of = again(TaskAttempt.objects.get(job=many))
        write(again_of, b"::skep-metric a=1 b=2 c=3 d=4\n")
        read_on()
        shown = {run["id"]: run["metrics"] for run in self.compared(owner, tag="s")["runs"]}
        assert [metric["name"] for metric in shown[str(many.pk)]] == ["a", "b"]
        assert [metric["name"] for metric in shown[str(few.pk)]] == ["a"]

    def test_points_of_attempts_that_are_thinned_keep_their_order_and_ends(self, vc, owner):
        lines = [b"::skep-metric a=%d step=%d\n" % (n, n) for n in range(40)]
        job = self.run(vc, owner, b"".join(lines))
        second = again(TaskAttempt.objects.get(job=job))
        write(second, b"".join(lines[20:]))
        read_on()
        (run,) = self.compared(owner, jobs=str(job.pk), points=10)["runs"]
        steps = [step for step, *_ in run["metrics"][0]["points"]]
        assert len(steps) == 10
        assert steps == sorted(set(steps))
        assert (steps[0], steps[-1]) == (0, 39)

    def test_only_jobs_that_one_may_see(self, vc, owner):
        job = self.run(vc, owner, b"::skep-metric loss=1\n", tags=["x"])
        read_on()
        stranger = make_user()
        assert self.compared(stranger, jobs=str(job.pk))["runs"] == []
        assert self.compared(stranger, tag="x")["runs"] == []

    def test_values_of_credentials_are_not_shown(self, vc, owner):
        secret = "https://me:hunter2@host/x"
        for url in (secret, "https://host/y"):
            self.run(vc, owner, b"::skep-metric a=1\n", tags=["t"], parameters={"url": url})
        read_on()
        assert "hunter2" not in str(self.compared(owner, tag="t"))

    def test_what_cannot_be_compared_is_refused(self, owner):
        api = Api(owner)
        assert refusal(api.get("/jobs/compare")) == (400, "nothing_to_compare")
        many = ",".join(f"00000000-0000-7000-8000-0000000000{n:02d}" for n in range(21))
        assert refusal(api.get("/jobs/compare", jobs=many)) == (400, "too_many_runs")
        assert refusal(api.get("/jobs/compare", jobs="x")) == (400, "invalid")

    def test_answers_of_many_series_are_limited(self, vc, owner, monkeypatch):
        monkeypatch.setattr(user_metrics_api.Comparisons, "most", 1)
        job = self.run(vc, owner, b"::skep-metric a=1\n")
        api = Api(owner)
        assert api.get(f"/jobs/{job.pk}/metrics/user").status_code == 200
        assert api.get(f"/jobs/{job.pk}/metrics/user").status_code == 429
        assert api.get("/jobs/compare", jobs=str(job.pk)).status_code == 429

    def test_no_query_for_each_run(self, vc, owner):
        def asked(runs: int) -> int:
            for _n in range(runs):
                self.run(vc, owner, b"::skep-metric a=1 b=2\n", tags=[f"t{runs}"])
            read_on()
            with CaptureQueriesContext(connection) as queries:
                assert len(self.compared(owner, tag=f"t{runs}")["runs"]) == runs
            return len(queries)

        assert asked(1) == asked(4)
