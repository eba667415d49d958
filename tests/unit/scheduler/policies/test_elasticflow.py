"""ElasticFlow: minimum satisfactory shares, admission, and spare GPUs."""

from __future__ import annotations

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies.elasticflow import plan_all, share_out
from skep_scheduler.policies.size_plan import ElasticJob, FreeProfile, SizePlan, fill

LEVELS = (1, 2, 4, 8)


def job(name: str, steps: float, deadline: float, *, alpha: float = 0.9) -> ElasticJob:
    """A job that makes `gpus ** alpha` steps a second."""
    return ElasticJob(name, {size: size**alpha for size in LEVELS}, LEVELS, deadline, steps)


def test_a_job_gets_the_least_size_that_meets_its_deadline_as_late_as_possible() -> None:
    profile = FreeProfile(0, 8)
    profile.take(SizePlan([(0, 600, 8)]))
    plan = fill(job("late", 400, 1800, alpha=1.0), profile, 0, 400)
    assert plan.pieces == [(0, 600, 0), (600, 1020, 1)]
    assert (plan.ends_at, plan.met) == (1000, True)

    plan = fill(job("tight", 2000, 1200, alpha=1.0), profile, 0, 2000)
    assert [piece[2] for piece in plan.pieces] == [0, 4]
    assert plan.met


def test_a_job_that_cannot_meet_its_deadline_gets_all_there_is_and_misses() -> None:
    plan = fill(job("hopeless", 9600, 600, alpha=1.0), FreeProfile(0, 8), 0, 9600)
    assert (plan.pieces, plan.met) == ([(0, 1200, 8)], False)


def test_jobs_are_admitted_only_if_every_deadline_is_met() -> None:
    first, second = job("a", 4800, 600, alpha=1.0), job("b", 60, 900, alpha=1.0)
    assert plan_all([first, second], FreeProfile(0, 8))
    assert first.plan.gpus == 8
    assert second.plan.pieces == [(0, 600, 0), (600, 660, 1)]
    assert not plan_all([first, second, job("c", 60, 600)], FreeProfile(0, 8))


def test_idle_gpus_go_to_jobs_without_gpus_first_and_to_no_more_than_they_can_use() -> None:
    jobs = [job("a", 6000, 60_000), job("b", 6000, 90_000)]
    profile = FreeProfile(0, 16)
    plan_all(jobs, profile)
    share_out(jobs, profile)
    assert [job.plan.gpus for job in jobs] == [8, 8]
    assert profile.free[0] == 0


arrivals = st.lists(
    st.tuples(
        st.integers(0, 40),  # slots until it comes
        st.floats(1, 5000),  # steps
        st.floats(1.0, 6.0),  # deadline by its time on one GPU
        st.sampled_from((0.3, 0.7, 1.0)),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda one: one[0],
)


@given(arrivals)
def test_what_is_admitted_never_misses_its_deadline_when_rescaling_is_free(
    drawn: list[tuple[int, float, float, float]],
) -> None:
    """Section 4.1: an admitted set stays feasible, whatever the spare GPUs are used for."""
    now, active = 0.0, list[ElasticJob]()
    coming = sorted(
        (60.0 * slot, job(str(n), steps, 60.0 * slot + steps * slack, alpha=alpha))
        for n, (slot, steps, slack, alpha) in enumerate(drawn)
    )
    while active or coming:
        at = coming[0][0] if coming else inf
        if active:
            at = min(at, *(job.plan.changes_at() for job in active))
        for running in active:
            rate = running.rates.get(running.plan.gpus, 0.0)
            running.left -= rate * (min(at, running.plan.ends_at) - now)
            if running.plan.ends_at <= at:
                assert running.plan.ends_at <= running.deadline + 1e-6
        active = [running for running in active if running.plan.ends_at > at]
        now = at
        new = [coming.pop(0)[1]] if coming and coming[0][0] == now else []
        profile = FreeProfile(now, 8)
        if new and plan_all(active + new, profile):
            active += new
        else:
            profile = FreeProfile(now, 8)
            assert plan_all(active, profile)
        share_out(active, profile)
        assert sum(running.plan.gpus for running in active) <= 8
