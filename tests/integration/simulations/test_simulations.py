"""Simulations: history as a trace, who sees what, and what-if questions in the background."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import tempfile
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_node, make_user, make_vc

from skep_platform.accounts.models import User
from skep_platform.jobs.models import Job, JobAttempt
from skep_platform.simulations import history, running, services
from skep_platform.simulations.models import Simulation
from skep_platform.tenancy.models import VirtualCluster

pytestmark = pytest.mark.django_db

START = datetime(2026, 10, 1, tzinfo=UTC)
WINDOW = {"since": "2026-10-01T00:00:00Z", "until": "2026-10-08T00:00:00Z"}


def ended(
    vc: VirtualCluster,
    owner: User,
    *,
    at: float = 0,
    ran: tuple[float, ...] = (60,),
    gpus: int = 1,
    **fields: Any,
) -> Job:
    """A job that was submitted `at` seconds after START and ran in these attempts."""
    job = make_job(vc, owner, gpus=gpus, state="SUCCEEDED", **fields)
    now = START + timedelta(seconds=at)
    for index, seconds in enumerate(ran, 1):
        begun, now = now, now + timedelta(seconds=seconds)
        JobAttempt.objects.create(
            job=job,
            index=index,
            outcome="SUCCEEDED" if index == len(ran) else "PREEMPTED",
            placed_at=begun,
            started_at=begun,
            finished_at=now,
        )
    Job.objects.filter(pk=job.pk).update(
        created_at=START + timedelta(seconds=at), started_at=START, finished_at=now
    )
    return job


@pytest.fixture
def world() -> dict[str, Any]:
    """Two virtual clusters with jobs; the boss manages the red one."""
    ann, bob, boss = make_user("ann"), make_user("bob"), make_user("boss")
    red = make_vc("red", quotas={"A100": 4}, members=[ann, bob], vc_admins=[boss])
    blue = make_vc("blue", quotas={"A100": 4}, members=[bob])
    make_node("node-a", gpus=8)
    ended(red, ann, at=0, ran=(3600,), gpus=4)
    ended(red, bob, at=10, ran=(30, 60.5), gpus=2)
    ended(blue, bob, at=20, ran=(100,), gpus=1)
    return {
        "ann": ann,
        "bob": bob,
        "boss": boss,
        "eve": make_user("eve"),
        "root": make_user("root", admin=True),
        "red": red,
        "blue": blue,
    }


def read(api: Api, params: dict[str, str]) -> Any:
    return api.get(f"/simulations/trace?{urlencode(params)}")


def trace(api: Api, **params: str) -> list[dict[str, str]]:
    answer = read(api, {**WINDOW, **params})
    assert answer.status_code == 200, answer.content
    text = async_to_sync(_content)(answer).decode()
    return list(csv.DictReader(text.splitlines()))


async def _content(answer: Any) -> bytes:
    return b"".join([piece async for piece in answer.streaming_content])


@pytest.mark.django_db(transaction=True)  # it is read in threads
def test_a_trace_has_the_jobs_that_the_caller_may_see(world):
    def users(name: str) -> list[str]:
        return [row["user"] for row in trace(Api(world[name]))]

    assert users("root") == ["ann", "bob", "bob"]
    assert users("boss") == ["ann", "bob"]
    assert users("bob") == ["bob", "bob"]
    assert users("eve") == []
    assert [row["vc"] for row in trace(Api(world["root"]), virtual_cluster="blue")] == ["blue"]
    assert refusal(read(Api(world["eve"]), {"virtual_cluster": "red"})) == (404, "not_found")


@pytest.mark.django_db(transaction=True)  # it is read in threads
def test_a_job_of_a_trace_ran_as_long_as_its_attempts_together(world):
    make_job(world["red"], world["ann"])  # waits
    ended(world["red"], world["ann"], at=30, gpus=0)
    ended(world["red"], world["ann"], at=40, ran=())
    row = trace(Api(world["boss"]))[1]
    assert float(row["duration_s"]) == 90.5
    assert float(row["submit_s"]) == START.timestamp() + 10
    assert (row["gpus"], row["priority"], row["vc"]) == ("2", "10", "red")
    assert row["name"]  # jobs of one name recur
    assert len(trace(Api(world["boss"]))) == 2


@pytest.mark.django_db(transaction=True)  # it is read in threads
def test_a_trace_names_models_of_gpus_as_the_shape_of_the_cluster_does(world):
    """Else a job that asks for its model fits nowhere in the simulation."""
    make_node("node-b", gpus=8, model="H100 80GB")
    job = ended(world["red"], world["ann"], at=30)
    job.roles.update(gpu_model="H100 80GB")
    assert trace(Api(world["ann"]))[-1]["gpu_model"] == "H100-80GB"
    shape = Api(world["ann"]).get("/simulations/cluster").json()["shape"]
    assert "1x8xH100-80GB" in shape.split("+")


@pytest.mark.django_db(transaction=True)  # it is read in threads
def test_a_trace_is_read_in_pieces_without_a_job_twice(world, monkeypatch):
    monkeypatch.setattr(history, "PIECE", 2)
    for _ in range(4):
        ended(world["blue"], world["bob"], at=20)  # all at one moment
    found = [row["id"] for row in trace(Api(world["root"]))]
    assert len(found) == len(set(found)) == 7


def test_a_window_is_bounded_and_begins_before_it_ends(world):
    api = Api(world["root"])
    backwards = {"since": WINDOW["until"], "until": WINDOW["since"]}
    assert refusal(read(api, backwards)) == (400, "invalid")
    long = {"since": "2020-01-01T00:00:00Z"}
    assert refusal(read(api, long)) == (400, "invalid")


def test_the_cluster_is_shown_with_the_virtual_clusters_of_the_caller(world):
    def owned(name: str) -> dict[str, int]:
        body = Api(world[name]).get("/simulations/cluster").json()
        assert body["shape"] == "1x8xA100"
        return {row["virtual_cluster"]: row["gpus"] for row in body["owned"]}

    assert owned("root") == {"red": 4, "blue": 4}
    assert owned("boss") == {"red": 4}
    assert owned("eve") == {}


def ask(api: Api, **fields: Any) -> dict[str, Any]:
    answer = api.post("/simulations", {**WINDOW, "policies": ["fifo"], **fields})
    assert answer.status_code == 201, answer.content
    body: dict[str, Any] = answer.json()
    return body


def answered(api: Api, asked: dict[str, Any]) -> dict[str, Any]:
    running.run_next()
    body: dict[str, Any] = api.get(f"/simulations/{asked['id']}").json()
    return body


def test_a_vc_admin_compares_policies_on_the_history_of_the_virtual_cluster(world):
    api = Api(world["boss"])
    asked = ask(api, virtual_cluster="red", policies=["fifo", "priority_ageing"])
    assert asked["state"] == "QUEUED"
    body = answered(api, asked)
    assert (body["state"], body["error"]) == ("SUCCEEDED", None)
    assert (body["jobs_ended"], body["jobs_total"]) == (4, 4)
    fifo, default = (run["figures"] for run in body["runs"])
    assert (fifo["policy"], default["policy"]) == ("fifo", "priority_ageing")
    # 4 GPUs: the second job waits for the first one, which runs for an hour.
    assert (fifo["jobs"], fifo["finished"]) == (2, 2)
    assert fifo["avg_jct_s"] == pytest.approx((3600 + 3590 + 90.5) / 2)
    assert body["runs"][0]["series"][0] == [0, 0, 4]


def test_a_change_is_shown_beside_the_cluster_as_it_is(world):
    api = Api(world["boss"])
    change = {"gpu_model": "A100", "gpus": 4}
    body = answered(api, ask(api, virtual_cluster="red", changes=[change]))
    before, after = body["runs"]
    assert (before["scenario"], after["scenario"]) == ("as_is", "changed")
    assert before["figures"]["avg_wait_s"] == pytest.approx(3590 / 2)
    assert after["figures"]["avg_wait_s"] == 0


def test_an_admin_simulates_all_virtual_clusters_each_with_what_it_owns(world):
    api = Api(world["root"])
    take = {"virtual_cluster": "red", "gpu_model": "A100", "gpus": -2}
    body = answered(api, ask(api, changes=[take]))
    before, after = (run["figures"] for run in body["runs"])
    assert (before["jobs"], before["finished"]) == (3, 3)
    assert after["finished"] == 2, "the job of 4 GPUs fits no more into what red owns"


def test_a_virtual_cluster_of_a_change_is_no_option_of_the_simulator(world):
    api = Api(world["root"])
    make_vc("--watch")
    new = {"virtual_cluster": "--watch", "gpu_model": "A100", "gpus": 8}
    body = answered(api, ask(api, changes=[new]))
    assert (body["state"], len(body["runs"])) == ("SUCCEEDED", 2)


def test_what_a_killed_worker_left_on_the_disk_is_removed(world, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name, age in (("skep-simulation-old", 2 * running.LEFT_S), ("skep-simulation-new", 0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "history.csv").touch()
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    api = Api(world["boss"])
    assert answered(api, ask(api, virtual_cluster="red"))["state"] == "SUCCEEDED"
    assert [path.name for path in tmp_path.iterdir()] == ["skep-simulation-new"]


def test_equal_questions_have_equal_answers(world):
    api = Api(world["boss"])
    made_up = {"source": "made_up", "jobs": 50, "seed": 7, "placement": "nodes"}
    first, second = (
        answered(api, ask(api, virtual_cluster="red", policies=["srtf"], **made_up))["runs"]
        for _ in range(2)
    )
    assert first == second
    assert first[0]["figures"]["jobs"] == 50


def test_only_those_who_manage_a_virtual_cluster_simulate_it(world):
    body = {"policies": ["fifo"], "virtual_cluster": "red"}
    assert refusal(Api(world["ann"]).post("/simulations", body)) == (403, "forbidden")
    assert refusal(Api(world["eve"]).post("/simulations", body)) == (404, "not_found")
    whole = {"policies": ["fifo"]}
    assert refusal(Api(world["boss"]).post("/simulations", whole)) == (403, "forbidden")
    asked = ask(Api(world["root"]))
    assert refusal(Api(world["boss"]).get(f"/simulations/{asked['id']}")) == (404, "not_found")
    assert Api(world["boss"]).get("/simulations").json()["results"] == []
    listed = Api(world["root"]).get("/simulations").json()["results"]
    assert [row["id"] for row in listed] == [asked["id"]]


def test_a_user_has_one_simulation_at_a_time_and_may_stop_it(world):
    api = Api(world["boss"])
    asked = ask(api, virtual_cluster="red")
    again = api.post("/simulations", {"policies": ["fifo"], "virtual_cluster": "red"})
    assert refusal(again) == (409, "simulation_active")
    assert api.post(f"/simulations/{asked['id']}/stop").json()["state"] == "STOPPED"
    running.run_next()
    assert api.get(f"/simulations/{asked['id']}").json()["runs"] == []
    ask(api, virtual_cluster="red")


def test_a_running_simulation_stops_when_it_is_asked_to(world, monkeypatch):
    api = Api(world["boss"])
    monkeypatch.setattr(running, "LOOK_S", 0.0)
    store, begun = services.progress, list[subprocess.Popen[bytes]]()
    begin = subprocess.Popen

    def started(*args: Any, **options: Any) -> subprocess.Popen[bytes]:
        begun.append(begin(*args, **options))
        begun[-1].send_signal(signal.SIGSTOP)  # it must not end by itself meanwhile
        return begun[-1]

    def asked_meanwhile(*args: Any) -> bool:
        if begun:
            Simulation.objects.update(stop_requested=True)
        return store(*args)

    asked = ask(api, virtual_cluster="red", policies=["fifo"])
    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(services, "progress", asked_meanwhile)
    assert answered(api, asked)["state"] == "STOPPED"
    assert [process.returncode for process in begun] == [-signal.SIGKILL]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"policies": ["lottery"]}, "unknown_policy"),
        ({"policies": ["fifo:backfill=never"]}, "bad_policy_parameter"),
        ({"policies": ["priority_ageing"], "placement": "nodes"}, "policy_not_in_preset"),
        ({"policies": []}, "invalid"),
        ({"source": "made_up", "jobs": 3000}, "invalid"),
        ({"changes": [{"virtual_cluster": "blue", "gpu_model": "A100", "gpus": 1}]}, "invalid"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(world, fields, code):
    body = {"policies": ["fifo"], "virtual_cluster": "red", **fields}
    assert refusal(Api(world["boss"]).post("/simulations", body)) == (400, code)


@pytest.mark.parametrize(
    ("fields", "code", "said"),
    [
        ({"policies": ["fifo", "fifo"]}, "duplicate_policy", "fifo is named twice"),
        (
            {"changes": [{"virtual_cluster": "gren", "gpu_model": "A100", "gpus": 1}]},
            "unknown_virtual_cluster",
            "There is no virtual cluster gren",
        ),
        (
            {"changes": [{"gpu_model": "A100", "gpus": -4}]},
            "gpus_not_owned",
            "GPUs that no one owns cannot be taken away",
        ),
        (
            {"changes": [{"virtual_cluster": "red", "gpu_model": "H100", "gpus": -1}]},
            "gpus_not_owned",
            "red owns 0 GPUs of the model H100",
        ),
        (
            {"changes": [{"virtual_cluster": "red", "gpu_model": "A100", "gpus": -3}] * 2},
            "gpus_not_owned",
            "red owns 1 GPUs of the model A100",
        ),
    ],
)
def test_a_question_whose_change_would_do_nothing_is_refused(world, fields, code, said):
    answer = Api(world["root"]).post("/simulations", {**WINDOW, "policies": ["fifo"], **fields})
    assert refusal(answer) == (400, code)
    assert said in answer.json()["message"]
    assert not Simulation.objects.exists()


def test_a_policy_may_be_compared_with_itself_under_other_parameters(world):
    asked = ask(Api(world["root"]), policies=["sjf", "sjf:backfill=block"])
    assert asked["state"] == "QUEUED"


def test_a_simulation_that_cannot_be_run_says_why(world, monkeypatch):
    api = Api(world["boss"])

    def code(**fields: Any) -> str:
        body = answered(api, ask(api, virtual_cluster="red", **fields))
        assert body["state"] == "FAILED"
        found: str = body["error"]["code"]
        return found

    empty = {"since": "2026-09-01T00:00:00Z", "until": "2026-09-02T00:00:00Z"}
    assert code(**empty) == "no_jobs"
    monkeypatch.setitem(running.MOST_JOBS, "cells", 1)
    assert code() == "too_many_jobs"
    monkeypatch.setattr(running, "MOST_S", 0.0)
    made_up = {"source": "made_up", "jobs": 20, "placement": "nodes"}
    assert code(**made_up) == "simulation_too_large"
    monkeypatch.setattr(running, "MOST_S", 300.0)
    monkeypatch.setattr(running, "MOST_MIB", 1)
    assert code(**made_up) == "simulation_too_large"


def test_a_simulation_whose_worker_is_gone_fails_and_the_next_one_runs(world):
    api, other = Api(world["boss"]), Api(world["root"])
    asked, waiting = ask(api, virtual_cluster="red"), ask(other)
    assert services.claim() is not None
    assert services.claim() is None, "one runs at a time"
    Simulation.objects.filter(pk=asked["id"]).update(
        alive_at=timezone.now() - services.LOST_AFTER - timedelta(seconds=1)
    )
    assert answered(other, waiting)["state"] == "SUCCEEDED"
    lost = api.get(f"/simulations/{asked['id']}").json()
    assert (lost["state"], lost["error"]["code"]) == ("FAILED", "worker_lost")


def test_old_simulations_are_deleted(world):
    api = Api(world["boss"])
    asked = ask(api, virtual_cluster="red")
    services.tidy()
    assert Simulation.objects.count() == 1
    Simulation.objects.filter(pk=asked["id"]).update(
        state="STOPPED", finished_at=timezone.now() - services.KEPT - timedelta(days=1)
    )
    services.tidy()
    assert Simulation.objects.count() == 0


def test_of_many_simulations_of_a_user_the_newest_are_kept(world, monkeypatch):
    monkeypatch.setattr(services, "MOST_KEPT", 2)
    for _ in range(4):
        services.stop(Simulation.objects.get(pk=ask(Api(world["root"]))["id"]))
    newest = list(Simulation.objects.order_by("-pk").values_list("pk", flat=True)[:2])
    services.tidy()
    assert list(Simulation.objects.order_by("-pk").values_list("pk", flat=True)) == newest


def test_simulations_of_a_user_are_found_by_an_index(world):
    """Tidying, and the deletion of a user, would else read all of them."""
    rows = Simulation.objects.filter(owner=world["root"], finished_at__isnull=False)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        cursor.execute("SET LOCAL enable_sort = off")
    assert "simulation_by_owner" in rows.order_by("-created_at")[:2].explain()


def test_the_list_needs_few_queries_however_long_it_is(world):
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as found:
            Api(world["root"]).get("/simulations")
        return len(found)

    services.stop(Simulation.objects.get(pk=ask(Api(world["root"]))["id"]))
    few = queries()
    for _ in range(3):
        services.stop(Simulation.objects.get(pk=ask(Api(world["root"]))["id"]))
    assert queries() == few
