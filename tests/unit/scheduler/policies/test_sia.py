"""Sia's rule, the program behind it in three solvers, and the goodput model."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from skep_scheduler.policies import goodput, sia
from skep_scheduler.policies.multiple_choice import WAITS, Answer, Choices, exact, milp, prices

TYPES = {"t4": (2, 4), "a100": (1, 8)}
COLUMNS = sia.configurations(TYPES, {"t4": 2, "a100": 1})
CAPACITY = {"t4": 8, "a100": 8}


def index(gpu_type: str, gpus: int) -> int:
    return next(i for i, c in enumerate(COLUMNS) if (c.gpu_type, c.gpus) == (gpu_type, gpus))


def goodputs(fast: float = 2.0) -> list[float]:
    """Linear in the GPUs; an A100 is `fast` times a T4."""
    return [c.gpus * (fast if c.gpu_type == "a100" else 1.0) for c in COLUMNS]


def test_configurations_are_powers_of_two_and_then_whole_nodes() -> None:
    assert [(c.gpu_type, c.gpus, c.nodes) for c in COLUMNS] == [
        *(("t4", 1, 1), ("t4", 2, 1), ("t4", 4, 1), ("t4", 8, 2)),
        *(("a100", 1, 1), ("a100", 2, 1), ("a100", 4, 1), ("a100", 8, 1)),
    ]


def test_a_job_alone_takes_what_is_best_for_it() -> None:
    job = sia.Candidate(np.array(goodputs()))
    assert sia.decide(sia.Sia(), [job], COLUMNS, CAPACITY) == [index("a100", 8)]


def test_two_jobs_share_by_type() -> None:
    """The one that gains more of an A100 gets it."""
    jobs = [sia.Candidate(np.array(goodputs(1.0))), sia.Candidate(np.array(goodputs(8.0)))]
    assert sia.decide(sia.Sia(), jobs, COLUMNS, CAPACITY) == [index("t4", 8), index("a100", 8)]


def test_a_restart_that_costs_more_than_it_gains_is_not_made() -> None:
    present = index("t4", 8)
    young = sia.Candidate(np.array(goodputs()), present, sia.restart_factor(100, 2, 30))
    assert sia.decide(sia.Sia(), [young], COLUMNS, CAPACITY) == [present]
    old = sia.Candidate(np.array(goodputs()), present, sia.restart_factor(10_000, 2, 30))
    assert sia.decide(sia.Sia(), [old], COLUMNS, CAPACITY) == [index("a100", 8)]


@pytest.mark.parametrize("gpu_type", ["t4", "a100"])
def test_of_equal_costs_a_job_keeps_what_it_holds(gpu_type: str) -> None:
    """Both types are as fast, and a restart is too small a loss for two digits."""
    old = sia.Candidate(np.array(goodputs(1.0)), index(gpu_type, 8), 0.999)
    assert sia.decide(sia.Sia(), [old], COLUMNS, CAPACITY) == [index(gpu_type, 8)]


def test_a_job_in_its_restart_keeps_its_gpus() -> None:
    jobs = [
        sia.Candidate(np.array(goodputs()), index("t4", 1), pinned=True),
        sia.Candidate(np.array(goodputs())),
    ]
    assert sia.decide(sia.Sia(), jobs, COLUMNS, CAPACITY)[0] == index("t4", 1)


def test_the_restart_factor() -> None:
    assert sia.restart_factor(20, 5, 30) == 1
    assert sia.restart_factor(70, 2, 30) == pytest.approx(10 / 100)
    assert sia.restart_factor(50, 2, 30) == 0


@st.composite
def programs(draw: st.DrawFn) -> Choices:
    """At most six jobs, three choices of two types."""
    jobs = draw(st.integers(1, 6))
    cost = st.floats(0.01, 1.5) | st.just(float("inf"))
    costs = [[draw(cost) for _ in range(4)] for _ in range(jobs)]
    capacity = [draw(st.integers(0, 6)), draw(st.integers(0, 6))]
    return Choices(np.array(costs), np.array([1, 3, 1, 4]), np.array([0, 0, 1, 1]), capacity, 1.1)


def checked(program: Choices, answer: Answer) -> float:
    """The cost of what was chosen, within the capacity."""
    used = [0, 0]
    cost = 0.0
    for job, column in enumerate(answer.taken):
        if column == WAITS:
            cost += program.wait
            continue
        used[program.types[column]] += program.gpus[column]
        cost += program.costs[job, column]
    assert all(n <= most for n, most in zip(used, program.capacity, strict=True))
    assert answer.cost == pytest.approx(cost)
    return cost


def enumerated(program: Choices) -> float:
    best = np.inf
    for taken in product(range(-1, 4), repeat=len(program.costs)):
        used = [0, 0]
        cost = 0.0
        for job, column in enumerate(taken):
            if column < 0:
                cost += program.wait
            else:
                used[program.types[column]] += program.gpus[column]
                cost += program.costs[job, column]
        if all(n <= most for n, most in zip(used, program.capacity, strict=True)):
            best = min(best, cost)
    return float(best)


@settings(max_examples=examples(30), deadline=None)
@given(programs())
def test_exact_and_milp_find_what_enumeration_finds(program: Choices) -> None:
    """At most six jobs; and prices certify how far above it they are."""
    best = enumerated(program)
    assert checked(program, exact(program)) == pytest.approx(best)
    assert checked(program, milp(program, 0.0)) == pytest.approx(best)
    priced = prices(program)
    assert checked(program, priced) >= best - 1e-9
    assert priced.bound <= best + 1e-9


def test_prices_are_within_half_a_percent_on_a_large_cluster() -> None:
    random = np.random.default_rng(1)
    types = {f"type-{i}": (32, 8) for i in range(3)}
    columns = sia.configurations(types, {})
    gpus = np.array([c.gpus for c in columns])
    names = list(types)
    kinds = np.array([names.index(c.gpu_type) for c in columns])
    scale = random.uniform(0.3, 0.95, (600, 1))
    speed = random.uniform(1, 4, (600, 3))[:, kinds] * gpus**scale
    costs = (speed / speed.min(axis=1, keepdims=True)) ** -0.5
    program = Choices(costs, gpus, kinds, [256] * 3, 1.1)
    assert prices(program).gap < 0.005


def test_a_fit_predicts_what_it_saw_and_what_lies_between() -> None:
    true = goodput.Speed(0.05, 0.002, 0.3, 0.01, 0.05, 0.005, 1.6)
    seen = []
    for nodes, gpus, local in [(1, 1, 32), (1, 1, 64), (1, 2, 64), (1, 4, 128), (2, 8, 64)]:
        at = [np.array([float(value)]) for value in (nodes, gpus, local)]
        step = float(true.step_s(*at, np.zeros(1))[0])
        seen.append((nodes, gpus, local, 0.05 + 0.002 * local, step))
    fitted = goodput.fit(seen)
    for nodes, gpus, local, _, step in seen:
        at = [np.array([float(value)]) for value in (nodes, gpus, local)]
        assert float(fitted.step_s(*at, np.zeros(1))[0]) == pytest.approx(step, rel=0.05)


def test_the_batch_grows_with_the_noise_of_the_gradient() -> None:
    speed = goodput.Speed(0.05, 0.0001, 0.1, 0.01, 0.05, 0.005, 1.5)
    batches = goodput.Batches(128, 4096, 32, 1024)
    at = np.array([1]), np.array([4])
    _, quiet, _ = goodput.best(speed, (1.0, 0.01), batches, *at)
    _, noisy, _ = goodput.best(speed, (1.0, 1000.0), batches, *at)
    assert 4 * quiet[0] == 128
    assert noisy[0] > 4 * quiet[0]
