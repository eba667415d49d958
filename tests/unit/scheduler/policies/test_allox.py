"""AlloX: the matching is the best one, and who is first on a worker runs."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies.allox import assign, match


@given(
    st.integers(1, 4).flatmap(
        lambda rows: st.lists(
            st.lists(st.integers(0, 50), min_size=rows + 1, max_size=rows + 1),
            min_size=rows,
            max_size=rows,
        )
    )
)
def test_no_assignment_costs_less(costs: list[list[int]]) -> None:
    found = assign(costs)
    assert len(set(found)) == len(costs)
    best = min(
        sum(row[column] for row, column in zip(costs, columns, strict=True))
        for columns in permutations(range(len(costs[0])), len(costs))
    )
    assert sum(row[column] for row, column in zip(costs, found, strict=True)) == best


def test_the_shorter_job_is_first_on_the_only_worker() -> None:
    assert match([{"v100": 50.0}, {"v100": 10.0}], [0.0, 0.0], {"v100": 1}) == {1: "v100"}


def test_a_job_goes_where_it_gains_most() -> None:
    times = [{"k80": 100.0, "v100": 10.0}, {"k80": 12.0, "v100": 10.0}]
    assert match(times, [0.0, 0.0], {"k80": 1, "v100": 1}) == {0: "v100", 1: "k80"}


def test_without_free_workers_nothing_is_matched() -> None:
    assert match([{"v100": 1.0}], [0.0], {"v100": 0}) == {}
    assert match([], [], {"v100": 3}) == {}
