"""Buttons of a job: run it opportunistically, rank it, end its retries, move it, run it again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.support.at_once import just_before
from tests.support.finished_jobs import job_that_ran
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    explain,
    placed,
    report,
    state_of,
    submit,
    tick,
)
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.jobs import queries
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission import admission
from skep_platform.operations import archiving

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _limits_read_anew(monkeypatch):
    """A test before this one may have left the sizes of other nodes, or that there are none."""
    monkeypatch.setattr(admission, "_remembered", (-admission.LIMITS_FRESH_S, None))


@pytest.fixture
def api(alice) -> Api:
    return Api(alice)


@pytest.fixture
def archive_at_once(settings) -> Callable[[], int]:
    settings.SKEP_JOB_ARCHIVE_DAYS = 60
    return archiving.archive_old


@pytest.fixture
def small(alice):
    """A team of four of the eight GPUs of the node."""
    return make_vc("small", quotas={"A100": 4}, members=[alice])


@pytest.fixture
def blocked(alice, small, node):
    """A job that waits for a quota although GPUs of others are idle."""
    placed(alice, small, gpus=4)
    job = submit(alice, small, gpus=4)
    assert tick() == set()
    return Job.objects.get(pk=job.pk)


def fail(job, *, retried: bool = False, **fields) -> None:
    """Fail the only task of the job for good."""
    report(attempts_of(job)[0], "running")
    report(attempts_of(job)[0], "exited", **{"exit_code": 1, **fields})
    explain(job)
    report(attempts_of(job), "released")
    assert state_of(job) == ("WAITING" if retried else "FAILED")


def test_a_waiting_job_starts_at_once_as_opportunistic(api, blocked):
    assert blocked.wait_reason["details"]["opportunistic_now"]
    answer = api.post(f"/jobs/{blocked.pk}/opportunistic")
    assert answer.status_code == 200, answer.content
    assert (answer.json()["priority"], answer.json()["priority_class"]) == (-1, "oppo")
    assert tick() == {str(blocked.pk)}
    assert [a.cell_type for a in attempts_of(blocked)] == [""]
    assert "job.opportunistic" in event_kinds(blocked)
    again = api.post(f"/jobs/{blocked.pk}/opportunistic")
    assert refusal(again) == (409, "not_in_queue")


def test_a_job_that_still_waits_as_opportunistic_gets_its_guarantee_back(api, blocked, alice, vc):
    assert api.post(f"/jobs/{blocked.pk}/opportunistic").status_code == 200
    owner = submit(alice, vc, gpus=4)  # takes the idle GPUs first
    assert tick() == {str(owner.pk)}
    assert refusal(api.post(f"/jobs/{blocked.pk}/opportunistic")) == (409, "job_opportunistic")
    answer = api.put(f"/jobs/{blocked.pk}/priority", {"priority": 50})
    assert (answer.json()["priority"], answer.json()["priority_class"]) == (50, "test")


def test_without_free_gpus_it_keeps_its_place(api, alice, vc, node):
    placed(alice, vc, gpus=8)
    job = submit(alice, vc, gpus=8)
    tick()
    assert refusal(api.post(f"/jobs/{job.pk}/opportunistic")) == (409, "no_free_gpus")
    assert Job.objects.get(pk=job.pk).priority == 10


def test_a_nominated_job_gives_up_its_nomination(api, blocked):
    from skep_platform.scheduling.models import Nomination

    Nomination.objects.create(job_id=blocked.pk, placement=[], victims=[])
    assert api.post(f"/jobs/{blocked.pk}/opportunistic").status_code == 200
    assert tick() == {str(blocked.pk)}
    assert not Nomination.objects.exists()


def test_ended_retries_fail_a_job_in_its_pause_and_end_one_that_runs(api, alice, vc, node):
    waits = placed(alice, vc, retries=5)
    fail(waits, retried=True)
    answer = api.post(f"/jobs/{waits.pk}/end-retries").json()
    assert (answer["state"], answer["retry_at"], answer["retries_ended"]) == ("FAILED", None, True)
    assert answer["exit_reason"]["message"].startswith("Task worker-0")
    assert tick() == set()
    assert refusal(api.post(f"/jobs/{waits.pk}/end-retries")) == (409, "job_ended")

    runs = placed(alice, vc, retries=5)
    assert api.post(f"/jobs/{runs.pk}/end-retries").json()["state"] == "WAITING"
    assert api.post(f"/jobs/{runs.pk}/end-retries").status_code == 200
    fail(runs)
    assert event_kinds(runs).count("job.retries_ended") == 1


def test_a_job_moves_off_its_node_and_avoids_it(api, alice, vc):
    make_node("gpu-1", gpus=1)
    job = placed(alice, vc)
    make_node("gpu-2", gpus=1)
    report(attempts_of(job), "running")
    assert refusal(api.post(f"/jobs/{job.pk}/move", {"node": "gpu-2"})) == (409, "not_on_node")
    answer = api.post(f"/jobs/{job.pk}/move", {"node": "gpu-1"})
    assert answer.json()["preempting"]
    assert answer.json()["wait_reason"]["message"].startswith("alice moved it off gpu-1.")
    assert refusal(api.post(f"/jobs/{job.pk}/move", {"node": "gpu-1"})) == (409, "job_leaving")
    report(attempts_of(job), "exited", exit_code=143)
    report(attempts_of(job), "released")
    assert tick() == {str(job.pk)}
    assert [a.node.name for a in attempts_of(job)] == ["gpu-2"]


def test_a_job_that_ran_out_of_memory_runs_again_with_more(api, alice, vc, node):
    job = placed(alice, vc, memory_mb=3000)
    fail(job, exit_code=137, oom_killed=True)
    more = api.get(f"/jobs/{job.pk}").json()["more_memory"]
    assert more == {"role": "worker", "memory_mb": 3000, "suggested_mb": 8192}
    answer = api.post(f"/jobs/{job.pk}/run-again", {"memory_mb": 8192, "name": "bigger"})
    assert answer.status_code == 201, answer.content
    assert answer.json()["task_roles"][0]["memory_mb"] == 8192
    assert '"memoryMB": 8192' in answer.json()["spec_text"]
    too_much = api.post(f"/jobs/{job.pk}/run-again", {"memory_mb": 8 * 2**20})
    assert refusal(too_much) == (400, "exceeds_node")


def test_a_job_runs_again_elsewhere(api, alice, vc):
    make_node("gpu-1", gpus=1)
    job = placed(alice, vc)
    fail(job)
    make_node("gpu-2", gpus=1)
    answer = api.post(f"/jobs/{job.pk}/run-again", {"elsewhere": True})
    again = Job.objects.get(pk=answer.json()["id"])
    assert list(again.avoid_nodes) == ["gpu-1"]
    assert again.avoid_nodes["gpu-1"] > time.time() + 3600
    assert tick() == {str(again.pk)}
    assert [a.node.name for a in attempts_of(again)] == ["gpu-2"]


def test_others_of_the_team_may_not(alice, vc, node):
    job = placed(alice, vc, skep={"visibility": "members"})
    bob = Api(make_user("bob"))
    vc.memberships.create(user=bob.user, role="member")
    for path, body, code in (
        ("opportunistic", None, "may_not_change"),
        ("end-retries", None, "may_not_change"),
        ("move", {"node": "gpu-1"}, "may_not_change"),
        ("run-again", {}, "may_not_clone"),
    ):
        assert refusal(bob.post(f"/jobs/{job.pk}/{path}", body)) == (403, code)
    ranked = bob.put(f"/jobs/{job.pk}/priority", {"priority": 1})
    assert refusal(ranked) == (403, "may_not_prioritise")


@pytest.mark.parametrize("what", ["stop", "retry", "opportunistic", "end-retries", "move"])
def test_a_job_that_is_archived_at_that_moment_is_not_found(api, alice, archive_at_once, what):
    job = job_that_ran(owner=alice)
    with just_before("FOR NO KEY UPDATE", archive_at_once):
        answer = api.post(f"/jobs/{job.pk}/{what}", {"node": "gpu-1"} if what == "move" else None)
    assert refusal(answer) == (404, "job_archived")


@pytest.mark.parametrize("what", ["stop", "tags"])
def test_a_job_that_is_archived_at_that_moment_holds_up_no_other_of_a_request(
    api, alice, vc, archive_at_once, what
):
    gone, other = job_that_ran(owner=alice), submit(alice, vc)
    body = {"jobs": [str(gone.pk), str(other.pk)]} | ({"add": ["a"]} if what == "tags" else {})
    with just_before("FOR NO KEY UPDATE", archive_at_once):
        answer = api.post(f"/jobs/bulk/{what}", body)
    assert [one["code"] for one in answer.json()["results"]] == ["job_archived", ""]


def test_a_priority_keeps_the_class_that_another_request_has_just_given_back(
    api, blocked, alice, vc
):
    assert api.post(f"/jobs/{blocked.pk}/opportunistic").status_code == 200
    owner = submit(alice, vc, gpus=4)  # takes the idle GPUs first
    assert tick() == {str(owner.pk)}

    def give_back() -> None:
        Job.objects.filter(pk=blocked.pk).update(priority=50, priority_class="test")

    with just_before("FOR NO KEY UPDATE", give_back):
        answer = api.put(f"/jobs/{blocked.pk}/priority", {"priority": 60})
    assert (answer.json()["priority"], answer.json()["priority_class"]) == (60, "test")


def test_the_owner_is_notified_of_a_job_whose_retries_another_one_ended(alice, vc, node):
    job = placed(alice, vc, retries=5)
    fail(job, retried=True)
    answer = Api(make_user(admin=True)).post(f"/jobs/{job.pk}/end-retries")
    assert answer.json()["state"] == "FAILED"
    assert queries.events(job).get(kind="job.failed").notify
