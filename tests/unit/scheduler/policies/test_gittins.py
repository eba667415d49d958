"""The Gittins index of Tiresias: which job is most likely to end soon, by what it was served."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.policies.tiresias import Gittins


@settings(max_examples=30, deadline=None)
@given(mean=st.floats(100, 1e5), served=st.floats(0, 2), quantum=st.floats(0.05, 1))
def test_the_index_of_services_without_a_memory_falls_as_the_habit_of_the_artifact_says(
    mean: float, served: float, quantum: float
) -> None:
    """Of exponential services nothing is learned by serving, and the index of the paper is
    1 / mean whatever a job has had. The published simulator counts whole services in place of what
    is left of them: 1 / (mean + served), least attained service first. Per million GPU-seconds."""
    count = 2000
    sample = [-mean * log(1 - (i + 0.5) / count) for i in range(count)]
    index = Gittins(sample, delta=quantum * mean).index(served * mean)
    assert index == pytest.approx(1e6 / (mean + served * mean), rel=0.05, abs=1e-3)


def test_a_job_is_less_likely_to_end_soon_the_longer_it_ran_where_services_are_short_or_long() -> (
    None
):
    """Nine of ten need 100 GPU-seconds, one needs 10,000: who had more than 100 is a long one."""
    gittins = Gittins([100.0] * 90 + [10_000.0] * 10, delta=100.0)
    assert gittins.index(0.0) > gittins.index(100.0) == 0.0
    assert gittins.index(9950.0) > gittins.index(100.0), "the end of the long ones is near"


@given(st.lists(st.floats(1, 1e4), min_size=1, max_size=50), st.floats(0, 2e4))
def test_the_index_is_0_beyond_the_largest_service(sample: list[float], served: float) -> None:
    index = Gittins(sample).index(served)
    assert index == 0.0 if served >= max(sample) else index >= 0.0
