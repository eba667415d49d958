"""Rules of AFS, CoDDL, Optimus, Karuna and MLFS on tables of jobs."""

from __future__ import annotations

from math import inf

import pytest

from skep_scheduler.policies.afs import Afs, Coddl, shares
from skep_scheduler.policies.elastic import ElasticFacts
from skep_scheduler.policies.karuna import Karuna, least_share
from skep_scheduler.policies.mlfs import (
    Mlfs,
    StopOption,
    is_overloaded,
    learning,
    predicted_final,
    stop_option,
)
from skep_scheduler.policies.optimus import (
    Optimus,
    epochs_to_converge,
    fit_loss,
    fit_speed,
    non_negative,
)


def job(
    name: str,
    left: float,
    alpha: float = 1.0,
    *,
    gpus: int = 1,
    deadline: float = inf,
    **more: object,
) -> ElasticFacts:
    """A job that makes `gpus ** alpha` of its work a second, and is at its beginning."""
    facts = ElasticFacts(name, 0.0, gpus, lambda n: n**alpha, 64, left, left, deadline)
    for key, value in more.items():
        setattr(facts, key, value)
    return facts


def test_afs_gives_all_to_the_shortest_where_speed_up_is_linear() -> None:
    assert shares([job("a", 100), job("b", 50), job("c", 70)], 8) == {"b": 8}


def test_afs_gives_more_to_the_job_that_uses_it_better_even_if_it_is_longer() -> None:
    given = shares([job("short", 100, 0.2), job("long", 120, 0.9)], 8)
    assert given["long"] > given["short"] >= 1
    assert sum(given.values()) == 8


def test_afs_reads_the_rate_after_the_shorter_job_by_its_parameter() -> None:
    jobs = [job("a", 100), job("b", 200)]
    assert shares(jobs, 3, future="next") == {"a": 2, "b": 1}
    assert Afs(future="next").decide(jobs, 3, 0.0).gpus == {"a": 2, "b": 1}


def test_afs_gives_no_gpu_to_a_job_that_gets_no_faster() -> None:
    flat = ElasticFacts("flat", 0.0, 1, lambda n: min(n, 2), 64, 100, 100)
    assert shares([flat], 8) == {"flat": 2}


def test_coddl_does_not_resize_a_job_again_before_three_times_its_cost() -> None:
    jobs = [job("a", 500, held=6, rescaled_at=100.0, rescale_s=20.0), job("b", 50)]
    sizes = Coddl().decide(jobs, 8, 120.0)
    assert (sizes.gpus, sizes.wake_at) == ({"a": 6, "b": 2}, 160.0)
    assert Coddl().decide(jobs, 8, 160.0).gpus == {"b": 8}


def test_optimus_gives_one_gpu_to_each_and_then_where_most_time_is_saved() -> None:
    jobs = [job("long", 1000), job("short", 10), job("middle", 300)]
    given = Optimus().decide(jobs, 6, 600.0).gpus
    assert given == {"long": 3, "short": 1, "middle": 2}


def test_optimus_changes_nothing_between_two_intervals() -> None:
    sizes = Optimus().decide([job("a", 10, held=3), job("new", 10)], 8, 700.0)
    assert (sizes.gpus, sizes.wake_at) == ({"a": 3, "new": 0}, 1200.0)


def test_optimus_counts_gains_of_early_jobs_less() -> None:
    jobs = [job("early", 100, 0.5), job("late", 98, 0.5, total=1000)]
    assert Optimus().decide(jobs, 3, 0.0).gpus["early"] == 2
    assert Optimus(early_part=0.5).decide(jobs, 3, 0.0).gpus["late"] == 2


def test_a_loss_curve_is_found_again_from_its_points() -> None:
    curve = fit_loss([1 / (0.5 * k + 0.4) + 0.25 for k in range(12)])
    assert curve is not None
    assert curve(100) == pytest.approx(1 / 50.4 + 0.25, abs=0.02)
    assert fit_loss([1.0, 0.5]) is None


def test_convergence_is_never_before_what_is_done_nor_after_what_is_declared() -> None:
    losses = [1 / (0.5 * k + 0.4) for k in range(12)]
    assert epochs_to_converge(losses, 100) == len(losses)
    slow = [1 - k / 100 for k in range(5)]
    assert epochs_to_converge(slow, 8) == 8


def test_speed_is_found_again_from_samples() -> None:
    samples = [(w, 1 / (0.2 * 64 / w + 0.1 + 0.02 * w)) for w in (1, 2, 4, 8)]
    assert fit_speed(samples, 64)(16) == pytest.approx(1 / (0.8 + 0.1 + 0.32))


def test_least_squares_with_no_negative_unknown() -> None:
    assert non_negative([[1.0, 0.0], [0.0, 1.0]], [2.0, -3.0]) == [2.0, 0.0]


def test_karuna_gives_the_least_share_that_meets_a_deadline_while_others_wait() -> None:
    due = job("due", 100, deadline=50.0)
    assert least_share(due, 8, 0.0) == 2
    given = Karuna().decide([due, job("a", 10, gpus=4), job("b", 5, gpus=4)], 8, 0.0).gpus
    assert given == {"due": 4, "b": 4}  # a does not fit, so that what is idle is not wasted
    assert Karuna().decide([due, job("a", 10, gpus=6)], 8, 0.0).gpus == {"due": 2, "a": 6}


def test_karuna_lets_a_job_that_is_too_late_compete_with_the_others() -> None:
    late = job("late", 1000, deadline=10.0, gpus=8)
    assert Karuna().decide([late, job("a", 10, gpus=8)], 8, 0.0).gpus == {"a": 8}


def test_karuna_goes_by_attained_service_where_durations_are_unknown() -> None:
    old = job("old", 1, gpus=8, attained_gpu_s=5000.0)
    new = job("new", 1000, gpus=8, submitted_at=5.0)
    assert Karuna(durations="unknown").decide([old, new], 8, 10.0).gpus == {"new": 8}
    assert Karuna().decide([old, new], 8, 10.0).gpus == {"old": 8}


def test_mlfs_puts_what_is_due_soon_short_or_waiting_first() -> None:
    jobs = [job("plain", 36_000), job("due", 36_000, deadline=60.0), job("short", 10)]
    plain, due, short = Mlfs().priorities(jobs, 0.0)
    assert short > due > plain
    assert list(Mlfs().decide(jobs, 1, 0.0).gpus) == ["short"]
    assert Mlfs(alpha=1.0).priorities([job("new", 10), job("old", 5, total=10)], 0.0)[1] < 0.01


def test_mlfs_counts_how_far_the_last_iteration_lowered_the_loss() -> None:
    assert learning(0, 10, [1.0, 0.6, 0.5]) == pytest.approx(0.1 / 0.5 / 3)
    assert learning(0, 10, [1.0, 1.0]) == 0.0


def test_mlfs_stops_jobs_earlier_only_under_overload_and_as_far_as_they_allow() -> None:
    assert [is_overloaded(1, 0.1), is_overloaded(0, 0.95), is_overloaded(0, 0.5)] == [
        True,
        True,
        False,
    ]
    now = StopOption.ITERATIONS
    assert stop_option(now, StopOption.REQUIRED, overloaded=False) is StopOption.ITERATIONS
    assert stop_option(now, StopOption.REQUIRED, overloaded=True) is StopOption.BEST
    assert stop_option(StopOption.BEST, StopOption.BEST, overloaded=True) is StopOption.BEST
    final = predicted_final([1 / (k + 1) + 0.3 for k in range(9)], 1000)
    assert final == pytest.approx(0.3, abs=0.05)
