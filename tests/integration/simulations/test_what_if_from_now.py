"""What if, from the present moment on: the jobs of now under other policies, nodes and quotas."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.jobs.models import Job
from skep_platform.simulations import forecasting, running
from skep_platform.simulations.models import Simulation

pytestmark = pytest.mark.django_db
HOUR = 3600
LATE = 120  # seconds between the making of the queue and the simulation, on a busy machine


@pytest.fixture
def world() -> dict[str, Any]:
    """Two nodes of four GPUs: red owns one, with a job on it for another hour, and a long job waits
    before a short one. Blue owns the other one, which is idle."""
    ann, bob, boss = make_user("ann"), make_user("bob"), make_user("boss")
    red = make_vc("red", quotas={"A100": 4}, members=[ann], vc_admins=[boss])
    blue = make_vc("blue", quotas={"A100": 4}, members=[bob])
    node = make_node("node-a", gpus=4)
    make_node("node-b", gpus=4)
    now = timezone.now()
    first = make_job(red, ann, name="first", gpus=4, duration_s=2 * HOUR, preemptible=False)
    place(first, list(node.devices.all()), cell_type="A100-NODE4")
    Job.objects.filter(pk=first.pk).update(
        attempt=1, placed_at=now - timedelta(hours=1), state="RUNNING"
    )
    long = make_job(red, ann, name="long", gpus=4, duration_s=10 * HOUR)
    short = make_job(red, ann, name="short", gpus=4, duration_s=HOUR)
    secret = make_job(blue, bob, name="secret", gpus=1, duration_s=HOUR)
    for job, minutes in ((long, 20), (short, 10), (secret, 5)):
        at = now - timedelta(minutes=minutes)
        Job.objects.filter(pk=job.pk).update(created_at=at, priority=10)
    return {
        "ann": ann,
        "boss": boss,
        "root": make_user("root", admin=True),
        "red": red,
        "blue": blue,
    }


def ask(api: Api, vc: str = "red", **fields: Any) -> Any:
    body = {"source": "now", "virtual_cluster": vc, "policies": [], **fields}
    return api.post("/simulations", body)


def answered(api: Api, asked: Any) -> dict[str, Any]:
    assert asked.status_code == 201, asked.content
    running.run_next()
    body: dict[str, Any] = api.get(f"/simulations/{asked.json()['id']}").json()
    assert (body["state"], body["error"]) == ("SUCCEEDED", None)
    return body


def more(vc: str, gpus: int, model: str = "A100") -> dict[str, Any]:
    return {"virtual_cluster": vc, "gpu_model": model, "gpus": gpus}


def test_without_a_change_it_says_when_each_job_starts_as_the_forecast_does(world):
    api = Api(world["boss"])
    body = answered(api, ask(api))
    assert body["policies"] == ["priority_ageing"]
    [run], [side] = body["runs"], body["now"]["sides"]
    assert (body["now"]["running"], body["now"]["waiting"]) == (1, 2)
    # The first job runs for one more hour, then the long one for ten.
    assert side["avg_start_s"] == pytest.approx((1 + 11) * HOUR / 2, abs=LATE)
    assert side["p95_end_s"] == pytest.approx(12 * HOUR, abs=LATE)
    assert (side["starting"], side["never_end"], side["gains"], side["losses"]) == (2, 0, [], [])
    assert run["figures"]["utilisation"] == pytest.approx(1, abs=0.01)
    assert run["series"][0][1:] == [2, 4], "the plot begins with two that wait, on four GPUs"
    forecast = api.post("/virtual-clusters/red/policy/forecast", {"name": "srtf", "parameters": {}})
    present = answered(api, forecast)["forecast"]["sides"][0]
    assert run["figures"]["avg_wait_s"] == pytest.approx(present["avg_wait_s"], abs=LATE)


def test_another_policy_and_new_nodes_are_compared_with_the_cluster_as_it_is(world):
    api = Api(world["boss"])
    changes = [more("", 4), more("red", 4)]
    body = answered(api, ask(api, policies=["priority_ageing", "srtf"], changes=changes))
    sides = {(side["scenario"], side["policy"]): side for side in body["now"]["sides"]}
    assert list(sides) == [
        ("as_is", "priority_ageing"),
        ("as_is", "srtf"),
        ("changed", "priority_ageing"),
        ("changed", "srtf"),
    ]
    assert [run["scenario"] for run in body["runs"]] == [scenario for scenario, _ in sides]
    shortest = sides["as_is", "srtf"]
    [gain], [loss] = shortest["gains"], shortest["losses"]
    assert (gain["name"], gain["owner"], loss["name"]) == ("short", "ann", "long")
    assert gain["by_s"] == pytest.approx(-10 * HOUR, abs=LATE)
    assert gain["old_start_at"] - body["now"]["at"] == pytest.approx(11 * HOUR, abs=LATE)
    assert gain["new_start_at"] - body["now"]["at"] == pytest.approx(HOUR, abs=LATE)
    larger = sides["changed", "priority_ageing"]
    assert larger["avg_start_s"] == pytest.approx(HOUR / 2, abs=LATE)
    assert (larger["gaining"], larger["losing"]) == (2, 0)
    world["red"].refresh_from_db()
    assert world["red"].policy is None, "nothing is saved by it"


def test_an_admin_changes_quotas_and_the_policy_of_one_virtual_cluster_of_all(world):
    api = Api(world["root"])
    changes = [more("blue", -4), more("red", 4)]
    body = answered(api, ask(api, "", policies=["srtf"], policy_of="red", changes=changes))
    assert body["request"]["policy_of"] == "red"
    here, *_, moved = body["now"]["sides"]
    assert (body["now"]["running"], body["now"]["waiting"]) == (1, 3)
    assert (here["starting"], moved["starting"], moved["never_end"]) == (3, 2, 1)
    # The job that never starts is the worst one, before all that end later.
    worst = moved["losses"][0]
    assert (worst["name"], worst["new_end_at"], worst["by_s"]) == ("secret", None, None)


def test_a_vc_admin_sees_no_job_of_another_virtual_cluster(world):
    api = Api(world["boss"])
    changes = [more("", -4)]
    assert refusal(ask(api, changes=changes)) == (400, "quota_exceeds_cluster")
    body = answered(api, ask(api, policies=["srtf"]))
    assert "secret" not in str(body)
    # A job that moved on to where the reader may not see it is counted alone.
    row = Simulation.objects.get(pk=body["id"])
    assert row.result is not None
    row.result["now"]["sides"][1]["losses"][0]["id"] = "00000000-0000-4000-8000-000000000000"
    row.save(update_fields=["result"])
    side = api.get(f"/simulations/{body['id']}").json()["now"]["sides"][1]
    assert (side["losses"], side["losing"], side["hidden"]) == ([], 1, 1)


def test_only_those_who_manage_a_virtual_cluster_ask(world):
    assert refusal(ask(Api(world["ann"]))) == (403, "forbidden")
    assert refusal(ask(Api(world["boss"]), "")) == (403, "forbidden")
    assert refusal(ask(Api(world["boss"]), "blue")) == (404, "not_found")


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"changes": [more("red", 5)]}, "quota_exceeds_cluster", "red can own at most 4, not 9"),
        ({"changes": [more("gren", 1)]}, "unknown_virtual_cluster", "no virtual cluster gren"),
        ({"policy_of": "gren"}, "unknown_virtual_cluster", "no virtual cluster gren"),
        ({"changes": [more("red", -5)]}, "gpus_not_owned", "The quota of red is 4 GPUs"),
        ({"changes": [more("", -12)]}, "gpus_not_there", "8 A100 can be taken away"),
        ({"changes": [more("", 3)]}, "not_whole_nodes", "choose a multiple of 4, not 3"),
        ({"changes": [more("", 4, "H100")]}, "unknown_gpu_model", "Models are: A100"),
        ({"policies": ["pollux"]}, "policy_simulated_only", "gradient noise"),
        ({"placement": "nodes"}, "invalid", "with cells only"),
        ({"source": "history"}, "invalid", "Name at least one policy"),
        ({"virtual_cluster": "red", "policy_of": "blue"}, "invalid", "the whole cluster"),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_with_its_numbers(world, fields, code, said):
    answer = ask(Api(world["root"]), "", **fields)
    assert refusal(answer) == (400, code)
    assert said in str(answer.json())
    assert not Simulation.objects.exists()


def test_too_many_jobs_and_none_are_said(world, monkeypatch):
    api = Api(world["boss"])

    def code() -> str:
        asked = ask(api).json()
        running.run_next()
        body: dict[str, Any] = api.get(f"/simulations/{asked['id']}").json()
        assert (body["state"], body["now"]) == ("FAILED", None)
        found: str = body["error"]["code"]
        return found

    monkeypatch.setattr(forecasting, "MOST_JOBS", 2)
    assert code() == "too_many_jobs"
    Job.objects.all().update(priority=-1)
    assert code() == "no_jobs"
