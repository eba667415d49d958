"""Draining a node: nothing new comes, jobs go gracefully and wait in their old place."""

from __future__ import annotations

import pytest
from django.utils import timezone
from tests.support.platform_api import refusal
from tests.support.platform_factories import (
    join_node,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_platform.cells import services
from skep_platform.cluster.models import Node
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle import messages
from skep_platform.jobs.lifecycle.advance import advance
from skep_platform.jobs.lifecycle.job_state import lock
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import AttemptState, JobState

pytestmark = pytest.mark.django_db


def run(vc, owner, devices, **fields):
    """A running job of one task."""
    now = timezone.now()
    job = make_job(vc, owner, state=JobState.RUNNING, attempt=1, placed_at=now, **fields)
    return job, place(job, devices, state=AttemptState.RUNNING)


def test_jobs_of_a_drained_node_go_and_wait_in_their_old_place(admin):
    ann = make_user("ann")
    vc = make_vc(members=[ann])
    devices = list(make_node("alpha", gpus=2).devices.order_by("index"))
    other = list(make_node("beta", gpus=1).devices.all())
    job, attempt = run(vc, ann, devices[:1])
    stays, _ = run(vc, ann, other)
    shown = admin.post("/nodes/alpha/drain").json()
    assert (shown["cordoned"], shown["draining"], shown["empty"]) == (True, True, False)
    attempt.refresh_from_db()
    stays.refresh_from_db()
    assert attempt.state == AttemptState.STOPPING
    assert stays.preempting_at is None
    noted = Event.objects.get(subject_type="job", subject_id=str(job.pk), kind="job.evicted")
    assert "alpha is being drained" in noted.message

    release(attempt, AttemptState.FAILED)
    advance(lock(Job.objects.filter(pk=job.pk)), timezone.now())
    before = job.created_at
    job.refresh_from_db()
    assert (job.state, job.placed_at, job.created_at) == (JobState.WAITING, None, before)
    assert (job.preemptions, job.retries_used) == (1, 0)
    shown = admin.get("/nodes/alpha").json()
    assert (shown["draining"], shown["empty"]) == (False, True)


def test_a_gang_that_was_placed_in_the_same_moment_goes_too(admin):
    ann = make_user()
    vc = make_vc(members=[ann])
    devices = list(make_node("alpha", gpus=1).devices.all())
    admin.post("/nodes/alpha/drain")
    job, _ = run(vc, ann, devices)
    services.evict_all()
    job.refresh_from_db()
    asked = job.preempting_at
    assert asked is not None
    services.evict_all()
    job.refresh_from_db()
    assert job.preempting_at == asked


def test_a_job_that_cannot_be_asked_keeps_no_other_one(admin, monkeypatch):
    ann = make_user()
    vc = make_vc(members=[ann])
    broken, later = (
        run(vc, ann, list(make_node(name, gpus=1).devices.all()))[0] for name in ("a", "b")
    )
    Node.objects.update(cordoned=True, draining=True)
    made = messages.evicted

    def evicted(why: str) -> messages.Reason:
        if "Node a" in why:
            raise ValueError(why)
        return made(why)

    monkeypatch.setattr(messages, "evicted", evicted)
    services.evict_all()
    asked = dict(Job.objects.values_list("pk", "preempting_at"))
    assert [asked[job.pk] is not None for job in (broken, later)] == [False, True]


def test_looking_for_them_is_one_query_when_no_one_stays(admin, django_assert_num_queries):
    make_node("alpha")
    admin.post("/nodes/alpha/drain")
    with django_assert_num_queries(1):
        services.evict_all()


@pytest.mark.parametrize("end", ["undrain", "uncordon"])
def test_a_node_in_use_again_lets_jobs_stay(admin, end):
    ann = make_user()
    devices = list(make_node("alpha", gpus=1).devices.all())
    admin.post("/nodes/alpha/drain")
    shown = admin.post(f"/nodes/alpha/{end}").json()
    assert (shown["cordoned"], shown["draining"]) == (False, False)
    job, _ = run(make_vc(), ann, devices)
    services.evict_all()
    job.refresh_from_db()
    assert job.preempting_at is None


def test_cordon_lets_jobs_stay(admin):
    job, _ = run(make_vc(), admin.user, list(make_node("alpha", gpus=1).devices.all()))
    shown = admin.post("/nodes/alpha/cordon").json()
    assert (shown["draining"], shown["empty"]) == (False, False)
    services.evict_all()
    job.refresh_from_db()
    assert job.preempting_at is None


def test_draining_is_reported_once(admin):
    make_node("alpha")
    for _ in range(2):
        admin.post("/nodes/alpha/drain")
    assert Event.objects.filter(kind="node.drained", actor="root").count() == 1
    assert Node.objects.get(name="alpha").draining


def test_node_that_is_not_there_cannot_be_drained(admin):
    join_node("beta")
    assert refusal(admin.post("/nodes/alpha/drain")) == (404, "not_found")
    assert admin.post("/nodes/beta/drain").json()["empty"]


@pytest.mark.parametrize("action", ["drain", "cordon"])
def test_finding_u30_why_a_node_is_out_of_use_is_shown_with_it(admin, action):
    make_node("alpha", gpus=1)
    shown = admin.post(f"/nodes/alpha/{action}", {"reason": "  new fan on Friday "}).json()
    assert (shown["cordoned"], shown["cordon_reason"]) == (True, "new fan on Friday")
    event = Event.objects.get(subject_type="node", kind__in=["node.drained", "node.cordoned"])
    assert event.message.endswith(": new fan on Friday")
    # Without a reason the one before stays; in use again the node has none.
    assert admin.post("/nodes/alpha/drain").json()["cordon_reason"] == "new fan on Friday"
    assert admin.post("/nodes/alpha/uncordon").json()["cordon_reason"] == ""
    assert refusal(admin.post(f"/nodes/alpha/{action}", {"reason": "x" * 301})) == (400, "invalid")
