"""Shockwave's plan of the next rounds, and its prediction of what remains."""

from __future__ import annotations

from itertools import product
from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.policies import shockwave
from skep_scheduler.policies.shockwave import Settings, Wish

pytest.importorskip("scipy")
ROUND_S = 100.0
FEW = Settings(future_rounds=3, k=1e-3, rhomax=10.0, rel_gap=1e-6)


def wish(gpus: int = 1, epochs: int = 10, done: int = 0, left: float = 1000.0) -> Wish:
    return Wish(gpus, epochs, done, left / (epochs - done), left, 1e6)


def value(wishes: list[Wish], counts: tuple[int, ...], s: Settings) -> float:
    """The objective, with the best planned run time for given counts (all of their rounds)."""
    total, longest = 0.0, 0.0
    for one, count in zip(wishes, counts, strict=True):
        time = min(count * ROUND_S, (one.epochs - one.done) * one.epoch_s)
        part = (one.done + time / one.epoch_s) / one.epochs
        for left, right in zip(s.bases, s.bases[1:], strict=False):
            if left <= part <= right + 1e-12:
                low, high = log(left or 1e-6), log(right)
                total += low + (high - low) * (part - left) / (right - left)
                break
        longest = max(longest, one.remaining_s - time)
    return total / (len(wishes) * s.future_rounds) - s.k * longest


@pytest.mark.parametrize("k", [1e-9, 1e-3, 10.0])
@pytest.mark.parametrize(
    "wishes",
    [
        [wish(), wish(left=400.0), wish(2, done=4)],
        [wish(epochs=5), wish(2, left=3000.0), wish(done=8, left=150.0)],
        [wish(2), wish(2, done=1), wish(2, done=2)],
    ],
)
def test_the_counts_are_the_best_of_all(wishes: list[Wish], k: float) -> None:
    s = Settings(future_rounds=3, k=k, rhomax=10.0, rel_gap=1e-6)
    counts = shockwave.counts(wishes, [1.0] * 3, 0.0, ROUND_S, 2, s, fair=True)
    best = max(
        value(wishes, some, s)
        for some in product(range(4), repeat=3)
        if sum(n * one.gpus for n, one in zip(some, wishes, strict=True)) <= 6
    )
    assert counts is not None
    assert value(wishes, tuple(counts), s) == pytest.approx(best, rel=1e-6)


def test_a_job_that_would_be_late_gets_what_it_needs_before_welfare() -> None:
    """The window ends at 300 s; at a third of the GPU one with 100 s left would end at 600 s."""
    s = Settings(future_rounds=3, k=1e-9, rhomax=1.0)
    others = [wish(), wish()]
    for fair_s, count in ((310.0, 1), (1e6, 0)):
        wishes = [Wish(1, 10, 9, 100.0, 100.0, fair_s), *others]
        counts = shockwave.counts(wishes, [1.0] * 3, 0.0, ROUND_S, 1, s, fair=True)
        assert counts is not None
        assert counts[0] == count


def test_where_fairness_cannot_be_had_the_worst_ratio_weighs_most() -> None:
    wishes = [Wish(1, 10, 0, 100.0, 1000.0, fair) for fair in (900.0, 100.0, 2000.0)]
    s = Settings(future_rounds=1, k=1e-9, rhomax=1.0, lam=5.0)
    assert shockwave.counts(wishes, [1.0] * 3, 0.0, ROUND_S, 1, s, fair=True) is None
    assert shockwave.plan(wishes, 0.0, ROUND_S, 1, s) == [[1]]


@given(
    st.lists(
        st.builds(
            wish,
            st.sampled_from([1, 2, 4]),
            st.integers(6, 40),
            st.integers(0, 5),
            st.floats(10, 5000),
        ),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=25, deadline=None)
def test_no_round_has_more_gpus_than_there_are_nor_an_idle_one_that_fits(
    wishes: list[Wish],
) -> None:
    rounds = shockwave.plan(wishes, 0.0, ROUND_S, 4, FEW)
    assert len(rounds) == FEW.future_rounds
    for members in rounds:
        free = 4 - sum(wishes[j].gpus for j in members)
        assert free >= 0
        assert len(set(members)) == len(members)
        assert all(one.gpus > free for j, one in enumerate(wishes) if j not in members)


def test_what_remains_is_exact_for_one_regime_and_a_mean_before_any_was_seen() -> None:
    assert shockwave.remaining_s([16] * 10, [5.0] * 10, 4) == pytest.approx(30.0, rel=0.2)
    assert shockwave.remaining_s([16] * 10, [5.0] * 10, 10) == 1.0
    batches, times = [16] * 5 + [32] * 5, [4.0] * 5 + [2.0] * 5
    assert 10 * 2.0 < shockwave.remaining_s(batches, times, 0) < 10 * 4.0


def test_a_running_mean_counts_how_long_each_value_held() -> None:
    assert shockwave.running_mean([(3, 100.0)], 3) == pytest.approx(100.0)
    # 100 for 3 rounds, 200 for 1: 0.9 * 125 + 0.1 * 200
    assert shockwave.running_mean([(0, 100.0), (3, 200.0)], 4) == pytest.approx(132.5)
