"""When a dead child is started again."""

from __future__ import annotations

from skep_platform.onebox.children import LONGEST_DELAY_S, STEADY_S, Restarts


def test_the_first_death_is_answered_at_once_and_the_next_ones_later_and_later():
    restarts = Restarts()
    delays = [restarts.after_death(1.0) for _ in range(20)]
    assert delays[0] < 0.5
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY_S


def test_a_child_that_was_well_for_long_starts_afresh():
    restarts = Restarts()
    first = restarts.after_death(0.1)
    for _ in range(10):
        restarts.after_death(0.1)
    assert restarts.after_death(STEADY_S) == first
    assert restarts.count == 12


def test_many_deaths_never_overflow():
    restarts = Restarts()
    assert {restarts.after_death(0.0) for _ in range(3000)} >= {LONGEST_DELAY_S}
