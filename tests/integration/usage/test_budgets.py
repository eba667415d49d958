"""Budgets: warned of at 80 %, and then jobs start only as opportunistic ones, until next month."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.jobs_world import attempts_of, job_file, placed, report, submit, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc

from skep_platform.audit.models import AuditEntry
from skep_platform.core.models import Event
from skep_platform.jobs import services
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.scheduling.source import StateSource
from skep_platform.scheduling.tick import Scheduler, run_once
from skep_platform.usage import budgets, tasks
from skep_platform.usage.models import Budget, UsageDay

pytestmark = pytest.mark.django_db

HOUR_US = 3600 * 1_000_000
NOW = timezone.now()
MONTH = budgets.month_of(NOW)
NEXT = budgets.next_month(MONTH)
NEXT_NOW = datetime(NEXT.year, NEXT.month, 1, 0, 0, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _this_month(monkeypatch):
    """It may have begun since this file was imported."""
    now = timezone.now()
    month = budgets.month_of(now)
    following = budgets.next_month(month)
    begins = datetime(following.year, following.month, 1, 0, 0, 1, tzinfo=UTC)
    found = {"NOW": now, "MONTH": month, "NEXT": following, "NEXT_NOW": begins}
    for name, value in found.items():
        monkeypatch.setitem(globals(), name, value)


@pytest.fixture
def vc(alice):
    """It owns half of a node of four GPUs."""
    make_node("gpu-1", gpus=4)
    return make_vc("red", quotas={"A100": 2}, members=[alice])


@pytest.fixture
def scheduler():
    return Scheduler()


def use(vc, hours: float, *, day=None, own: bool = True) -> None:
    job = make_job(vc, vc.memberships.all()[0].user, state="SUCCEEDED")
    us = int(hours * HOUR_US)
    UsageDay.objects.create(
        day=day or MONTH, job=job, user=job.owner, vc=vc, gpu_model="A100", guaranteed=own,
        allocated_us=us,
    )  # fmt: skip


def kinds(vc) -> list[str]:
    rows = Event.objects.filter(subject_type="vc", subject_id=str(vc.pk), kind__startswith="budget")
    return list(rows.order_by("id").values_list("kind", flat=True))


def now(job: Job) -> Job:
    return Job.objects.get(pk=job.pk)


def assert_world_is_caught_up(scheduler: Scheduler) -> None:
    caught_up = scheduler.source.catch_up()
    assert caught_up.digest() == StateSource().catch_up().digest()
    caught_up.validate()


class TestWarning:
    def test_an_event_at_80_percent_once_a_month_and_one_when_all_is_used(self, vc):
        budgets.set_budget(None, vc, 100)
        use(vc, 79.9)
        budgets.refresh()
        assert (budgets.status(vc).state, kinds(vc)) == ("ok", ["budget.changed"])
        use(vc, 0.1)
        budgets.refresh()
        budgets.refresh()
        status = budgets.status(vc)
        assert (status.state, status.percent) == ("warning", 80.0)
        assert "80 % of the GPU-hour budget of red" in status.message
        assert kinds(vc)[1:] == ["budget.warning"]
        use(vc, 30)
        assert budgets.refresh() == 1
        budgets.refresh()
        assert budgets.status(vc).state == "used_up"
        assert kinds(vc)[2:] == ["budget.used_up"]

    def test_only_guaranteed_hours_of_this_month_count(self, vc):
        budgets.set_budget(None, vc, 10)
        use(vc, 50, own=False)
        use(vc, 50, day=NEXT)
        use(vc, 50, day=MONTH.replace(year=MONTH.year - 1))
        budgets.refresh()
        assert budgets.status(vc).used_us == 0

    def test_a_round_costs_the_same_however_many_jobs_and_budgets(self, vc):
        def queries() -> int:
            use(vc, 1)
            with CaptureQueriesContext(connection) as captured:
                budgets.refresh()
            return len(captured)

        budgets.set_budget(None, vc, 1000)
        one = queries()
        for _ in range(3):
            other = make_vc(members=[make_user()])
            budgets.set_budget(None, other, 10)
            use(other, 1)
        use(vc, 5)
        assert queries() == one

    def test_a_budget_of_zero_is_used_up_from_the_start_of_each_month(self, vc):
        budgets.set_budget(None, vc, 0)
        assert (budgets.status(vc).state, budgets.status(vc).percent) == ("used_up", 100)
        assert "(0 of 0 h): its jobs start only as opportunistic" in budgets.status(vc).message
        assert budgets.refresh(NEXT_NOW) == 0
        assert Budget.objects.get().used_up
        assert kinds(vc) == ["budget.changed", "budget.used_up"]

    def test_a_month_ends_in_december_too(self):
        assert str(budgets.next_month(datetime(2026, 12, 1, tzinfo=UTC).date())) == "2027-01-01"


class TestUsedUp:
    @pytest.fixture(autouse=True)
    def used_up(self, vc):
        budgets.set_budget(None, vc, 1000)
        use(vc, 1000)

    def sentence(self) -> str:
        return (
            f"The GPU-hour budget of red for {MONTH:%B} is used up (1,000 of 1,000 h); the job "
            f"runs only as opportunistic until 1 {NEXT:%B}."
        )

    def test_a_new_job_starts_only_as_opportunistic_and_says_why(self, alice, vc, scheduler):
        budgets.refresh()
        job = submit(alice, vc)
        assert run_once(scheduler) == {str(job.pk)}
        assert now(job).downgraded["code"] == "budget_used_up"
        assert now(job).downgraded["message"] == self.sentence()
        assert [a.cell_type for a in attempts_of(job)] == [""]
        assert_world_is_caught_up(scheduler)
        run_once(scheduler)
        assert now(job).downgraded is not None  # it is not restored while the budget is used up

    def test_a_waiting_job_loses_its_guarantee_and_says_why(self, alice, vc, scheduler):
        stranger = make_vc("blue", members=[alice])
        holder = submit(alice, stranger, gpus=4, priority="oppo")
        run_once(scheduler)
        assert attempts_of(holder)
        budgets.refresh()
        job = submit(alice, vc)
        assert run_once(scheduler) == set()  # it would have preempted the holder
        reason = now(job).wait_reason
        assert reason["message"].startswith(self.sentence())
        assert now(holder).preempting_at is None
        shown = Api(alice).get(f"/jobs/{job.pk}").json()
        assert shown["wait_reason"]["message"].startswith(self.sentence())

    def test_what_waits_when_the_budget_runs_out_follows_at_once(self, alice, vc, scheduler):
        first, second = submit(alice, vc, gpus=2), submit(alice, vc, gpus=2)
        assert run_once(scheduler) == {str(first.pk)}
        assert now(second).wait_reason["code"] == "vc_busy"
        budgets.refresh()
        assert run_once(scheduler) == {str(second.pk)}  # on GPUs that red does not own
        assert now(second).downgraded["code"] == "budget_used_up"
        assert_world_is_caught_up(scheduler)

    def test_what_runs_goes_on_with_its_guarantee(self, alice, vc, scheduler):
        job = submit(alice, vc)
        run_once(scheduler)
        report(attempts_of(job), "running")
        budgets.refresh()
        run_once(scheduler)
        assert (now(job).state, now(job).downgraded) == ("RUNNING", None)
        assert now(job).preempting_at is None

    def test_jobs_without_gpus_and_opportunistic_ones_are_as_before(self, alice, vc, scheduler):
        budgets.refresh()
        plain, oppo = submit(alice, vc, gpus=0), submit(alice, vc, priority="oppo")
        run_once(scheduler)
        assert [now(plain).downgraded, now(oppo).downgraded] == [None, None]
        assert attempts_of(plain)
        assert attempts_of(oppo)

    def test_another_virtual_cluster_is_not_affected(self, alice, vc, scheduler):
        other = make_vc("blue", quotas={"A100": 2}, members=[alice])
        budgets.refresh()
        job = submit(alice, other)
        run_once(scheduler)
        assert now(job).downgraded is None
        assert attempts_of(job)[0].cell_type

    def test_with_the_next_month_it_returns_by_itself(self, alice, vc, scheduler):
        budgets.refresh()
        first = submit(alice, vc, gpus=2)
        run_once(scheduler)
        report(attempts_of(first), "running")
        blocker = submit(alice, make_vc("blue", members=[alice]), gpus=2, priority="oppo")
        run_once(scheduler)
        waiting = submit(alice, vc, gpus=2)
        run_once(scheduler)
        assert now(waiting).wait_reason["message"].startswith(self.sentence())
        assert attempts_of(blocker)
        assert budgets.refresh(NEXT_NOW) == 1
        run_once(scheduler)
        assert "budget" not in now(waiting).wait_reason["message"]
        assert "demotion" not in now(waiting).wait_reason["details"]
        assert now(first).downgraded is not None  # until its attempt ends
        assert_world_is_caught_up(scheduler)
        report(attempts_of(first), "exited", "released")
        assert run_once(scheduler) == {str(waiting.pk)}
        assert now(waiting).downgraded is None
        assert attempts_of(waiting)[0].cell_type
        assert Budget.objects.get().month == NEXT
        assert kinds(vc)[-1] == "budget.available"

    def test_a_larger_budget_or_none_frees_it_at_once(self, alice, vc, scheduler):
        budgets.refresh()
        stranger = make_vc("blue", members=[alice])
        submit(alice, stranger, gpus=4, priority="oppo")
        run_once(scheduler)
        job = submit(alice, vc)
        run_once(scheduler)
        assert now(job).wait_reason["details"]["demotion"]
        budgets.set_budget(None, vc, 2000)
        run_once(scheduler)
        assert now(job).wait_reason["code"] == "victims_too_young"
        assert "demotion" not in now(job).wait_reason["details"]
        budgets.set_budget(None, vc, 500)
        run_once(scheduler)
        assert now(job).wait_reason["message"].startswith("The GPU-hour budget of red")
        assert_world_is_caught_up(scheduler)
        budgets.set_budget(None, vc, None)
        assert budgets.status(vc).state == "none"
        assert_world_is_caught_up(scheduler)

    def test_the_check_before_a_submit_says_so(self, alice, vc):
        submit(alice, make_vc("blue", members=[alice]), gpus=4, priority="oppo")
        tick()
        budgets.refresh()
        checked = services.check(alice, json.dumps(job_file(vc, gpus=2)))
        assert checked.forecast["message"].startswith(self.sentence())

    def test_a_plan_from_before_is_not_carried_out(self, alice, vc, scheduler, monkeypatch):
        """The budget runs out between the plan and its commit."""
        from skep_platform.scheduling import placing

        job = submit(alice, vc)
        write = placing._place_group

        def late(group):
            budgets.refresh()
            return write(group)

        monkeypatch.setattr(placing, "_place_group", late)
        assert run_once(scheduler) == set()
        monkeypatch.undo()
        assert run_once(scheduler) == {str(job.pk)}
        assert now(job).downgraded["code"] == "budget_used_up"


def test_the_task_counts_leases_and_budgets(alice, vc):
    budgets.set_budget(None, vc, 1)
    job = placed(alice, vc)
    attempt = TaskAttempt.objects.get(job=job)
    attempt.leases.update(acquired_at=NOW.replace(day=1, hour=0, minute=0, second=0))
    tasks.count()
    assert UsageDay.objects.filter(job=job, guaranteed=True).exists()
    assert Budget.objects.get().used_us == sum(
        UsageDay.objects.filter(day__gte=MONTH).values_list("allocated_us", flat=True)
    )


class TestApi:
    def test_members_see_it_and_admins_set_it(self, admin, alice, vc):
        path = "/virtual-clusters/red/budget"
        none = Api(alice).get(path).json()
        assert (none["state"], none["gpu_hours"], none["percent"]) == ("none", None, None)
        assert refusal(Api(alice).put(path, {"gpu_hours": 5})) == (403, "forbidden")
        assert refusal(Api(alice).delete(path)) == (403, "forbidden")
        assert refusal(Api(make_user()).get(path)) == (404, "not_found")
        body = admin.put(path, {"gpu_hours": 10}).json()
        assert (body["state"], body["gpu_hours"], body["used_s"]) == ("ok", 10, 0)
        use(vc, 9)
        budgets.refresh()
        warned = Api(alice).get(path).json()
        assert (warned["state"], warned["percent"]) == ("warning", 90.0)
        assert warned["until"] == str(NEXT)
        assert "90 %" in warned["message"]
        assert admin.delete(path).json()["state"] == "none"
        entries = AuditEntry.objects.filter(action="vc.budget.update", outcome="done").order_by(
            "id"
        )
        assert [(e.before, e.after) for e in entries] == [
            ({"gpu_hours": None}, {"gpu_hours": 10}),
            ({"gpu_hours": 10}, {"gpu_hours": None}),
        ]

    @pytest.mark.parametrize("hours", [-1, 10**12, "many", None, 1.5])
    def test_a_bad_number_is_refused(self, admin, vc, hours):
        answer = admin.put("/virtual-clusters/red/budget", {"gpu_hours": hours})
        assert answer.status_code == 400
        assert not Budget.objects.exists()
