"""What earlier durations say of the next one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_platform.jobs.submission.prediction import COVERAGE, ENOUGH, base_name, of_durations


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("train-12", "train"),
        ("train_0a1b2c3d", "train"),
        ("train.3", "train"),
        ("resnet50", "resnet50"),
        ("train-2-7", "train-2"),
        ("7", "7"),
    ],
)
def test_a_number_at_the_end_only_counts_submissions_of_one_job(name, base):
    assert base_name(name) == base


def test_an_interval_needs_nine_jobs():
    nine, eight = list(range(100, 1000, 100)), list(range(100, 900, 100))
    found = of_durations({"name": nine})
    assert (found.median_s, found.low_s, found.high_s, found.jobs) == (500, 100, 900, 9)
    assert of_durations({"name": eight}).low_s is None
    # The second least and the second largest of twenty.
    found = of_durations({"name": list(range(1, 21))})
    assert (found.low_s, found.high_s) == (2, 19)


def test_the_first_way_with_enough_jobs_is_taken_else_the_first_with_any():
    assert of_durations({"name": None, "command": None, "gpus": None}) is None
    found = of_durations({"name": [50.0], "command": [70.0] * ENOUGH, "gpus": None})
    assert (found.source, found.median_s) == ("command", 70)
    found = of_durations({"name": [50.0], "command": [70.0] * (ENOUGH - 1), "gpus": None})
    assert (found.source, found.median_s) == ("name", 50)
    assert of_durations({"name": None, "command": None, "gpus": [9.0]}).source == "gpus"


@given(st.lists(st.floats(0, 1e7), min_size=ENOUGH + 1, max_size=21, unique=True))
def test_each_of_exchangeable_durations_lies_in_the_interval_of_the_others_as_often_as_promised(
    durations,
):
    held = 0
    for number, duration in enumerate(durations):
        found = of_durations({"name": durations[:number] + durations[number + 1 :]})
        assert found.low_s <= found.median_s + 0.5 <= found.high_s + 1
        held += found.low_s <= duration <= found.high_s
    assert held / len(durations) >= COVERAGE - 1e-9
