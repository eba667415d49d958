"""Gavel's shares on GPUs of one model, in closed form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies import one_model

SIZES = st.lists(st.sampled_from([1, 1, 2, 4, 8]), min_size=1, max_size=30)
GPUS = st.sampled_from([8, 16, 64])


def used(shares: list[float], sizes: list[int]) -> float:
    return sum(n * x for n, x in zip(sizes, shares, strict=True))


def test_an_equal_part_is_divided_by_the_size_and_equal_time_is_not() -> None:
    assert one_model.isolated([1, 2, 8, 1], 8) == [1.0, 1.0, 0.25, 1.0]
    assert one_model.equal_time(4, 2) == [0.5] * 4
    assert one_model.equal_time(2, 8) == [1.0] * 2


def test_least_attained_service_gives_equal_gpu_time() -> None:
    assert one_model.max_min([1, 1, 2, 4], 2) == [0.5, 0.5, 0.25, 0.125]


def test_a_cluster_that_is_large_enough_puts_sizes_in_the_middle() -> None:
    """One GPU-second a second is the best for the least; the others lie between that and all."""
    one, two, four = one_model.max_min([1, 2, 4], 8)
    assert one == 1.0
    assert 0.5 < two < 1.0
    assert 0.25 < four < 1.0


def test_the_sum_of_rates_prefers_those_that_make_most_of_a_gpu() -> None:
    assert one_model.max_sum([3.0, 4.0, 1.0], [1, 2, 1], 2) == [1.0, 0.5, 0.0]
    assert one_model.max_sum([3.0, 3.0, 3.0], [1, 1, 1], 2) == [pytest.approx(2 / 3)] * 3


def test_finish_time_fairness_serves_first_who_is_late() -> None:
    """Both take 100 s alone with half of the GPU; the second has waited for 50 s."""
    first, second = one_model.finish_time_fair([0.0, 50.0], [50.0, 50.0], [100.0, 100.0], [1, 1], 1)
    assert first + second == pytest.approx(1.0)
    assert second > first
    assert 50 / first == pytest.approx(50 + 50 / second)  # their rho are equal


@given(SIZES, GPUS)
def test_the_least_gpu_time_is_as_large_as_it_can_be(sizes: list[int], gpus: int) -> None:
    shares = one_model.max_min(sizes, gpus)
    assert used(shares, sizes) <= gpus * (1 + 1e-9)
    assert all(0 <= share <= 1 for share in shares)
    best = min(gpus / len(sizes), min(sizes))
    least = min(n * x for n, x in zip(sizes, shares, strict=True))
    assert least == pytest.approx(best, rel=1e-9)


@given(st.lists(st.tuples(st.floats(1, 1e5), st.sampled_from([1, 2, 4])), max_size=20), GPUS)
def test_all_end_within_five_percent_of_the_least_makespan(
    jobs: list[tuple[float, int]], gpus: int
) -> None:
    left, sizes = [job[0] for job in jobs], [job[1] for job in jobs]
    shares = one_model.least_makespan(left, sizes, gpus)
    assert used(shares, sizes) <= gpus * (1 + 1e-9)
    bound = max([*left, used(left, sizes) / gpus, 105.0])
    assert all(share > 0 for share in shares)
    assert max((work / x for work, x in zip(left, shares, strict=True)), default=0) <= bound * 1.06


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e4), st.floats(1, 1e4), st.floats(1, 1e5), st.sampled_from([1, 2, 4])
        ),
        min_size=1,
        max_size=12,
    ),
    GPUS,
)
def test_no_shares_have_a_smaller_worst_ratio(
    jobs: list[tuple[float, float, float, int]], gpus: int
) -> None:
    elapsed, left, alone, sizes = (list(column) for column in zip(*jobs, strict=True))
    shares = one_model.finish_time_fair(elapsed, left, alone, sizes, gpus)
    assert used(shares, sizes) <= gpus * (1 + 1e-9)
    rho = max((w + r / x) / o for w, r, o, x in zip(elapsed, left, alone, shares, strict=True))
    # With 0.1 % less, either a job would need more than all of the time, or all more than there is.
    tighter = [r / max(rho * 0.999 * o - w, 1e-12) for w, r, o, _ in jobs]
    assert max(tighter) > 1 or used(tighter, sizes) > gpus


@given(st.integers(1, 30), st.sampled_from([1, 2, 4]), st.floats(1, 1e5), GPUS)
def test_the_worst_ratio_of_equal_jobs_is_not_above_that_of_fifo(
    count: int, size: int, left: float, gpus: int
) -> None:
    """All come at once; under FIFO the last of them wait until those before have ended."""
    alone = left * max(1.0, count * size / gpus)
    shares = one_model.finish_time_fair(
        [0.0] * count, [left] * count, [alone] * count, [size] * count, gpus
    )
    batches = -(-count // (gpus // size))
    assert max(left / share / alone for share in shares) <= batches * left / alone * (1 + 1e-6)
