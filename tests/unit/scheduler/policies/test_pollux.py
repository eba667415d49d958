"""Pollux's rule: the power mean of the speed-ups, size by size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies.pollux import Pollux, Speedups, decide

SIZES = (1, 2, 4, 8, 12, 16)


def test_equal_jobs_share_equally() -> None:
    jobs = [Speedups([1, 2, 3.5, 6, 8, 9])] * 4
    assert decide(Pollux(), jobs, SIZES, 16) == [2, 2, 2, 2]


def test_gpus_go_where_they_help() -> None:
    """The second job is no faster on more than one GPU."""
    jobs = [Speedups([1, 2, 4, 8, 12, 16]), Speedups([1, 1, 1, 1, 1, 1])]
    assert decide(Pollux(), jobs, SIZES, 13) == [4, 0]


def test_a_young_job_with_restarts_stays_as_it_is() -> None:
    more = [1.0, 1.5, 2, 2.5, 3, 3.5]
    assert decide(Pollux(), [Speedups(more, 1, 0.2)], SIZES, 16) == [1]
    assert decide(Pollux(), [Speedups(more, 1, 0.99)], SIZES, 16) == [5]


def test_what_is_not_allowed_is_not_taken() -> None:
    assert decide(Pollux(), [Speedups([1, 2, 0, 0, 0, 0])], SIZES, 16) == [1]


@given(
    st.lists(
        st.lists(st.just(0.0) | st.floats(0.01, 20), min_size=6, max_size=6).map(sorted),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 32),
)
def test_no_more_gpus_are_given_than_there_are(rows: list[list[float]], gpus: int) -> None:
    """And none stays idle that a waiting job could use alone."""
    taken = decide(Pollux(), [Speedups(row) for row in rows], SIZES, gpus)
    used = sum(0 if size is None else SIZES[size] for size in taken)
    assert used <= gpus
    for row, size in zip(rows, taken, strict=True):
        if size is None and row[0] > 0:
            assert used + 1 > gpus
