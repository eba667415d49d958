"""Gavel's rules: the value of each program is the best one, and shares fit the cluster."""

from __future__ import annotations

import sys
from itertools import combinations
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.policies.gavel import fifo, finish_time, gandiva, max_min, totals
from skep_scheduler.policies.gavel.problem import Job, ShareProblem, Shares, isolated, proportional
from skep_scheduler.policies.gavel.program import Program, SolverMissing

TYPES = ("v100", "k80")
RATES = st.tuples(st.integers(1, 20), st.integers(1, 20))
KINDS = {"a": (1, (10.0, 2.0)), "b": (1, (6.0, 5.0)), "c": (2, (9.0, 0.0)), "d": (2, (8.0, 3.0))}
BESIDE = {
    (one, two): tuple(
        (0.65 * a, 0.65 * b) for a, b in zip(KINDS[one][1], KINDS[two][1], strict=True)
    )
    for one in KINDS
    for two in KINDS
    if KINDS[one][0] == KINDS[two][0]
}
KINDS_OF_JOBS = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=12)


def made_of(kinds: list[str], gpus: tuple[int, ...] = (3, 4)) -> ShareProblem:
    jobs = [
        Job(number, kind, *KINDS[kind], left=100.0 * (number + 1), elapsed=10.0 * number)
        for number, kind in enumerate(kinds)
    ]
    return ShareProblem(TYPES, gpus, jobs, BESIDE)


def speed(problem: ShareProblem, shares: Shares, job: Job) -> float:
    """The steps per second of a job under shares."""
    jobs = {other.number: other for other in problem.jobs}
    total = 0.0
    for key, parts in shares.items():
        if key == (job.number,):
            total += sum(part * rate for part, rate in zip(parts, job.rates, strict=True))
        elif job.number in key:
            rates = problem.pair(jobs[key[0]], jobs[key[1]])
            assert rates is not None
            at = key.index(job.number)
            total += sum(part * both[at] for part, both in zip(parts, rates, strict=True))
    return total


def best_of_all_corners(problem: ShareProblem) -> float:
    """The least normalised rate at the best corner of all, by trying each."""
    jobs, types = problem.jobs, len(problem.gpus)
    columns = len(jobs) * types + 1
    rows, limits = [-np.eye(columns)[at] for at in range(columns - 1)], [0.0] * (columns - 1)
    for place, job in enumerate(jobs):
        time, least = np.zeros(columns), np.zeros(columns)
        mine = slice(place * types, (place + 1) * types)
        time[mine] = 1.0
        least[mine] = [-rate * job.gpus / proportional(problem, job) for rate in job.rates]
        least[-1] = 1.0
        rows += [time, least]
        limits += [1.0, 0.0]
    for at, gpus in enumerate(problem.gpus):
        used = np.zeros(columns)
        used[at:-1:types] = [job.gpus for job in jobs]
        rows.append(used)
        limits.append(float(gpus))
    matrix, right = np.array(rows), np.array(limits)
    chosen = np.array(list(combinations(range(len(rows)), columns)))
    systems = matrix[chosen]
    good = np.abs(np.linalg.det(systems)) > 1e-9
    corners = np.linalg.solve(systems[good], right[chosen[good]][..., None])[..., 0]
    inside = (corners @ matrix.T <= right + 1e-7).all(axis=1)
    return float(corners[inside][:, -1].max())


@settings(max_examples=15, deadline=None)
@given(st.lists(RATES, min_size=3, max_size=3), st.tuples(st.integers(1, 2), st.integers(1, 2)))
def test_no_corner_of_the_program_is_fairer(
    rates: list[tuple[int, int]], gpus: tuple[int, int]
) -> None:
    jobs = [
        Job(at, ("kind", own), 1, (float(own[0]), float(own[1]))) for at, own in enumerate(rates)
    ]
    problem = ShareProblem(TYPES, gpus, jobs)
    found = max_min.objective(problem, max_min.max_min(problem))
    assert found == pytest.approx(best_of_all_corners(problem), rel=1e-4)


RULES = {
    "max_min": max_min.max_min,
    "max_min_agnostic": max_min.max_min_agnostic,
    "max_min_packed": max_min.max_min_packed,
    "water_filling": max_min.water_filling,
    "ftf": lambda problem: finish_time.Ftf()(problem),
    "ftf_agnostic": lambda problem: finish_time.Ftf(agnostic=True)(problem),
    "min_makespan": totals.min_makespan,
    "min_makespan_packed": totals.min_makespan_packed,
    "max_sum": totals.max_sum,
    "cost": totals.Cost((2.0, 1.0)),
    "gandiva": lambda problem: gandiva.EqualTime(Random(1))(problem),
    "fifo_perf": fifo.fifo_perf,
    "fifo_packed": fifo.fifo_packed,
}


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=10, deadline=None)
@given(KINDS_OF_JOBS)
def test_shares_fit_the_jobs_and_the_cluster(name: str, kinds: list[str]) -> None:
    problem = made_of(kinds)
    shares = RULES[name](problem)
    assert shares == RULES[name](problem)
    for job in problem.jobs:
        assert sum(sum(parts) for key, parts in shares.items() if job.number in key) <= 1 + 1e-5
    for at, gpus in enumerate(problem.gpus):
        used = sum(parts[at] * problem.jobs[key[0]].gpus for key, parts in shares.items())
        assert used <= gpus + 1e-4


@settings(max_examples=10, deadline=None)
@given(KINDS_OF_JOBS)
def test_packing_and_water_filling_make_no_job_poorer_than_the_poorest(kinds: list[str]) -> None:
    problem = made_of(kinds)
    least = max_min.objective(problem, max_min.max_min(problem))
    filled = max_min.water_filling(problem)
    assert max_min.objective(problem, filled) == pytest.approx(least, rel=1e-4)
    assert max_min.objective(problem, max_min.max_min_packed(problem)) >= least * (1 - 1e-4)
    total = sum(speed(problem, filled, job) / proportional(problem, job) for job in problem.jobs)
    assert total >= least * sum(1 / job.gpus for job in problem.jobs) * (1 - 1e-4)


@settings(max_examples=10, deadline=None)
@given(KINDS_OF_JOBS)
def test_no_new_job_is_slower_than_on_its_own_part_of_the_cluster(kinds: list[str]) -> None:
    problem = made_of(kinds)
    jobs = [Job(job.number, job.kind, job.gpus, job.rates, job.left) for job in problem.jobs]
    problem = ShareProblem(TYPES, problem.gpus, jobs)
    shares = finish_time.Ftf()(problem)
    for job in jobs:
        assert speed(problem, shares, job) >= isolated(problem, job) * (1 - 1e-3)


def test_finish_time_fairness_counts_what_a_job_took_so_far() -> None:
    problem = ShareProblem(
        ("v100",), (1,), [Job(0, "a", 1, (1.0,), 50.0, 300.0), Job(1, "a", 1, (1.0,), 50.0)]
    )
    rule = finish_time.Ftf()
    shares = rule(problem)
    assert shares[0,][0] > 0.7 > shares.get((1,), (0.0,))[0]


def test_all_jobs_end_within_the_makespan() -> None:
    problem = made_of(["a", "b", "c", "d", "a"])
    least = totals.makespan(problem, [[job] for job in problem.jobs], packed=False)
    shares = totals.min_makespan(problem)
    ends = [job.left / speed(problem, shares, job) for job in problem.jobs]
    assert max(ends) <= totals.halved(least) * (1 + 1e-4)
    assert least <= totals.halved(least) <= max(least, 100.0) * 1.05 * 1.01


def last_end(problem: ShareProblem, shares: Shares) -> float:
    return max(job.left / speed(problem, shares, job) for job in problem.jobs)


@settings(max_examples=10, deadline=None)
@given(KINDS_OF_JOBS)
def test_packing_makes_no_last_job_later(kinds: list[str]) -> None:
    """Jobs of one kind have different lengths here: a long one keeps its GPUs for itself."""
    problem = made_of(kinds)
    alone = totals.makespan(problem, [[job] for job in problem.jobs], packed=False)
    assert last_end(problem, totals.min_makespan_packed(problem)) <= alone * (1 + 1e-3)


def test_jobs_beyond_the_longest_divide_the_time_of_their_kind_by_what_they_have_to_go() -> None:
    problem = made_of(["a", "b"] * 50, (8, 8))
    shares = totals.min_makespan_packed(problem)
    for job in problem.jobs:
        assert sum(sum(parts) for key, parts in shares.items() if job.number in key) <= 1 + 1e-5
    alone = totals.makespan(problem, [[job] for job in problem.jobs], packed=False)
    assert last_end(problem, shares) < 0.9 * alone


def test_cost_prefers_the_cheap_type_and_a_deadline_the_fast_one() -> None:
    job = Job(0, "a", 1, (10.0, 4.0), left=900.0, due=100.0)
    problem = ShareProblem(TYPES, (1, 1), [job])
    assert totals.Cost((4.0, 1.0))(problem)[0,] == pytest.approx((0.0, 1.0), abs=1e-4)
    fast = totals.Cost((4.0, 1.0), slo=True)(problem)
    assert speed(problem, fast, job) >= 9.0 * (1 - 1e-4)
    late = ShareProblem(TYPES, (1, 1), [Job(0, "a", 1, (10.0, 4.0), left=9000.0, due=100.0)])
    assert totals.Cost((4.0, 1.0), slo=True)(late) == totals.Cost((4.0, 1.0))(late)


def test_the_largest_total_is_where_each_job_gains_most() -> None:
    jobs = [Job(0, "a", 1, (10.0, 9.0)), Job(1, "b", 1, (8.0, 1.0))]
    shares = totals.max_sum(ShareProblem(TYPES, (1, 1), jobs))
    assert shares[0,] == pytest.approx((0.0, 1.0), abs=1e-3)
    assert shares[1,] == pytest.approx((1.0, 0.0), abs=1e-3)


def test_las_of_equal_sizes_spreads_all_jobs_alike() -> None:
    jobs = [Job(number, "a", 1, (1.0, 9.0)) for number in range(8)]
    shares = max_min.max_min_agnostic(ShareProblem(TYPES, (1, 3), jobs))
    assert set(shares.values()) == {(0.125, 0.375)}


def test_fifo_keeps_the_type_of_a_job_for_life_and_hands_on_its_place() -> None:
    rule = fifo.FifoForLife(Random(0))
    jobs = [Job(number, "a", 1, (1.0, 1.0)) for number in range(4)]
    first = rule(ShareProblem(TYPES, (1, 2), jobs[:3]))
    assert first[0,] == (1.0, 0.0)  # the last type by name
    second = rule(ShareProblem(TYPES, (1, 2), jobs[1:]))
    assert second[3,] == first[0,]
    assert second[1,] == first[1,]


def test_fifo_by_rates_takes_the_fastest_type_that_is_free() -> None:
    jobs = [Job(0, "a", 1, (5.0, 1.0)), Job(1, "b", 1, (2.0, 3.0)), Job(2, "b", 2, (9.0, 1.0))]
    assert fifo.fifo_perf(ShareProblem(TYPES, (1, 2), jobs)) == {(0,): (1.0, 0.0), (1,): (0.0, 1.0)}


def test_fifo_packs_a_waiting_job_where_both_gain_half_as_much_again() -> None:
    def packed(gain: float) -> Shares:
        jobs = [Job(number, "a", 1, (10.0,)) for number in range(2)]
        rates = {("a", "a"): ((10 * gain, 10 * gain),)}
        return fifo.fifo_packed(ShareProblem(("v100",), (1,), jobs, rates))

    assert packed(0.8) == {(0, 1): (1.0,)}
    assert packed(0.7) == {(0,): (1.0,)}


def test_gandiva_packs_only_when_gpus_are_short_and_keeps_its_pairs() -> None:
    rule = gandiva.EqualTime(Random(3))
    assert set(rule(made_of(["a"] * 7))) == {(number,) for number in range(7)}
    short = rule(made_of(["a"] * 10))
    assert sum(len(key) for key in short) == 10
    assert any(len(key) == 2 for key in short)
    assert rule(made_of(["a"] * 10)) == short


def test_the_solver_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    max_min.max_min(made_of(["a", "b"]))
    assert capfd.readouterr() == ("", "")


def test_without_the_solver_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(SolverMissing, match=r"skep\[policies\]"):
        max_min.max_min(made_of(["a"]))


def test_a_program_that_changes_is_solved_like_a_new_one() -> None:
    """Also where it goes on from the vertex before."""
    program = Program()
    columns = [program.column(1.0), program.column(2.0)]
    row = program.row(zip(columns, (1.0, 1.0), strict=True), high=4.0)
    assert program.solve(centre=False) == pytest.approx([0.0, 4.0])
    program.change(row, zip(columns, (0.5, 2.0), strict=True))
    assert program.solve(centre=False) == pytest.approx([8.0, 0.0])
    program.row([(columns[0], 1.0)], high=2.0)
    assert program.solve(centre=False) == pytest.approx([2.0, 1.5])
