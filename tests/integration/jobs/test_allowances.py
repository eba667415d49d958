"""Limits per user and virtual cluster: what is refused, with which numbers, and to whom."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from django.db import connection
from tests.support.jobs_world import job_file, submit
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.core.errors import SkepError, TooMany
from skep_platform.jobs import services
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import allowances
from skep_platform.tenancy.limits import set_limit

pytestmark = pytest.mark.django_db


def refused(code: str, user, vc, **changes) -> TooMany:
    with pytest.raises(TooMany) as found:
        submit(user, vc, **changes)
    assert found.value.code == code
    assert found.value.details["retry_after_s"] > 0
    return found.value


def test_31_finding_s7_submits_of_a_user_in_a_minute_are_limited(alice, vc):
    set_limit(None, vc, "submits_per_minute", 3)
    for _ in range(3):
        submit(alice, vc)
    error = refused("too_many_submits", alice, vc)
    assert (error.details["most"], error.details["limit"]) == (3, "submits_per_minute")
    other = make_vc("other", members=[alice], quotas={"A100": 8})
    assert submit(alice, other)  # the limit is of this virtual cluster
    assert Job.objects.filter(vc=vc).count() == 3


@pytest.mark.django_db(transaction=True)
def test_a_submit_waits_for_no_count_of_another_virtual_cluster():
    alice = make_user("alice")
    slow, quick = (make_vc(name, members=[alice], quotas={"A100": 8}) for name in ("slow", "quick"))
    counts, may_go_on = threading.Event(), threading.Event()

    def hang(execute, sql, params, many, context):
        if "sum(tasks_total)" in sql:
            counts.set()
            assert may_go_on.wait(60)
        return execute(sql, params, many, context)

    def take(vc, *wrappers):
        try:
            with ExitStack() as stack:
                for wrapper in wrappers:
                    stack.enter_context(connection.execute_wrapper(wrapper))
                allowances.take(alice, vc, 1)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(take, slow, hang)
        try:
            assert counts.wait(60)
            pool.submit(take, quick).result(30)
            assert not first.done()
        finally:
            may_go_on.set()
        first.result(60)


def test_finding_s7_the_answer_says_when_to_come_back(alice, vc):
    set_limit(None, vc, "submits_per_minute", 1)
    api = Api(alice)
    assert api.post("/jobs", job_file(vc)).status_code == 201
    answer = api.post("/jobs", job_file(vc))
    assert refusal(answer) == (429, "too_many_submits")
    assert 0 < int(answer.headers["Retry-After"]) <= 60


def test_finding_s7_waiting_jobs_and_those_of_one_user_are_limited(alice, vc):
    bob = make_user("bob")
    vc.memberships.create(user=bob)
    set_limit(None, vc, "waiting_jobs", 4)
    set_limit(None, vc, "jobs_per_user", 2)
    submit(alice, vc)
    submit(alice, vc)
    assert refused("too_many_jobs_of_user", alice, vc).details["now"] == 2
    submit(bob, vc)
    submit(bob, vc)
    carol = make_user("carol")
    vc.memberships.create(user=carol)
    assert refused("too_many_waiting_jobs", carol, vc).details["now"] == 4


def test_finding_s7_tasks_of_all_unfinished_jobs_are_limited(alice, vc):
    set_limit(None, vc, "tasks", 10_000)
    submit(alice, vc, gpus=0, instances=9_999)
    error = refused("too_many_tasks_in_vc", alice, vc, gpus=0, instances=2)
    assert (error.details["now"], error.details["most"]) == (9_999, 10_000)
    submit(alice, vc, gpus=0, instances=1)


def test_a_job_above_the_gpus_or_the_duration_of_one_job_is_refused_with_the_numbers(alice, vc):
    set_limit(None, vc, "gpus_per_job", 4)
    set_limit(None, vc, "job_duration_s", 3600)
    with pytest.raises(SkepError) as found:
        submit(alice, vc, gpus=2, instances=3)
    assert found.value.code == "too_many_gpus_in_job"
    assert (found.value.details["gpus"], found.value.details["most"]) == (6, 4)
    for name in ("maxDuration", "duration"):
        with pytest.raises(SkepError) as found:
            submit(alice, vc, skep={name: "2h"})
        assert found.value.code == "job_too_long"
        assert "2 h, but a job of" in found.value.message
    answer = Api(alice).post("/jobs/check", job_file(vc, skep={"maxDuration": "2h"}, gpus=8))
    errors = {error["code"]: error["path"] for error in answer.json()["errors"]}
    assert errors["job_too_long"] == "extras.skep.maxDuration"
    assert "too_many_gpus_in_job" in errors


def test_a_job_that_asks_for_no_maximum_duration_gets_that_of_its_virtual_cluster(alice, vc):
    assert submit(alice, vc).max_duration_s is None
    set_limit(None, vc, "job_duration_s", 3600)
    assert submit(alice, vc).max_duration_s == 3600
    assert submit(alice, vc, skep={"maxDuration": "10m"}).max_duration_s == 600


def test_finding_s7_active_jobs_are_limited_and_finished_ones_do_not_count(alice, vc):
    set_limit(None, vc, "active_jobs", 1)
    running = make_job(vc, alice, state="RUNNING")
    make_job(vc, alice, state="SUCCEEDED")
    refused("too_many_active_jobs", alice, vc)
    Job.objects.filter(pk=running.pk).update(state="FAILED")
    assert submit(alice, vc)  # looked at anew before anybody is refused


def test_finding_s7_a_burst_costs_few_counts(alice, vc, monkeypatch):
    monkeypatch.setattr(allowances, "FRESH_S", 3600.0)  # a burst lasts no longer
    submit(alice, vc)
    counts = []
    with connection.execute_wrapper(
        lambda execute, sql, *rest: (counts.append("GROUP BY 1, 2" in sql), execute(sql, *rest))[1]
    ):
        for _ in range(20):
            submit(alice, vc)
    assert sum(counts) <= 3


def test_finding_s7_checks_and_conversions_at_a_time_are_limited(alice, vc):
    set_limit(None, vc, "concurrent_checks", 2)
    text = json.dumps(job_file(vc))
    with allowances.checking(alice), allowances.checking(alice):
        with pytest.raises(TooMany) as found:
            services.check(alice, text)
        assert found.value.code == "too_many_checks"
        with pytest.raises(TooMany):
            services.convert(alice, text, "auto")
        assert services.check(make_user("bob"), text)  # others go on
    assert services.check(alice, text).valid


def test_finding_s7_parallel_submits_do_not_overshoot(alice, vc):
    """The counts of one process are exact: each takes its place before it is stored."""
    set_limit(None, vc, "waiting_jobs", 50)
    taken, barrier = [], threading.Barrier(8)

    def some() -> None:
        barrier.wait()
        for _ in range(20):
            try:
                with allowances._lock:
                    load = allowances._loads[vc.pk]
                    limits = dict.fromkeys(allowances.CODES, 10**9) | {"waiting_jobs": 50}
                    if allowances._exceeded(load, alice, 1, limits):
                        continue
                    load.waiting += 1
                taken.append(1)
            except KeyError as error:
                raise AssertionError from error

    submit(alice, vc)
    threads = [threading.Thread(target=some) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 49


def test_finding_s20_members_give_no_priority_above_the_limit(alice, vc):
    error = services.check(alice, json.dumps(job_file(vc, skep={"priority": 1000})))
    (problem,) = error.errors
    assert (problem.code, problem.path) == ("priority_too_high", "extras.skep.priority")
    assert "100" in problem.message
    api = Api(alice)
    answer = api.post("/jobs", job_file(vc, skep={"priority": 101}))
    assert refusal(answer) == (400, "priority_too_high")
    assert api.post("/jobs", job_file(vc, priority="prod")).status_code == 201
    vc.memberships.filter(user=alice).update(role="admin")
    assert api.post("/jobs", job_file(vc, skep={"priority": 1000})).status_code == 201


def test_finding_s20_a_virtual_cluster_may_have_another_limit(alice, vc):
    set_limit(None, vc, "max_priority", 10)
    assert refusal(Api(alice).post("/jobs", job_file(vc, priority="prod"))) == (
        *(400, "priority_too_high"),
    )
    assert services.check(alice, json.dumps(job_file(vc, priority="prod"))).errors[0].path == (
        "extras.hivedScheduler.jobPriorityClass"
    )


@pytest.mark.parametrize("uri", ["127.0.0.1:6379/x", "169.254.169.254/latest/x:1", "localhost/x"])
def test_finding_s9_a_job_names_no_registry_at_a_private_address(alice, vc, uri):
    file = job_file(vc)
    file["prerequisites"][0]["uri"] = uri
    (problem,) = services.check(alice, json.dumps(file)).errors
    assert (problem.code, problem.path) == ("registry_not_allowed", "prerequisites[0].uri")
    assert refusal(Api(alice).post("/jobs", file)) == (400, "registry_not_allowed")


def test_finding_s9_a_listed_registry_is_taken(alice, vc, settings):
    settings.SKEP_REGISTRIES = "public,127.0.0.1:5000"
    file = job_file(vc)
    file["prerequisites"][0]["uri"] = "127.0.0.1:5000/x:1"
    assert services.check(alice, json.dumps(file)).valid
