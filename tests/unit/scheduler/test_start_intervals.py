"""Intervals of starts: what is drawn, and of whom nothing is said."""

from __future__ import annotations

from random import Random

from skep_scheduler.start_intervals import COVERAGE, Lasts, LineJob, intervals

HOUR = Lasts(3000, 3600, 4200)


def test_the_first_in_the_queue_starts_when_the_running_job_ends():
    found = intervals(
        4, [LineJob("r", 4, HOUR, ran=1800)], [LineJob("a", 4, HOUR), LineJob("b", 4, HOUR)]
    )
    low, high = found["a"]
    assert 3000 - 1800 - 300 <= low < 1800 < high <= 4200 - 1800 + 300
    later = found["b"]
    assert later[0] > high
    assert later[1] - later[0] > high - low, "uncertainty adds up"


def test_an_interval_holds_the_start_as_often_as_it_says():
    """The start of a job behind two others, each as long as its own prediction says."""
    low, high = intervals(
        1, [LineJob("r", 1, HOUR)], [LineJob("a", 1, HOUR), LineJob("b", 1, None)], 1000
    )["b"]
    random = Random(7)
    starts = [HOUR.left(0, random) + HOUR.left(0, random) for _ in range(2000)]
    assert abs(sum(low <= start <= high for start in starts) / 2000 - COVERAGE) < 0.05


def test_equal_facts_have_equal_intervals_and_a_free_gpu_is_used_at_once():
    queue = [LineJob("a", 1, HOUR), LineJob("b", 2, HOUR)]
    running = [LineJob("r", 2, HOUR)]
    found = intervals(3, running, queue)
    assert found == intervals(3, running, queue)
    assert found["a"] == (0.0, 0.0)
    assert found["b"][0] > 0


def test_nothing_is_said_behind_a_job_of_which_nothing_is_known():
    queue = [LineJob("a", 1, HOUR), LineJob("b", 1, None), LineJob("c", 1, HOUR)]
    assert set(intervals(1, [LineJob("r", 1, HOUR)], queue)) == {"a", "b"}
    assert intervals(1, [LineJob("r", 1, None)], queue) == {}


def test_a_job_larger_than_all_gpus_has_none_and_delays_no_other():
    found = intervals(2, [], [LineJob("big", 3, None), LineJob("a", 2, HOUR)])
    assert found == {"a": (0.0, 0.0)}


def test_one_that_overran_every_estimate_is_not_taken_for_done():
    found = intervals(1, [LineJob("r", 1, HOUR, ran=20_000)], [LineJob("a", 1, HOUR)])
    assert found["a"][0] >= 1000
