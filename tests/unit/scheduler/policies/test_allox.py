"""AlloX: the matching is the best one, and who is first on a worker runs."""

from __future__ import annotations

import sys
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies.allox import assign, assign_plainly, match


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


@given(
    st.integers(1, 8).flatmap(
        lambda rows: st.lists(
            st.lists(st.integers(0, 4), min_size=rows + 2, max_size=rows + 2),
            min_size=rows,
            max_size=rows,
        )
    )
)
def test_without_scipy_equal_costs_are_broken_the_same_way(costs: list[list[int]]) -> None:
    assert assign_plainly(costs) == assign(costs)


def test_jobs_are_matched_the_same_way_without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    times = [{"k80": 30.0, "v100": 10.0} for _ in range(4)] + [{"k80": 12.0, "v100": 12.0}] * 3
    waited, free = [float(row) for row in range(7)], {"v100": 2, "k80": 1}
    wanted = match(times, waited, free)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert match(times, waited, free) == wanted
