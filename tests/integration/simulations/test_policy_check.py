"""What a policy must know of jobs, and how many of a virtual cluster lack it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.jobs.models import Job, TaskRole

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> dict[str, Any]:
    ann, boss = make_user("ann"), make_user("boss")
    red = make_vc("red", quotas={"A100": 4}, members=[ann], vc_admins=[boss])
    blue = make_vc("blue", quotas={"A100": 4}, members=[ann])
    make_job(red, ann, name="declared", duration_s=60)
    make_job(red, ann, name="predicted")
    Job.objects.filter(name="predicted").update(predicted_s=60)
    make_job(red, ann, name="unknown")
    make_job(red, ann, name="firm", preemptible=False)
    make_job(red, ann, name="idle-use")
    Job.objects.filter(name="idle-use").update(priority=-1)
    make_job(red, ann, name="ended")
    Job.objects.filter(name="ended").update(state="SUCCEEDED")
    make_job(blue, ann, name="elsewhere")
    return {"ann": ann, "boss": boss, "red": red}


def ask(api: Api, name: str, **parameters: Any) -> Any:
    body = {"name": name, "parameters": parameters}
    return api.post("/virtual-clusters/red/policy/check", body)


def lacking(answer: dict[str, Any]) -> dict[str, tuple[int, set[str]]]:
    return {
        one["fact"]: (one["jobs"], {job["name"] for job in one["examples"]})
        for one in answer["lacking"]
    }


def test_jobs_of_unknown_duration_are_counted_and_named(world):
    answer = ask(Api(world["boss"]), "srtf").json()
    assert (answer["jobs"], answer["preempts"], answer["not_preemptible"]) == (4, True, 1)
    assert lacking(answer) == {"duration": (2, {"unknown", "firm"})}
    assert answer["otherwise"] == "It starts behind those whose duration is known."


def test_a_prediction_counts_for_what_asks_for_history_alone(world):
    answer = ask(Api(world["boss"]), "pai_sjf").json()
    assert lacking(answer)["history"][0] == 3


def test_deadlines_and_elastic_jobs_are_counted(world):
    soon = timezone.now() + timedelta(hours=1)
    Job.objects.filter(name="declared").update(deadline_at=soon)
    TaskRole.objects.filter(job__name="declared").update(elastic_min=1, elastic_max=4)
    answer = ask(Api(world["boss"]), "elasticflow").json()
    assert (answer["resizes"], answer["elastic"], answer["preempts"]) == (True, 1, False)
    assert lacking(answer)["deadline"][0] == 3


@pytest.mark.parametrize(
    ("objective", "facts"),
    [("max_min", set()), ("ftf", {"duration"}), ("min_makespan", {"duration"})],
)
def test_parameters_count(world, objective, facts):
    answer = ask(Api(world["boss"]), "gavel", objective=objective).json()
    assert set(lacking(answer)) == facts


def test_it_takes_as_many_queries_for_one_job_as_for_many(world, django_assert_max_num_queries):
    for i in range(20):
        make_job(world["red"], world["ann"], name=f"more-{i}")
    with django_assert_max_num_queries(8):
        assert lacking(ask(Api(world["boss"]), "srtf").json())["duration"][0] == 22


def test_a_policy_that_is_not_to_be_had_is_refused(world):
    assert refusal(ask(Api(world["boss"]), "pollux")) == (400, "policy_simulated_only")
    assert refusal(ask(Api(world["boss"]), "gavel", objective="cost"))[1] == "bad_policy_parameter"
    assert refusal(ask(Api(world["ann"]), "srtf"))[0] == 403
