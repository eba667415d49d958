"""What a policy must know of jobs, and how many of a virtual cluster lack it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.jobs.models import Job, TaskRole
from skep_platform.usage.models import UsageDay

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


def named(facts: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Return the names of the examples of each fact."""
    return {one["fact"]: {job["name"] for job in one["examples"]} for one in facts}


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


def assumed(answer: dict[str, Any]) -> dict[str, tuple[int, str]]:
    return {one["fact"]: (one["jobs"], one["otherwise"]) for one in answer["assumed"]}


def test_what_is_taken_for_true_of_jobs_is_said_and_counted(world):
    """Speeds, speed-ups and measured restarts: what a policy decides by where it is known."""
    Job.objects.filter(name="declared").update(
        prediction={"leave_s": None, "warmup_s": 12.5},
        spec={"extras": {"skep": {"speeds": {"A100": 2}, "elastic": {"speedup": {"2": 1.8}}}}},
    )
    Job.objects.filter(name="predicted").update(prediction={"leave_s": None, "warmup_s": None})
    TaskRole.objects.filter(job__name__in=["declared", "unknown"]).update(
        elastic_min=1, elastic_max=4
    )
    api = Api(world["boss"])
    answer = ask(api, "gavel").json()
    assert named(answer["assumed"]) == {
        "restart": {"predicted", "unknown"},
        "speeds": {"predicted", "unknown", "firm"},
    }
    assert assumed(answer) == {
        # One of the three that may be preempted was measured; "firm" never has to leave.
        "restart": (2, "It is preempted as if a restart cost nothing."),
        "speeds": (3, "It is taken to be equally fast on all GPU models."),
    }
    table = assumed(ask(api, "gavel", speeds="A100:2;V100:1").json())
    assert table["speeds"][1] == "It is taken to be as fast as the parameter `speeds` says."
    answer = ask(api, "afs").json()
    sizes = assumed(answer)
    assert named(answer["assumed"])["speedup"] == {"unknown"}
    assert {fact: jobs for fact, (jobs, _) in sizes.items()} == {"restart": 1, "speedup": 1}
    assert assumed(ask(api, "fifo").json()) == {}


def test_the_last_month_counts_by_gpu_time(world):
    """What ended says more than what waits just now: a short queue may have no such job."""
    vc, ann, today = world["red"], world["ann"], timezone.now().date()
    for name, hours, fields in (
        ("known", 1, {"duration_s": 60}),
        ("unknown-too", 3, {}),
        ("long-ago", 50, {}),
        ("borrowed", 50, {}),
        ("waits", 50, {}),
    ):
        made = make_job(vc, ann, name=name, state="SUCCEEDED", finished_at=timezone.now(), **fields)
        UsageDay.objects.create(
            job=made, day=today, user=ann, vc=vc, gpu_model="A100", guaranteed=True,
            allocated_us=hours * 3_600_000_000,
        )  # fmt: skip
    Job.objects.filter(name="borrowed").update(priority=-1)
    Job.objects.filter(name="waits").update(state="WAITING", finished_at=None)
    Job.objects.filter(name="long-ago").update(created_at=timezone.now() - timedelta(days=40))
    answer = ask(Api(world["boss"]), "srtf").json()
    assert answer["ended"] == {"days": 30, "jobs": 2, "gpu_hours": 4.0}
    (duration,) = answer["lacking"]
    assert (duration["ended_jobs"], duration["ended_share"]) == (1, 0.75)
    assert ask(Api(world["boss"]), "fifo").json()["ended"]["jobs"] == 2


def test_it_takes_as_many_queries_for_one_job_as_for_many(world, django_assert_max_num_queries):
    for i in range(20):
        make_job(world["red"], world["ann"], name=f"more-{i}")
    with django_assert_max_num_queries(8):
        assert lacking(ask(Api(world["boss"]), "srtf").json())["duration"][0] == 22


def test_a_policy_that_is_not_to_be_had_is_refused(world):
    assert refusal(ask(Api(world["boss"]), "pollux")) == (400, "policy_simulated_only")
    assert refusal(ask(Api(world["boss"]), "gavel", objective="cost"))[1] == "bad_policy_parameter"
    assert refusal(ask(Api(world["ann"]), "srtf"))[0] == 403
