"""Facts from nodes: a job's life, reported in any way that a network allows."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import (
    attempts_of,
    event_kinds,
    explain,
    fact,
    placed,
    report,
    state_of,
    states_of,
    submit,
    tick,
)
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster.models import Node
from skep_platform.core.notifications import TICK_PENDING, valkey
from skep_platform.jobs import queries, services
from skep_platform.jobs.models import Job, Lease, PortLease, TaskAttempt

pytestmark = pytest.mark.django_db


def messages(job) -> list[str]:
    return [event.message for event in queries.events(job).order_by("id")]


def test_a_job_lives_from_the_queue_to_its_end(alice, vc, node):
    job = placed(alice, vc)
    (attempt,) = attempts_of(job)
    assert (state_of(job), job.attempt, attempt.state) == ("WAITING", 1, "ASSIGNED")
    report(attempt, "pulling", pull_percent=40)
    assert (state_of(job), states_of(job)) == ("WAITING", ["PREPARING"])
    report(attempt, "creating", "running")
    job.refresh_from_db()
    assert (job.state, states_of(job)) == ("RUNNING", ["RUNNING"])
    assert job.started_at is not None
    report(attempt, "exited")
    job.refresh_from_db()
    assert (job.state, job.exit_reason["code"]) == ("SUCCEEDED", "succeeded")
    assert job.finished_at is not None
    assert Lease.objects.filter(released_at=None).count() == 1
    report(attempt, "released")
    assert Lease.objects.filter(released_at=None).count() == 0
    attempt.refresh_from_db()
    assert attempt.released_at is not None


def test_its_events_are_its_history(alice, vc, node):
    job = placed(alice, vc)
    for phase in ("pulling", "creating", "running", "exited", "released"):
        report(attempts_of(job), phase)
    texts = messages(job)
    assert texts[:4] == [
        "Submitted to vision: 1 task, 1 GPU. It waits for a place.",
        "Placed on gpu-1 with 1 x A100 that its virtual cluster owns.",
        "Pulling images and creating containers.",
        "The first task runs.",
    ]
    assert texts[4].startswith("Succeeded. The task exited with code 0. It ran for ")
    assert len(texts) == 5


def test_a_failure_is_recorded_with_task_node_and_code(alice, vc, node):
    job = placed(alice, vc, instances=2)
    first, second = attempts_of(job)
    report([first, second], "running")
    report(second, "exited", exit_code=3)
    assert states_of(job) == ["STOPPING", "FAILED"]
    assert messages(job)[-2:] == [
        "Task worker-1 on gpu-1 exited with code 3.",
        "Task worker-1 on gpu-1 exited with code 3. Stopping the other task.",
    ]
    report(first, "exited", exit_code=143)
    explain(job)
    job.refresh_from_db()
    assert (job.state, states_of(job)) == ("FAILED", ["STOPPED", "FAILED"])
    assert job.exit_reason["details"]["exit_code"] == 3
    assert job.exit_reason["details"]["node"] == "gpu-1"


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"exit_code": 137, "oom_killed": True}, "oom_killed", "used more memory"),
        ({"exit_code": 139, "signal": 11}, "task_failed", "signal 11"),
        ({"exit_code": 1}, "task_failed", "exited with code 1"),
    ],
)
def test_the_exit_reason_says_how_it_ended(alice, vc, node, fields, code, sentence):
    job = placed(alice, vc)
    report(attempts_of(job), "exited", **fields)
    job.refresh_from_db()
    assert job.exit_reason["code"] == code
    assert sentence in job.exit_reason["message"]


def test_an_image_that_is_not_found_fails_the_job(alice, vc, node):
    job = placed(alice, vc)
    message = "No such image: test/image:1"
    report(attempts_of(job), "failed", error_code="image_not_found", message=message)
    job.refresh_from_db()
    assert (job.state, job.exit_reason["code"]) == ("FAILED", "image_not_found")
    assert message in job.exit_reason["message"]
    assert job.started_at is None


def test_reporting_everything_again_changes_nothing(alice, vc, node):
    job = placed(alice, vc, instances=2)
    life = [
        fact(attempt, phase, exit_code=0 if phase == "exited" else None)
        for attempt in attempts_of(job)
        for phase in ("pulling", "creating", "running", "exited", "released")
    ]
    services.apply_facts(node.pk, life)
    before = [list(m.objects.order_by("pk").values()) for m in (Job, TaskAttempt, Lease)]
    kinds = event_kinds(job)
    for batch in (life, life[:3], life[4:], list(reversed(life)), life[::2]):
        services.apply_facts(node.pk, batch)
    assert before == [list(m.objects.order_by("pk").values()) for m in (Job, TaskAttempt, Lease)]
    assert event_kinds(job) == kinds


def test_a_whole_life_in_one_batch_leaves_the_whole_history(alice, vc, node):
    job = placed(alice, vc)
    report(attempts_of(job), "pulling", "creating", "running", "exited", "released")
    assert state_of(job) == "SUCCEEDED"
    assert event_kinds(job) == [
        *("job.queued", "job.placed", "job.preparing", "job.started", "job.succeeded"),
    ]


def test_facts_out_of_order_in_a_batch_are_sorted(alice, vc, node):
    job = placed(alice, vc)
    (attempt,) = attempts_of(job)
    facts = [fact(attempt, "running"), fact(attempt, "exited", exit_code=0)]
    services.apply_facts(node.pk, facts[::-1])
    attempt.refresh_from_db()
    assert attempt.state == "SUCCEEDED"
    assert attempt.started_at <= attempt.finished_at


def test_25_facts_about_attempts_of_another_node_are_ignored(alice, vc, node):
    other = make_node("gpu-2", gpus=8)
    job = placed(alice, vc)
    (attempt,) = attempts_of(job)
    stranger = other if attempt.node_id == node.pk else node
    services.apply_facts(stranger.pk, [fact(attempt, "exited", exit_code=0)])
    assert states_of(job) == ["ASSIGNED"]


@pytest.mark.parametrize("epoch", [0, 2, 2**62])
def test_facts_of_another_epoch_are_ignored(alice, vc, node, epoch):
    job = placed(alice, vc)
    (attempt,) = attempts_of(job)
    services.apply_facts(node.pk, [fact(attempt, "exited", exit_code=0, epoch=epoch)])
    assert states_of(job) == ["ASSIGNED"]


@pytest.mark.parametrize("attempt_id", ["", "x", "\0", str(uuid.UUID(int=7))])
def test_26_facts_about_nothing_are_ignored_and_the_others_are_applied(alice, vc, node, attempt_id):
    job = placed(alice, vc)
    (attempt,) = attempts_of(job)
    nonsense = fact(attempt, "exited").model_copy(update={"attempt_id": attempt_id})
    services.apply_facts(node.pk, [nonsense, fact(attempt, "running")])
    assert states_of(job) == ["RUNNING"]


def test_no_facts_are_no_queries(node):
    with CaptureQueriesContext(connection) as captured:
        services.apply_facts(node.pk, [])
    assert len(captured) == 0


@pytest.mark.parametrize("phase", ["pulling", "running", "exited", "failed", "released"])
def test_a_batch_of_400_facts_takes_as_many_queries_as_one(alice, phase):
    vc = make_vc("big", quotas={"A100": 0}, members=[alice])
    node = make_node("cpu-1", gpus=0, cpus=500, memory_mb=4_000_000)
    one = placed(alice, vc, gpus=0, instances=2)
    many = [placed(alice, vc, gpus=0, instances=100) for _ in range(4)]

    def queries_for(attempts) -> int:
        fields = {"exited": {"exit_code": 0}, "failed": {"error_code": "image_not_found"}}
        batch = [fact(attempt, phase, **fields.get(phase, {})) for attempt in attempts]
        with CaptureQueriesContext(connection) as captured:
            services.apply_facts(node.pk, batch)
        return len(captured)

    few = queries_for(attempts_of(one))
    assert queries_for([a for job in many for a in attempts_of(job)]) <= few
    assert few <= 16


def test_facts_of_many_nodes_take_as_many_queries_as_those_of_one_and_stay_apart(alice, vc, node):
    nodes = [node, *(make_node(f"gpu-{i}", gpus=8) for i in range(2, 6))]
    jobs = [placed(alice, vc, gpus=8, instances=1) for _ in nodes]
    attempts = {a.node_id: a for job in jobs for a in attempts_of(job)}
    assert len(attempts) == len(nodes)
    keeps, *others = attempts

    def queries_for(batches) -> int:
        with CaptureQueriesContext(connection) as captured:
            services.apply_facts_of_nodes(batches)
        return len(captured)

    one = queries_for({keeps: [fact(attempts[keeps], "running")]})
    assert queries_for({pk: [fact(attempts[pk], "running")] for pk in others}) == one

    before = dict(Node.objects.values_list("pk", "desired_revision"))
    batches = {pk: [fact(attempts[pk], "exited", exit_code=0)] for pk in others}
    for pk in others:
        batches[pk].append(fact(attempts[pk], "released"))
    stolen = fact(attempts[others[0]], "failed", seq=0, error_code="image_not_found")
    services.apply_facts_of_nodes({**batches, keeps: [stolen]})
    after = Node.objects.values_list("pk", "desired_revision")
    raised = {pk: revision - before[pk] for pk, revision in after}
    assert raised == {keeps: 0, **dict.fromkeys(others, 1)}
    states = {a.node_id: a.state for job in jobs for a in attempts_of(job)}
    assert states == {keeps: "RUNNING", **dict.fromkeys(others, "SUCCEEDED")}


def test_a_release_asks_for_a_tick_and_lets_the_node_forget(alice, vc, node):
    job = placed(alice, vc)
    report(attempts_of(job), "running", "exited")
    valkey().delete(TICK_PENDING)
    before = Node.objects.get(pk=node.pk).desired_revision
    report(attempts_of(job), "released")
    assert Node.objects.get(pk=node.pk).desired_revision == before + 1


@pytest.mark.django_db(transaction=True)
def test_a_release_rings_the_scheduler_after_commit():
    alice = make_user()
    vc = make_vc(quotas={"A100": 8}, members=[alice])
    make_node("gpu-1", gpus=1)
    job = placed(alice, vc)
    valkey().delete(TICK_PENDING)
    report(attempts_of(job), "exited", "released")
    assert valkey().exists(TICK_PENDING)


@pytest.mark.django_db(transaction=True)
def test_nodes_of_one_gang_report_at_the_same_moment():
    alice = make_user()
    vc = make_vc(quotas={"A100": 64}, members=[alice])
    nodes = [make_node(f"gpu-{i}", gpus=2) for i in range(4)]
    job = placed(alice, vc, instances=8)
    batches = {
        node.pk: [
            fact(attempt, phase, exit_code=0 if phase == "exited" else None)
            for attempt in attempts_of(job)
            if attempt.node_id == node.pk
            for phase in ("running", "exited", "released")
        ]
        for node in nodes
    }

    def send(node_id: uuid.UUID) -> None:
        try:
            for one in batches[node_id]:
                services.apply_facts(node_id, [one])
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, batches))
    assert (state_of(job), set(states_of(job))) == ("SUCCEEDED", {"SUCCEEDED"})
    assert not Lease.objects.filter(released_at=None).exists()
    assert not PortLease.objects.filter(released_at=None).exists()
    assert event_kinds(job).count("job.started") == event_kinds(job).count("job.succeeded") == 1


def test_what_is_released_is_given_to_the_next(alice, vc):
    make_node("gpu-1", gpus=1)
    first = placed(alice, vc)
    second = submit(alice, vc)
    assert tick() == set()
    report(attempts_of(first), "running", "exited")
    assert tick() == set()  # the node has not seen the GPU clean
    report(attempts_of(first), "released")
    assert tick() == {str(second.pk)}
