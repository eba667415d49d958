"""The forecast of a virtual cluster under another policy, from its present queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.jobs.models import Job, JobAttempt, Task, TaskRole
from skep_platform.simulations import running
from skep_platform.simulations.models import Simulation

pytestmark = pytest.mark.django_db
HOUR = 3600


@pytest.fixture
def world() -> dict[str, Any]:
    """Four GPUs: one job has all of them for another hour, and a long one waits before a short
    one."""
    ann, boss = make_user("ann"), make_user("boss")
    red = make_vc("red", quotas={"A100": 4}, members=[ann], vc_admins=[boss])
    node = make_node("node-a", gpus=4)
    now = timezone.now()
    first = make_job(red, ann, name="first", gpus=4, duration_s=2 * HOUR, preemptible=False)
    place(first, list(node.devices.all()), cell_type="A100-NODE4")
    Job.objects.filter(pk=first.pk).update(
        attempt=1, placed_at=now - timedelta(hours=1), state="RUNNING"
    )
    long = make_job(red, ann, name="long", gpus=4, duration_s=10 * HOUR)
    short = make_job(red, ann, name="short", gpus=4, duration_s=HOUR)
    for job, minutes in ((long, 20), (short, 10)):
        at = now - timedelta(minutes=minutes)
        Job.objects.filter(pk=job.pk).update(created_at=at, priority=10)
    return {"ann": ann, "boss": boss, "red": red, "long": long, "short": short}


def ask(api: Api, name: str = "srtf", **parameters: Any) -> Any:
    body = {"name": name, "parameters": parameters}
    return api.post("/virtual-clusters/red/policy/forecast", body)


def answered(api: Api, asked: Any) -> dict[str, Any]:
    assert asked.status_code == 201, asked.content
    running.run_next()
    body: dict[str, Any] = api.get(f"/simulations/{asked.json()['id']}").json()
    return body


def test_a_forecast_says_who_gains_and_who_loses_by_another_policy(world):
    api = Api(world["boss"])
    body = answered(api, ask(api))
    assert (body["state"], body["error"]) == ("SUCCEEDED", None)
    assert body["policies"] == ["priority_ageing", "srtf"]
    found = body["forecast"]
    assert (found["running"], found["waiting"], found["recent"]) == (1, 2, 0)
    old, new = found["sides"]
    # The first job runs for one more hour; then 10 h before 1 h, or the other way round.
    assert old["avg_wait_s"] == pytest.approx((0 + 1 + 11) * HOUR / 3, abs=5)
    assert new["avg_wait_s"] == pytest.approx((0 + 1 + 2) * HOUR / 3, abs=5)
    assert old["p95_wait_s"] == pytest.approx(11 * HOUR, abs=5)
    assert new["last_end_at"] == pytest.approx(found["at"] + 12 * HOUR, abs=5)
    [gain], [loss] = found["gains"], found["losses"]
    assert (gain["name"], gain["owner"], loss["name"]) == ("short", "ann", "long")
    assert gain["by_s"] == pytest.approx(-10 * HOUR, abs=5)
    assert loss["by_s"] == pytest.approx(HOUR, abs=5)
    assert world["red"].policy is None, "nothing is saved by it"


def test_equal_facts_are_answered_by_the_same_forecast_until_a_job_changes(world):
    api = Api(world["boss"])
    first = answered(api, ask(api))
    again = ask(api)
    assert (again.status_code, again.json()["id"]) == (200, first["id"])
    assert again.json()["forecast"] == first["forecast"]
    make_job(world["red"], world["ann"], name="new", gpus=1)
    other = ask(api)
    assert (other.status_code, other.json()["id"] == first["id"]) == (201, False)


def test_jobs_of_the_last_week_come_again_and_lend_their_duration(world):
    job = make_job(world["red"], world["ann"], name="done", gpus=4, state="SUCCEEDED")
    end = timezone.now() - timedelta(days=1)
    begun = end - timedelta(hours=3)
    JobAttempt.objects.create(
        job=job, index=1, outcome="SUCCEEDED", placed_at=begun, started_at=begun, finished_at=end
    )
    Job.objects.filter(pk=job.pk).update(created_at=begun, started_at=begun, finished_at=end)
    make_job(world["red"], world["ann"], name="unknown", gpus=4)
    api = Api(world["boss"])
    found = answered(api, ask(api))["forecast"]
    assert (found["recent"], found["unknown_durations"]) == (1, 1)
    assert found["sides"][0]["finished"] == 5
    # What was submitted a day ago comes in six days, when nothing else is there any more.
    came = found["at"] + timedelta(days=6).total_seconds() - 3 * HOUR
    assert found["sides"][0]["last_end_at"] == pytest.approx(came + 3 * HOUR, abs=5)


def test_a_job_that_the_reader_may_not_see_is_counted_without_a_name(world):
    api = Api(world["boss"])
    body = answered(api, ask(api))
    row = Simulation.objects.get(pk=body["id"])
    stored = row.result
    assert stored is not None
    stored["forecast"]["losses"][0]["id"] = "00000000-0000-4000-8000-000000000000"
    row.save(update_fields=["result"])
    found = api.get(f"/simulations/{body['id']}").json()["forecast"]
    assert (found["losses"], found["losing"], found["hidden"]) == ([], 1, 1)


def test_a_policy_that_is_only_simulated_is_refused_with_its_reason(world):
    answer = ask(Api(world["boss"]), "pollux")
    assert refusal(answer) == (400, "policy_simulated_only")
    assert "jobs do not report their gradient noise" in answer.json()["message"]
    assert refusal(ask(Api(world["boss"]), "fifo", backfill=3)) == (400, "bad_policy_parameter")
    assert refusal(ask(Api(world["ann"]))) == (403, "forbidden")


def test_the_forecast_of_an_elastic_policy_lets_jobs_run_with_other_sizes(world):
    """The long job may have one task or two of two GPUs, and runs beside the short one."""
    for job, most in ((world["long"], 2), (world["short"], 2)):
        role = TaskRole.objects.get(job=job)
        role.gpus, role.instances = 2, 2
        role.elastic_min, role.elastic_max, role.asked_instances = 1, most, 2
        role.save()
        Task.objects.create(job=job, role=role, index=1, rank=1)
        Job.objects.filter(pk=job.pk).update(tasks_total=2)
    api = Api(world["boss"])
    body = answered(api, ask(api, "optimus"))
    assert (body["state"], body["error"]) == ("SUCCEEDED", None)
    old, new = body["forecast"]["sides"]
    assert old["avg_wait_s"] == pytest.approx((0 + 1 + 11) * HOUR / 3, abs=5)
    assert new["avg_wait_s"] == pytest.approx((0 + 1 + 1) * HOUR / 3, abs=60)


def test_a_virtual_cluster_without_jobs_has_no_forecast(world):
    Job.objects.all().update(priority=-1)
    api = Api(world["boss"])
    body = answered(api, ask(api))
    assert (body["state"], body["error"]["code"]) == ("FAILED", "no_jobs")
    assert body["forecast"] is None
