"""Jobs that wait for other jobs, and roles of which only some tasks run at a time."""

from __future__ import annotations

import math
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import attempts_of, explain, report, submit, tick
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.core import notifications
from skep_platform.core.errors import SkepError
from skep_platform.core.serving import at_database
from skep_platform.jobs import services
from skep_platform.jobs.lifecycle import dependencies
from skep_platform.jobs.models import Job

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("node")]


def after(*dependencies: tuple[str, str]) -> dict[str, object]:
    return {"dependsOn": [{"job": job, "condition": how} for job, how in dependencies]}


def look(job: Job) -> Job:
    services.reconcile()
    job.refresh_from_db()
    return job


def end(job: Job, exit_code: int = 0) -> None:
    tick()
    report(attempts_of(job), "running", "exited", "released", exit_code=exit_code)
    if exit_code:
        explain(job, b"ValueError: no such option\n")
    services.reconcile()


@pytest.mark.parametrize(
    ("condition", "exit_code", "outcome"),
    [
        ("afterok", 0, "placed"),
        ("afterok", 1, "FAILED"),
        ("afternotok", 1, "placed"),
        ("afternotok", 0, "FAILED"),
        ("afterany", 0, "placed"),
        ("afterany", 1, "placed"),
    ],
)
def test_finding_j7_a_job_starts_or_fails_as_the_other_ended(
    alice, vc, condition, exit_code, outcome
):
    first = submit(alice, vc, name="first")
    second = submit(alice, vc, name="second", skep=after(("first", condition)))
    assert str(second.pk) not in tick()
    assert look(second).wait_reason["code"] == "dependency"
    assert "job first to" in second.wait_reason["message"]
    end(first, exit_code)
    if outcome == "placed":
        assert look(second).wait_reason is None
        assert str(second.pk) in tick()
    else:
        assert look(second).state == outcome
        assert second.exit_reason["code"] == "dependency_never_holds"
        assert second.finished_at is not None


def test_finding_j7_after_needs_only_that_the_other_one_started(alice, vc):
    first = submit(alice, vc, name="first")
    second = submit(alice, vc, name="second", skep=after(("first", "after")))
    tick()
    assert look(second).awaits_dependencies
    report(attempts_of(first), "running")
    assert not look(second).awaits_dependencies
    assert str(second.pk) in tick()


def test_finding_j7_all_dependencies_have_to_hold(alice, vc):
    one, two = submit(alice, vc, name="one"), submit(alice, vc, name="two")
    both = after(("one", "afterok"), (str(two.pk), "afterany"))
    third = submit(alice, vc, name="third", skep=both)
    end(one)
    assert look(third).awaits_dependencies
    end(two, exit_code=1)
    assert not look(third).awaits_dependencies


def test_finding_j7_what_can_never_start_ends_its_own_dependents(alice, vc):
    first = submit(alice, vc, name="first")
    chain = [submit(alice, vc, name="a", skep=after(("first", "afterok")))]
    chain.append(submit(alice, vc, name="b", skep=after(("a", "afterok"))))
    services.stop(alice, first.pk)
    services.reconcile()
    assert [look(job).state for job in chain] == ["FAILED", "FAILED"]


def test_finding_j7_a_waiting_dependent_can_be_stopped(alice, vc):
    submit(alice, vc, name="first")
    second = submit(alice, vc, name="second", skep=after(("first", "afterok")))
    services.stop(alice, second.pk)
    assert look(second).state == "STOPPED"


def refusal(user, vc, **fields) -> SkepError:
    before = Job.objects.count()
    with pytest.raises(SkepError) as raised:
        submit(user, vc, **fields)
    assert Job.objects.count() == before
    return raised.value


def test_finding_j7_jobs_that_one_may_not_see_are_no_dependencies(alice, vc):
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    hidden = submit(alice, vc, name="hidden")
    for name in (str(hidden.pk), "alice~hidden", "hidden", "alice~nope"):
        error = refusal(bob, vc, skep=after((name, "afterany")))
        assert (error.code, name in str(error)) == ("unknown_job", True)
    shown = submit(alice, vc, name="shown", skep={"visibility": "members"})
    submit(bob, vc, skep=after(("alice~shown", "afterok"), (str(shown.pk), "after")))


def test_finding_j7_what_can_never_hold_is_refused_at_once(alice, vc):
    first = submit(alice, vc, name="first")
    services.stop(alice, first.pk)
    error = refusal(alice, vc, skep=after(("first", "afterok")))
    assert (error.code, error.details["state"]) == ("dependency_never_holds", "STOPPED")
    submit(alice, vc, skep=after(("first", "afternotok")))


def test_dependencies_are_found_by_one_query_that_reads_no_job_file(alice, vc):
    first, second = submit(alice, vc, name="a"), submit(alice, vc, name="b")
    wanted = after((str(first.pk), "afterok"), ("b", "after"), ("alice~a", "afterany"))
    with CaptureQueriesContext(connection) as run:
        job = submit(alice, vc, name="c", skep=wanted)
    upstream = {str(row.upstream_id) for row in job.dependencies.all()}
    assert upstream == {str(first.pk), str(second.pk)}
    found = [q["sql"] for q in run if 'FROM "jobs_job"' in q["sql"] and "username" in q["sql"]]
    assert len(found) == 2, "one for the check, one for the rows"
    assert not [sql for sql in found if '"spec' in sql or '"environment"' in sql]


def test_the_api_says_what_a_job_waits_for(alice, vc):
    submit(alice, vc, name="first")
    second = submit(alice, vc, name="second", skep=after(("first", "afterany")))
    detail = Api(alice).get(f"/jobs/{second.pk}").json()
    assert detail["depends_on"] == [{"job": "first", "condition": "afterany"}]
    assert detail["wait_reason"]["details"] == {"jobs": ["first"]}


def test_the_job_that_made_it_fail_is_named_to_those_who_may_see_it(alice, vc):
    first = submit(alice, vc, name="hidden-work")
    open_to_members = {"visibility": "members", **after((str(first.pk), "afterok"))}
    second = submit(alice, vc, name="second", skep=open_to_members)
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    services.stop(alice, first.pk)
    look(second)

    mine, seen = (
        Api(user).get(f"/jobs/{second.pk}").json()["exit_reason"] for user in (alice, bob)
    )
    asks = "afterok asks it to succeed."
    assert mine["message"] == f"It can never start: job hidden-work is STOPPED, and {asks}"
    assert mine["details"]["by_name"] == "hidden-work"
    assert seen["message"] == (
        f"It can never start: it waits for another job that has ended, and {asks}"
    )
    assert seen["details"] == {"condition": "afterok"}
    events = Api(bob).get(f"/jobs/{second.pk}/events")
    assert "It can never start" in events.text
    assert not {"hidden-work", "STOPPED", str(first.pk)} & set(re.split(r'[\s",]', events.text))


def test_a_reason_of_an_older_version_does_not_name_the_other_job(alice, vc):
    job = submit(alice, vc, name="second")
    message = "It can never start: job hidden-work is FAILED, and afterok asks it to succeed."
    details = {"job": "hidden-work", "state": "FAILED"}
    reason = {"code": "dependency_never_holds", "message": message, "details": details}
    Job.objects.filter(pk=job.pk).update(exit_reason=reason)
    assert "hidden-work" not in Api(alice).get(f"/jobs/{job.pk}").text


def test_finding_j7_no_more_tasks_than_the_parallelism_run_at_a_time(alice, vc):
    few = {"taskRoles": {"worker": {"parallelism": 2}}}
    job = submit(alice, vc, instances=5, gpus=0, incremental=True, skep=few)
    assert str(job.pk) in tick()
    assert tick() == set()
    seen = []
    while (state := look(job).state) not in ("SUCCEEDED", "FAILED"):
        alive = [one for one in attempts_of(job) if one.released_at is None]
        assert 0 < len(alive) <= 2, state
        seen.append(len(alive))
        report(alive[0], "running", "exited", "released")
        tick()
    assert state == "SUCCEEDED"
    assert seen == [2, 2, 2, 2, 1]


def test_parallelism_needs_tasks_that_start_one_by_one(alice, vc):
    few = {"taskRoles": {"worker": {"parallelism": 2}, "wroker": {}}}
    error = refusal(alice, vc, instances=3, skep=few)
    assert {one["code"] for one in error.details["errors"]} == {
        *("parallelism_of_gang", "unknown_task_role")
    }


@pytest.mark.django_db(transaction=True)
def test_only_what_waits_for_a_changed_job_is_looked_at(monkeypatch):
    """And the rest now and then, as hints may be lost."""
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    make_node("n1", gpus=8)
    monkeypatch.setattr(dependencies, "WHOLE_S", 60.0)
    monkeypatch.setattr(dependencies, "_whole_at", time.monotonic())
    monkeypatch.setattr(dependencies, "_were_due", [])
    first = submit(alice, vc, name="first")
    waiting = [submit(alice, vc, name=f"job-{n}", skep=after(("first", "after"))) for n in range(3)]
    notifications.take_changed_jobs(100)

    def looked() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            dependencies.resolve()
        return [q["sql"] for q in captured if "awaits_dependencies" in q["sql"]]

    assert looked() == []
    tick()
    report(attempts_of(first), "running")
    assert "ANY" in looked()[0]
    assert not Job.objects.filter(awaits_dependencies=True).exists()
    late = submit(alice, vc, name="late", skep=after(("first", "after")))
    assert looked()
    assert not Job.objects.get(pk=late.pk).awaits_dependencies

    Job.objects.filter(pk=waiting[0].pk).update(awaits_dependencies=True)
    notifications.take_changed_jobs(100)  # lost
    assert str(late.pk) in looked()[0]  # it was due, and its row may have been locked
    assert looked() == []
    monkeypatch.setattr(dependencies, "_whole_at", -math.inf)
    assert looked()
    assert not Job.objects.get(pk=waiting[0].pk).awaits_dependencies


def test_a_job_that_cannot_be_queued_holds_up_none_behind_it(alice, vc, monkeypatch):
    first = submit(alice, vc, name="first")
    waiting = [submit(alice, vc, name=f"n-{n}", skep=after(("first", "after"))) for n in range(2)]
    bad, good = sorted(waiting, key=lambda job: str(job.pk))
    tick()
    report(attempts_of(first), "running")
    monkeypatch.setattr(dependencies, "WHOLE_S", 0.0)
    with monkeypatch.context() as defect:
        defect.setattr(dependencies, "_queue", {}.__getitem__)
        dependencies.resolve(limit=1)
    dependencies.resolve(limit=1)
    for job in (bad, good):
        job.refresh_from_db()
    assert (bad.awaits_dependencies, good.awaits_dependencies) == (True, False)


@pytest.mark.django_db(transaction=True)
def test_a_due_job_whose_row_was_locked_is_queued_at_the_next_look(monkeypatch):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 8}, members=[alice])
    make_node("n1", gpus=8)
    monkeypatch.setattr(dependencies, "WHOLE_S", math.inf)
    monkeypatch.setattr(dependencies, "_whole_at", time.monotonic())
    first = submit(alice, vc, name="first")
    due = submit(alice, vc, name="due", skep=after(("first", "after")))
    tick()
    report(attempts_of(first), "running")
    with ThreadPoolExecutor(1) as other, transaction.atomic():
        Job.objects.select_for_update().get(pk=due.pk)
        other.submit(at_database, dependencies.resolve).result(30)
    assert Job.objects.get(pk=due.pk).awaits_dependencies
    dependencies.resolve()
    assert not Job.objects.get(pk=due.pk).awaits_dependencies
