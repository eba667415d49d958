"""Themis: who is offered free GPUs, who wins them, and what is kept of a win."""

from __future__ import annotations

from itertools import product
from math import e, prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies.themis import Bidder, auction, bidders, kept_parts, proportional


def linear(rho: float, most: int, gang: int = 1) -> Bidder:
    """A job whose rho falls to a half with the second gang, a third with the third, and so on."""
    return Bidder(tuple(rho / (k + 1) for k in range(most + 1)), gang)


JOBS = st.lists(
    st.builds(linear, st.floats(0.5, 50), st.integers(1, 4), st.sampled_from([1, 2])),
    min_size=1,
    max_size=4,
)


def test_the_fifth_of_the_worst_is_offered_gpus_and_at_least_one() -> None:
    jobs = [linear(float(rho), 2) for rho in range(1, 11)]
    assert bidders(jobs) == [9, 8]
    assert bidders(jobs[:3]) == [2]
    assert bidders([]) == []


def test_equal_bidders_split_what_is_free() -> None:
    assert proportional([linear(4.0, 4), linear(4.0, 4)], 2) == [1, 1]


def test_a_lone_bidder_pays_nothing() -> None:
    assert auction([linear(9.0, 4), linear(1.0, 4)], 3) == [3, 0]


def test_a_winner_leaves_a_part_to_those_whom_it_costs_most() -> None:
    """Of two bidders for two GPUs each wins one and keeps none: beside the other it costs that one
    a third of its value. What is left goes by rho, the larger one first."""
    jobs = [linear(9.0, 4), linear(8.0, 4)]
    assert auction(jobs, 2, fairness=0.0) == [1, 1]
    assert auction(jobs, 1, fairness=0.0) == [1, 0]


@given(JOBS, st.integers(0, 6))
def test_no_other_gangs_have_a_larger_product_of_values(jobs: list[Bidder], free: int) -> None:
    won = proportional(jobs, free)
    assert sum(job.gang * k for job, k in zip(jobs, won, strict=True)) <= free
    best = min(
        prod(job.rhos[k] for job, k in zip(jobs, some, strict=True))
        for some in product(*(range(len(job.rhos)) for job in jobs))
        if sum(job.gang * k for job, k in zip(jobs, some, strict=True)) <= free
    )
    found = prod(job.rhos[k] for job, k in zip(jobs, won, strict=True))
    assert found == pytest.approx(best, rel=1e-9)


@st.composite
def holders(draw: st.DrawFn) -> list[Bidder]:
    """Return jobs that hold gangs, whose rho falls in proportion to those and the ones they win."""
    gang = draw(st.sampled_from([1, 2]))
    drawn = draw(
        st.lists(
            st.tuples(st.floats(0.5, 50), st.integers(1, 4), st.integers(1, 20)),
            min_size=1,
            max_size=5,
        )
    )
    return [
        Bidder(tuple(rho * held / (held + k) for k in range(most + 1)), gang)
        for rho, held, most in drawn
    ]


@given(holders(), st.integers(0, 24))
def test_a_winner_keeps_at_least_the_part_1_by_e_of_what_it_won(
    jobs: list[Bidder], free: int
) -> None:
    """Section 4 of the paper: the bound of the partial allocation mechanism."""
    jobs.sort(key=lambda job: -job.rho)
    won = proportional(jobs, free)
    parts = kept_parts(jobs, won, free)
    assert all(1 / e - 1e-9 <= part <= 1 for part in parts)
    for mine, gangs, part in zip(auction(jobs, free, 0.0), won, parts, strict=True):
        assert mine >= int(gangs * part + 1e-9)


@given(JOBS, st.integers(0, 6), st.sampled_from([0.0, 0.5, 0.8]))
def test_nothing_that_a_job_can_use_stays_free(
    jobs: list[Bidder], free: int, fairness: float
) -> None:
    granted = auction(jobs, free, fairness)
    left = free - sum(job.gang * k for job, k in zip(jobs, granted, strict=True))
    assert left >= 0
    for job, gangs in zip(jobs, granted, strict=True):
        assert gangs == len(job.rhos) - 1 or job.gang > left
