"""Which of the nodes that fit a job gets: consolidated, drawn, scattered, or by what Apollo
estimates."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skep_scheduler.placement.apollo import completion_s
from skep_scheduler.policies import Fifo, Srtf
from skep_scheduler.simulator.command import SimulateRequest, WorkloadError, execute, plan_runs
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import NodePool
from skep_scheduler.simulator.ranked_pools import (
    PLACES,
    ApolloPool,
    DrawnPool,
    ImageCaches,
    ScatteredPool,
    nth,
)
from skep_scheduler.simulator.workload import TraceJob

US = 1_000_000


def figures(**more: Any) -> list[dict[str, Any]]:
    return [execute(run)[0] for run in plan_runs(SimulateRequest(**more))]


def pools(nodes: list[int], seed: int) -> list[NodePool]:
    drawn, scattered = DrawnPool(nodes, Random(seed)), ScatteredPool(nodes, Random(seed))
    return [NodePool(nodes), drawn, scattered, ApolloPool(nodes, ImageCaches(len(nodes), 60))]


@given(mask=st.integers(1, 1 << 200))
def test_the_nth_bit_is_found(mask: int) -> None:
    bits = [n for n in range(mask.bit_length()) if mask >> n & 1]
    assert [nth(mask, n) for n in range(len(bits))] == bits


@settings(max_examples=100, deadline=None)
@given(
    nodes=st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=6),
    asked=st.lists(st.integers(1, 20), min_size=1, max_size=15),
    seed=st.integers(0, 5),
)
def test_no_ranking_gives_a_gpu_twice_or_refuses_what_consolidation_would_place(
    nodes: list[int], asked: list[int], seed: int
) -> None:
    for pool in pools(nodes, seed):
        left, taken = list(nodes), []
        for gpus in asked:
            fits = max(left) >= gpus
            place = pool.take(gpus, "image")
            assert place is not None or not fits
            if place is not None:
                assert sum(some for _, some in place) == gpus
                for node, some in place:
                    left[node] -= some
                assert min(left) >= 0
                taken.append(place)
            assert pool.free == sum(left)
        for place in taken:
            pool.give_back(place)
        assert pool.free == pool.total


def test_apollo_goes_where_the_image_is_unless_its_pull_takes_longer_than_another() -> None:
    images = ImageCaches(3, 60)
    pool = ApolloPool([4, 4, 4], images)
    images.having["train"] = 1 << 2
    images._pulled_at[2, "train"] = 0
    images.now = 100 * US
    assert pool.take(1, "train") == ((2, 1),)
    assert pool.take(1, "other") == ((2, 1),)  # none has it: the fullest
    images.pull(((2, 1),), "other", images.now)
    assert images.estimate(2, "third") == (60 * US, 60 * US)  # behind the other pull
    assert pool.take(1, "third") == ((0, 1),)
    assert images.estimate(2, "other") == (0, 60 * US)
    images.now += 50 * US
    assert images.estimate(2, "other") == (0, 10 * US)


def test_a_try_that_may_fail_costs_what_is_run_again() -> None:
    assert completion_s(10, 5, 100) == 115
    assert completion_s(10, 5, 100, failure=0.5) == 215
    assert completion_s(0, 0, 1, failure=1) == float("inf")


def test_a_job_pays_the_pull_once_for_each_node() -> None:
    jobs = [TraceJob(f"j{n}", 100.0 * n, 50.0, 4, model="m") for n in range(3)]
    images = ImageCaches(1, 30)
    outcome = Kernel(jobs, {"": (NodePool([4]), Fifo())}, images=images).run()
    assert [job.jct_s for job in outcome.jobs] == [80.0, 50.0, 50.0]
    assert outcome.figures()["image_pulls"] == 1


JOBS = st.lists(
    st.tuples(
        st.integers(0, 50),
        st.integers(1, 40),
        st.sampled_from([1, 1, 2, 3, 8]),
        st.sampled_from("xyz"),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=60, deadline=None)
@given(facts=JOBS, seed=st.integers(0, 3), which=st.integers(0, 3), preempts=st.booleans())
def test_equal_seeds_give_equal_results_and_no_job_is_lost(
    facts: Any, seed: int, which: int, preempts: bool
) -> None:
    jobs = [
        TraceJob(f"j{n}", at, duration, gpus, model=image)
        for n, (at, duration, gpus, image) in enumerate(sorted(facts))
    ]

    def run() -> dict[str, Any]:
        pool: Any = pools([4, 4], seed)[which]
        images = pool._images if isinstance(pool, ApolloPool) else ImageCaches(2, 5)
        policy = Srtf() if preempts else Fifo("skip")
        outcome = Kernel(jobs, {"": (pool, policy)}, images=images, restart_s=2).run()
        assert all(job.jct_s >= job.duration_s for job in outcome.jobs)
        return outcome.figures()

    first = run()
    assert first == run()
    assert first["finished"] == len(jobs)


def test_jobs_that_pay_for_a_start_do_not_take_a_place_from_each_other_without_end() -> None:
    facts = [(0, 20), (1, 15), (2, 3), (10, 1)]
    jobs = [TraceJob(f"j{n}", at, duration, 1) for n, (at, duration) in enumerate(facts)]
    outcome = Kernel(jobs, {"": (NodePool([1]), Srtf())}, restart_s=6).run()
    assert all(job.ended_at is not None for job in outcome.jobs)
    assert outcome.figures()["preemptions"] < 10


def test_apollo_waits_less_for_images_than_places_that_are_drawn() -> None:
    waits: dict[str, float] = {}
    for place in PLACES:
        lines = figures(
            policies=("fifo:backfill=skip",),
            place=place,
            pull_s=300.0,
            jobs=300,
            load=0.6,
            cluster="16x4xV100",
            seeds="0-2",
        )
        waits[place] = sum(line["image_wait_s"] for line in lines)
    assert waits["apollo"] < waits["consolidated"]
    assert waits["apollo"] < 0.9 * waits["crandom"]


@pytest.mark.parametrize(
    "given",
    [
        {"place": "best"},
        {"pull_s": -1.0},
        {"pull_s": float("nan")},
        {"place": "apollo", "placement": "count"},
        {"place": "apollo", "placement": "cells"},
        {"place": "random"},  # the default policy is run by the live engine
        {"place": "random", "policies": ("afs",)},
        {"place": "random", "policies": ("srtf",), "preset": "philly-count"},
    ],
)
def test_what_cannot_be_ranked_is_refused(given: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(WorkloadError) as caught:
        figures(**given)
    assert caught.value.code == "bad_option"
