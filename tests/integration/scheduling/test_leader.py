"""Schedulers and beats of which one leads: who dies makes way, who hangs makes way, and nothing is
placed twice."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest
from tests.support.gateway_server import wait_until
from tests.support.jobs_world import state_of, states_of, submit
from tests.support.platform_factories import make_node, make_user, make_vc
from tests.support.worker_process import BEAT, START_S, CeleryProcess, leader

from skep_platform.core import notifications
from skep_platform.core.leadership import LEASE_S, RENEW_S, Leader
from skep_platform.core.models import Leadership
from skep_platform.jobs.models import Job, Lease, TaskAttempt
from skep_platform.scheduling.standby import LOOK_S

pytestmark = pytest.mark.django_db(transaction=True)
SCHEDULING = "scheduler"


@pytest.fixture
def schedulers(transactional_db) -> Iterator[dict[int, CeleryProcess]]:
    """Two, of which the first leads, by process id."""
    with ExitStack() as stack:
        first = stack.enter_context(CeleryProcess())
        second = stack.enter_context(CeleryProcess())
        wait_until(leader, "one leads", START_S)
        found = {process.pid: process for process in (first, second)}
        for process in found.values():
            started = partial(has_started, process)
            wait_until(started, "it leads or stands by", START_S)
        yield found


def has_started(process: CeleryProcess) -> bool:
    return "leads" in process.said or "stands_by" in process.said


def present_leader() -> int:
    """Return its process id. On a busy machine there is none for a moment, when it renews late."""
    wait_until(leader, "one leads", START_S)
    return leader() or present_leader()


def placed_once(jobs: list[Job]) -> None:
    assert {tuple(states_of(job)) for job in jobs} == {("ASSIGNED", "ASSIGNED")}
    assert set(Job.objects.values_list("attempt", flat=True)) == {1}
    assert TaskAttempt.objects.count() == 2 * len(jobs)
    assert Lease.objects.filter(released_at=None).count() == 2 * len(jobs)


def test_a_standby_takes_over_within_five_seconds_by_its_settings():
    assert LEASE_S + RENEW_S + LOOK_S < 5


def test_a_killed_or_stopped_scheduler_makes_way_and_no_gang_is_placed_twice(schedulers):
    alice = make_user("alice")
    vc = make_vc("vision", quotas={"A100": 64}, members=[alice])
    for i in range(4):
        make_node(f"gpu-{i}", gpus=8)
    jobs = [submit(alice, vc, instances=2) for _ in range(3)]
    wait_until(lambda: all(states_of(job) for job in jobs), "the leader placed them")

    hung = present_leader()
    schedulers[hung].signal(signal.SIGSTOP)
    jobs.append(submit(alice, vc, instances=2))  # its hint waits for a process that is stopped
    wait_until(lambda: states_of(jobs[-1]), "the standby placed it")
    assert present_leader() != hung
    schedulers[hung].signal(signal.SIGCONT)
    schedulers[hung].wait_for("leads_no_longer")

    killed = present_leader()
    schedulers[killed].signal(signal.SIGKILL)
    jobs += [submit(alice, vc, instances=2) for _ in range(3)]
    wait_until(lambda: all(states_of(job) for job in jobs), "the other one placed them")
    assert present_leader() in schedulers.keys() - {killed}
    placed_once(jobs)
    assert Leadership.objects.get(role=SCHEDULING).term >= 3


def test_a_scheduler_that_is_stopped_in_order_makes_way_at_once(schedulers):
    former = present_leader()
    schedulers[former].signal(signal.SIGTERM)
    assert leader() != former
    alice = make_user("alice")
    make_node("gpu-1", gpus=2)
    job = submit(alice, make_vc("vision", quotas={"A100": 2}, members=[alice]))
    wait_until(lambda: states_of(job), "the other one placed it")
    assert state_of(job) == "WAITING"


def test_of_two_beats_one_sends_and_a_killed_one_makes_way(transactional_db):
    def sent() -> int:
        return int(notifications.valkey().llen("skep:scheduler"))

    with CeleryProcess(BEAT) as first:
        wait_until(lambda: leader("beat") == first.pid, "the first leads")
        with CeleryProcess(BEAT) as second:
            second.wait_for("beat: Starting")
            wait_until(sent, "a tick was sent")
            first.signal(signal.SIGKILL)
            notifications.valkey().delete("skep:scheduler")
            wait_until(lambda: leader("beat") == second.pid, "the second leads")
            wait_until(sent, "it sends ticks")


def test_a_role_belongs_to_one_candidate_until_it_is_given_up(db):
    first, second = Leader("test"), Leader("test")
    assert not first.leads()
    assert first.claim()
    assert first.leads()
    assert not second.claim()
    assert first.claim()
    first.resign()
    assert not first.leads()
    assert second.claim()
    assert (first.term, second.term) == (1, 2)
    assert not first.claim()


def test_a_leader_whose_work_hangs_makes_way_although_its_process_lives(transactional_db):
    first, second = Leader("test", stuck_s=0.0), Leader("test")
    first.start()
    try:
        wait_until(first.leads, "the first leads", START_S)
        with first.working():
            wait_until(second.claim, "the second leads", START_S)
            assert not first.leads()
            assert second.claim()  # its lease is of this moment
        assert not first.claim()
    finally:
        second.resign()
        first.resign()
