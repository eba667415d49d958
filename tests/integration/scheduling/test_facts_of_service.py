"""What the scheduler reads of a gang's past: predicted duration, attained service, progress."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.integration.scheduling.test_world import History
from tests.support.jobs_world import attempts_of, partly_placed, placed, ran, report, submit, tick
from tests.support.platform_factories import make_node, make_user, make_vc, release

from skep_platform.jobs.models import Job, Lease, TaskAttempt
from skep_platform.scheduling import ended_services, read_facts
from skep_platform.scheduling.models import AttainedService
from skep_platform.scheduling.source import StateSource

pytestmark = pytest.mark.django_db


def test_shortest_first_orders_a_live_queue_by_predicted_durations(admin, alice):
    newcomer = make_user("newcomer")
    vc = make_vc("vision", members=[alice, newcomer], quotas={"A100": 1})
    make_node("gpu-1", gpus=1)
    assert admin.patch("/virtual-clusters/vision", {"policy": {"name": "sjf"}}).status_code == 200
    for name, seconds in (("long", 9000), ("short", 30)):
        ran(alice, vc, f"{name}-1", seconds)
    jobs = [(newcomer, "first"), (alice, "long-2"), (alice, "short-2")]
    unknown, long, short = (submit(user, vc, name=name) for user, name in jobs)
    order = []
    for _ in range(3):
        (job_id,) = tick()
        order.append(job_id)
        report(attempts_of(Job.objects.get(pk=job_id)), "running", "exited", "released")
    assert order == [str(job.pk) for job in (short, long, unknown)]


def test_gavel_has_the_speeds_that_jobs_declare(admin, alice):
    vc = make_vc("vision", members=[alice], quotas={"A100": 1})
    make_node("gpu-1", gpus=1)
    settings = {"policy": {"name": "gavel", "parameters": {"round_s": 5}}}
    assert admin.patch("/virtual-clusters/vision", settings).status_code == 200
    fast = submit(alice, vc, name="fast", skep={"speeds": {"V100": 1, "A100": 2.2}})
    submit(alice, vc, name="plain")
    source = StateSource()
    assert source.catch_up().waiting[str(fast.pk)].speeds == (("A100", 2.2), ("V100", 1.0))
    (placed,) = tick()
    (waits,) = Job.objects.exclude(pk=placed)
    assert "its share is 0.50 of the time, it has had 0.00" in waits.wait_reason["message"]
    assert StateSource().catch_up().digest() == source.catch_up().digest()


def test_gittins_knows_what_jobs_were_served_that_ended_before_this_hour(admin, alice, monkeypatch):
    vc = make_vc("vision", members=[alice], quotas={"A100": 1})
    make_vc("other", members=[alice], quotas={"A100": 1})
    make_node("gpu-1", gpus=2)
    this_hour = ended_services.hour_now()  # the next one may begin during the test
    monkeypatch.setattr(ended_services, "hour_now", lambda: this_hour)
    served = {}
    for name, ended_h in (("late", 2), ("early", 5), ("now", 0)):
        job = ran(alice, vc, name, 60)
        ended_at = timezone.now() - timedelta(hours=ended_h)
        Job.objects.filter(pk=job.pk).update(finished_at=ended_at)
        known = AttainedService.objects.get_or_create(job=job, defaults={"gpu_s": 60 + ended_h})
        served[name] = known[0].gpu_s
    source = StateSource()
    assert source.catch_up().services == {}  # no policy asks for it
    settings = {"policy": {"name": "tiresias_gittins"}}
    assert admin.patch("/virtual-clusters/vision", settings).status_code == 200
    known = served["early"], served["late"]
    assert source.catch_up().services == {"vision": known}
    assert StateSource().catch_up().services == {"vision": known}
    monkeypatch.setattr(ended_services, "hour_now", lambda: this_hour + 3600)
    assert source.catch_up().services == {"vision": (*known, served["now"])}
    assert source.catch_up().inventory.virtual_clusters[1].services == (*known, served["now"])


def test_earliest_deadline_first_orders_a_live_queue_by_declared_deadlines(admin, alice):
    vc = make_vc("vision", members=[alice], quotas={"A100": 1})
    make_node("gpu-1", gpus=1)
    assert admin.patch("/virtual-clusters/vision", {"policy": {"name": "edf"}}).status_code == 200
    skeps: tuple[dict[str, str], ...] = (
        {},
        {"deadline": "2127-02-01T18:00:00+01:00"},
        {"deadline": "2127-02-01T16:30:00+00:00"},  # half an hour earlier
    )
    without, late, early = (
        submit(alice, vc, name=f"job-{i}", skep=skep) for i, skep in enumerate(skeps)
    )
    source = StateSource()
    assert source.catch_up().waiting[str(early.pk)].deadline_at == early.deadline_at.timestamp()
    order = []
    for _ in range(3):
        (job_id,) = tick()
        order.append(job_id)
        known = source.catch_up().running[job_id].gang.deadline_at
        assert (known is None) == (job_id == str(without.pk))
        assert StateSource().catch_up().digest() == source.state.digest()
        report(attempts_of(Job.objects.get(pk=job_id)), "running", "exited", "released")
    assert order == [str(job.pk) for job in (early, late, without)]


def test_service_of_earlier_attempts_is_attained_and_the_present_one_is_not(alice, vc):
    make_node("gpu-1", gpus=4)
    job = placed(alice, vc, gpus=2, instances=2)
    start = timezone.now() - timedelta(seconds=1000)
    source = StateSource()
    assert source.catch_up().running[str(job.pk)].gang.attained_gpu_s == 0
    job.attempts.update(started_at=start)
    for attempt in attempts_of(job):
        release(attempt)
    job.attempts.update(released_at=start + timedelta(seconds=100))
    Job.objects.filter(pk=job.pk).update(placed_at=None, state="WAITING")
    assert source.catch_up().waiting[str(job.pk)].attained_gpu_s == 400
    assert tick() == {str(job.pk)}
    assert source.catch_up().running[str(job.pk)].gang.attained_gpu_s == 400
    assert StateSource().catch_up().digest() == source.state.digest()


def test_progress_of_a_job_whose_tasks_start_alone_is_the_share_that_succeeded(alice, vc):
    make_node("gpu-1", gpus=4)
    job = partly_placed(alice, vc, tasks=4, placed_tasks=2)
    source = StateSource()
    assert source.catch_up().running[str(job.pk)].gang.progress == 0
    release(attempts_of(job)[0])
    assert source.catch_up().running[str(job.pk)].gang.progress == 0.25
    assert StateSource().catch_up().digest() == source.state.digest()
    whole = placed(alice, vc)
    assert source.catch_up().running[str(whole.pk)].gang.progress is None


def attained(source: StateSource) -> dict[str, float]:
    state = source.catch_up()
    gangs = [*state.waiting.values(), *(held.gang for held in state.running.values())]
    return {gang.id: gang.attained_gpu_s for gang in gangs}


def of_leases(job_id: str) -> float:
    """Return the GPU-seconds of a job by the history of its leases: those that were released."""
    leases = Lease.objects.filter(attempt__job=job_id, released_at__isnull=False)
    rows = leases.values_list("attempt__started_at", "released_at")
    return sum((end - start).total_seconds() for start, end in rows if start is not None)


@pytest.mark.parametrize("seed", [200, 201])
def test_attained_service_agrees_with_the_leases_over_retries_preemptions_and_lost_nodes(seed):
    history, source = History(seed), StateSource()
    for _ in range(60):
        history.step()
        for attempt in TaskAttempt.objects.filter(state="RUNNING", released_at=None):
            hours = timedelta(hours=history.random.randrange(2, 6))
            TaskAttempt.objects.filter(pk=attempt.pk).update(started_at=timezone.now() - hours)
    stored = {str(row.job_id): row.gpu_s for row in AttainedService.objects.all()}
    jobs = [str(pk) for pk in Job.objects.values_list("pk", flat=True)]
    for job_id in jobs:
        assert stored.get(job_id, 0) == pytest.approx(of_leases(job_id), abs=1), history.reported
    assert max(stored.values()) > 3600, history.reported
    known = attained(source)
    assert known == {job_id: stored.get(job_id, 0) for job_id in known}
    assert known == attained(StateSource())  # a restarted scheduler reads the same


def test_service_is_summed_anew_when_a_released_attempt_is_mended_by_hand(alice, vc):
    make_node("gpu-1", gpus=4)
    job = placed(alice, vc, gpus=2)
    start = timezone.now() - timedelta(hours=1)
    job.attempts.update(started_at=start, released_at=start + timedelta(seconds=50))
    service = AttainedService.objects.filter(job=job)
    assert service.get().gpu_s == 100
    job.attempts.update(released_at=start + timedelta(seconds=20))
    assert service.get().gpu_s == 40
    assert service.get().released_at == start + timedelta(seconds=20)
    job.attempts.update(released_at=None)
    assert (service.get().gpu_s, service.get().released_at) == (0, None)


def test_reading_attained_service_takes_no_look_at_the_attempts_of_a_gang(alice, vc):
    """A row per job, in the query that reads the jobs: the number of statements is the same for any
    number of gangs, and none of them reads attempts that are over."""
    make_node("gpu-1", gpus=4)
    counts = []
    for _ in range(2):
        Job.objects.update(awaits_dependencies=True)
        for _ in range(5):
            job = placed(alice, vc, gpus=2)
            job.attempts.update(started_at=timezone.now() - timedelta(hours=1))
            for attempt in attempts_of(job):
                release(attempt)
            Job.objects.filter(pk=job.pk).update(
                state="WAITING", placed_at=None, awaits_dependencies=True
            )
        Job.objects.update(awaits_dependencies=False)
        ids = [str(pk) for pk in Job.objects.values_list("pk", flat=True)]
        with CaptureQueriesContext(connection) as queries:
            gangs = list(read_facts.read_gangs(ids))
        assert len(gangs) == len(ids)
        assert all(known.gang is not None and known.gang.attained_gpu_s > 0 for known in gangs)
        counts.append(len(queries))
        (jobs,) = [q["sql"] for q in queries if "FROM jobs_job j" in q["sql"]]
        assert "scheduling_attainedservice" in jobs
        with connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + jobs)
            (explained,) = cursor.fetchone()
        assert rows_of_attempts(explained) == 0
    assert counts[0] == counts[1] <= 3


def rows_of_attempts(plan: Any) -> int:
    """Return how many rows of attempts an executed plan read."""
    if isinstance(plan, list):
        return sum(rows_of_attempts(part) for part in plan)
    if not isinstance(plan, dict):
        return 0
    mine = plan.get("Relation Name") == "jobs_taskattempt"
    read = plan["Actual Rows"] * plan["Actual Loops"] if mine else 0
    return read + sum(rows_of_attempts(part) for part in plan.values())
