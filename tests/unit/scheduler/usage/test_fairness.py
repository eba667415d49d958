"""Finish-time fairness: the same figure live and in the simulator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.usage.fairness import Life, finish_time_fairness, jain_index


def test_alone_on_enough_gpus_a_job_takes_what_it_takes():
    assert finish_time_fairness([Life(0, 100, 8, 100)], 8) == [1.0]


def test_of_two_jobs_that_need_all_the_second_waited_longer_than_on_half_of_the_gpus():
    """Both are there for 100 s, and the second one alone for 100 s more: J is 2 and 1.5."""
    first, second = Life(0, 100, 8, 100), Life(0, 200, 8, 100)
    assert finish_time_fairness([first, second], 8) == [0.5, pytest.approx(200 / 150)]


def test_a_job_that_runs_counts_with_what_is_left_and_one_without_a_duration_has_none():
    runs, unknown = Life(0, 50, 4, 100, left_s=60), Life(0, 50, 4, None)
    assert finish_time_fairness([runs, unknown], 8) == [1.1, None]


def test_jobs_beside_it_are_counted_since_they_are_known():
    """From 100 on there is one job more; before, none is known."""
    old, late = Life(0, 200, 8, 200, known_from=100), Life(100, 200, 8, 100)
    assert finish_time_fairness([old, late], 8) == [0.5, 0.5]


def test_without_gpus_nothing_is_a_share():
    assert finish_time_fairness([Life(0, 1, 1, 1)], 0) == [None]


@given(
    facts=st.lists(
        st.tuples(st.integers(0, 50), st.integers(1, 50), st.sampled_from([1, 2, 4])), min_size=1
    )
)
def test_with_gpus_for_all_at_once_rho_is_1(facts):
    lives = [Life(at, at + length, gpus, length) for at, length, gpus in facts]
    assert finish_time_fairness(lives, 4 * len(lives)) == pytest.approx([1.0] * len(lives))


SHARES = st.lists(st.floats(0.001, 1000), min_size=1, max_size=40)


@given(shares=SHARES, scale=st.sampled_from([1e-200, 0.1, 7.0, 1e200]))
def test_jains_index_is_1_for_equal_shares_and_1_of_n_where_one_has_all(shares, scale):
    number = len(shares)
    assert jain_index([shares[0]] * number) == pytest.approx(1.0)
    assert jain_index([*[0.0] * (number - 1), shares[0]]) == pytest.approx(1 / number)
    index = jain_index(shares)
    assert 1 / number - 1e-9 <= index <= 1 + 1e-9
    assert jain_index([scale * share for share in shares]) == pytest.approx(index)
    assert jain_index([*shares, *shares]) == pytest.approx(index)  # how many there are is no matter


def test_jains_index_of_known_shares_and_of_none():
    """The index is k / n where k of n users have equal shares, and the others nothing."""
    assert jain_index([5, 5, 5, 0, 0]) == pytest.approx(3 / 5)
    assert jain_index([3, 1]) == pytest.approx(16 / 20)
    assert jain_index([0, 0]) == 1.0
    assert jain_index([]) is None
