"""Fragmentation of a node, and the scores of the rules that place parts of GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skep_scheduler.placement.fgd import Fgd, Typical, typical_of
from skep_scheduler.placement.fractions import (
    NodeState,
    PodRequest,
    best_fit,
    dot_product,
    fits,
    gpu_clustering,
    gpu_packing,
    tightest,
)

ANY: frozenset[str] = frozenset()
MOST = Typical(1000, 700, 1, ANY, 0.5)
PAIRS = Typical(1000, 1000, 2, ANY, 0.25)
NO_GPU = Typical(1000, 0, 0, ANY, 0.25)


def node(*gpus: int, cpu: int = 8000, kinds: frozenset[int] = frozenset()) -> NodeState:
    return NodeState(cpu, 100_000, gpus, "T4", kinds)


def request(milli: int, number: int = 1, cpu: int = 1000, *models: str) -> PodRequest:
    return PodRequest(cpu, 1000, milli, number, frozenset(models))


@pytest.mark.parametrize(
    ("gpus", "cpu", "fragmented"),
    [
        # 700 of one GPU finds one, and 500 are too little for it; no pair of whole ones; no GPU.
        ((1000, 500), 8000, 0.5 * 500 + 0.25 * 1500 + 0.25 * 1500),
        ((1000, 1000), 8000, 0.25 * 2000),  # only requests of no GPU find nothing here
        ((1000, 1000), 500, 2000),  # too little CPU for any request
        ((0, 0), 8000, 0),
    ],
)
def test_what_is_free_and_too_little_is_fragmented(gpus, cpu, fragmented) -> None:
    fgd = Fgd((MOST, PAIRS, NO_GPU))
    assert fgd.fragmentation(cpu, gpus, "T4") == pytest.approx(fragmented)


def test_models_that_are_not_accepted_find_nothing() -> None:
    fgd = Fgd((Typical(0, 500, 1, frozenset({"A10"}), 1.0),))
    assert fgd.fragmentation(8000, (1000,), "T4") == 1000
    assert fgd.fragmentation(8000, (1000,), "A10") == 0


def test_a_part_of_a_gpu_goes_to_where_least_is_lost() -> None:
    fgd = Fgd((Typical(0, 500, 1, ANY, 1.0),))
    # 500 of the second one leave nothing behind; of the first one 300, which no one can use.
    assert fgd.score(node(800, 500), request(500))[1] == (1,)


def test_typical_requests_are_the_most_frequent_ones_up_to_95_percent() -> None:
    many, some, few = request(500), request(1000, 2), request(1000, 8)
    found = typical_of([few, *[some] * 19, *[many] * 76, *[request(1)] * 4])
    assert [(one.milli, one.number) for one in found] == [(500, 1), (1000, 2)]
    assert [one.share for one in found] == [76 / 95, 19 / 95]


def test_the_other_rules_score_as_their_definitions_say() -> None:
    half = request(500, 1, 2000)
    free = node(1000, 600, cpu=64_000)
    assert tightest(free, half) == (1,)
    assert best_fit(free, half)[0] == int(100 * (1 - 0.5 * 62 / 128 - 0.5 * 1.1 / 8))
    assert dot_product(free, half)[0] == int(
        100 * (1 - (64_000 * 2000 / 128_000**2 + 1600 * 500 / 8000**2) / 2)
    )
    assert gpu_packing(free, half)[0] == 100 - 60 // 10
    assert gpu_packing(node(1000, 1000), half)[0] == 31
    assert gpu_packing(node(1000, 100), half)[0] == 49
    assert gpu_packing(free, request(0, 0))[0] == 0
    used = 25 * 6400 // 8000
    assert gpu_clustering(free, half)[0] == used + 25
    assert gpu_clustering(node(1000, 600, kinds=frozenset({0})), half)[0] == used + 75
    assert gpu_clustering(node(1000, 600, kinds=frozenset({0, 2})), half)[0] == used + 50
    assert gpu_clustering(node(1000, 600, kinds=frozenset({2})), half)[0] == used


@given(
    gpus=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    cpu=st.integers(0, 8000),
    wanted=st.one_of(
        st.builds(request, st.integers(1, 999)),
        st.builds(request, st.just(1000), st.integers(1, 8)),
        st.just(request(0, 0)),
    ),
)
def test_a_place_that_is_chosen_is_free_and_fragmentation_is_of_what_is_free(
    gpus: list[int], cpu: int, wanted: PodRequest
) -> None:
    state = node(*gpus, cpu=cpu)
    fgd = Fgd((MOST, PAIRS, NO_GPU))
    assert 0 <= fgd.fragmentation(cpu, state.gpus, "T4") <= sum(gpus) + 1e-9
    if not fits(state, wanted):
        return
    for rule in (fgd.score, best_fit, dot_product, gpu_packing, gpu_clustering):
        score, chosen = rule(state, wanted)
        assert 0 <= score <= 100
        assert len(set(chosen)) == wanted.number
        after = state.with_request(wanted, chosen)
        assert min(after.gpus) >= 0
        assert sum(state.gpus) - sum(after.gpus) == wanted.gpu_milli
