"""Muri: the matching of jobs, and how long an iteration of a group takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.policies import muri
from skep_scheduler.policies.matching import max_weight_matching


@dataclass(eq=False)
class Job:
    gpus: int
    alone_s: float
    stages_s: tuple[float, float, float]


STORAGE = (1.0, 0.0, 0.0)
GPU = (0.0, 1.0, 0.0)
NETWORK = (0.0, 0.0, 1.0)


def job(stages: tuple[float, float, float], gpus: int = 1) -> Job:
    return Job(gpus, sum(stages), stages)


@st.composite
def graphs(draw: st.DrawFn) -> list[list[float]]:
    size = draw(st.integers(0, 7))
    weights = [[0.0] * size for _ in range(size)]
    for u in range(size):
        for v in range(u):
            weights[u][v] = weights[v][u] = draw(st.integers(0, 40)) / 8
    return weights


def best(weights: Sequence[Sequence[float]], left: tuple[int, ...]) -> float:
    """Return the largest weight of a matching, by trying all."""
    if len(left) < 2:
        return 0.0
    first, rest = left[0], left[1:]
    paired = (
        weights[first][other] + best(weights, tuple(v for v in rest if v != other))
        for other in rest
    )
    return max(best(weights, rest), *paired)


@given(graphs())
def test_a_matching_has_the_largest_weight(weights: list[list[float]]) -> None:
    mates = max_weight_matching(weights)
    total = 0.0
    for u, mate in enumerate(mates):
        if mate is not None:
            assert mates[mate] == u
            assert weights[u][mate] > 0
            total += weights[u][mate] / 2
    assert total == pytest.approx(best(weights, tuple(range(len(weights)))))


def test_many_equal_vertices_are_all_matched() -> None:
    weights = [[0.0 if u == v else 0.625 for v in range(101)] for u in range(101)]
    assert sum(mate is None for mate in max_weight_matching(weights)) == 1


def test_a_job_alone_takes_its_own_time() -> None:
    assert muri.iteration_s([job(GPU)]) == 1.0


def test_jobs_of_different_resources_hide_each_other() -> None:
    """Three jobs, each of which needs another resource for a second, take little more than one."""
    group = [job(STORAGE), job(GPU), job(NETWORK)]
    assert muri.iteration_s(group) == pytest.approx(1.0 * muri.SLOWDOWN[2])
    assert muri.worth(group)


def test_jobs_of_one_resource_wait_for_each_other() -> None:
    group = [job(GPU), job(GPU)]
    assert muri.iteration_s(group) == pytest.approx(2.0 * muri.SLOWDOWN[1])
    assert not muri.worth(group)


def test_nothing_is_grouped_where_all_fit() -> None:
    jobs = [job(GPU), job(STORAGE)]
    groups = muri.Grouping({1: jobs}, gpus=2).match()
    assert sorted(map(len, groups[1])) == [1, 1]


def test_groups_are_of_jobs_that_complement_each_other() -> None:
    jobs = [job(GPU), job(GPU), job(STORAGE), job(STORAGE)]
    groups = muri.Grouping({1: jobs}, gpus=2).match()[1]
    assert [sorted(one.stages_s for one in group) for group in groups] == [[GPU, STORAGE]] * 2


def test_only_jobs_of_as_many_gpus_share_them() -> None:
    jobs = {1: [job(GPU)], 2: [job(STORAGE, 2)]}
    groups = muri.Grouping(jobs, gpus=1).match()
    assert [len(group) for of in groups.values() for group in of] == [1, 1]


@given(st.lists(st.sampled_from([STORAGE, GPU, NETWORK, (0.2, 0.5, 0.1)]), max_size=20))
def test_each_job_is_in_one_group_of_at_most_four(stages: list[tuple[float, float, float]]) -> None:
    jobs = [job(one) for one in stages]
    groups = muri.Grouping({1: jobs}, gpus=2).match()[1]
    assert sorted(id(one) for group in groups for one in group) == sorted(map(id, jobs))
    assert all(1 <= len(group) <= muri.MOST for group in groups)
