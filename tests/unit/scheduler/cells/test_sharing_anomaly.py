"""The sharing anomaly: a VC that owns a node must be able to use it as a node, whatever others do.

Two nodes with 16 devices, two VCs with one each: small jobs of the one, scattered over both nodes,
make a 16-device job of the other impossible wherever only numbers of devices are counted.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cells import healthy, plain
from tests.support.examples import examples
from tests.support.quota_only import QuotaOnly

from skep_scheduler.cells import ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption, Refusal
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.request import gang
from skep_scheduler.cells.state import CellState

TWO_NODES = plain([2, 2, 2, 2], 2, {"vc1": [(5, 1)], "vc2": [(5, 1)]}, node=5)
BIG = gang("big", "vc2", 1, (1, 16))

# Job sizes of vc1, its priority, and which of the running jobs end meanwhile.
MIXES = st.lists(
    st.tuples(st.sampled_from([1, 1, 1, 1, 2, 4]), st.sampled_from([-1, 0, 0, 1]), st.booleans()),
    max_size=40,
)


@settings(max_examples=examples(100), deadline=None)
@given(mix=MIXES, seed=st.integers(0, 99))
def test_small_jobs_of_one_vc_never_keep_the_other_from_its_node(
    mix: list[tuple[int, int, bool]], seed: int
) -> None:
    state, rng = healthy(TWO_NODES), random.Random(seed)
    for i, (size, priority, ends) in enumerate(mix):
        run(state, f"vc1-{i}", "vc1", size, priority)
        small = sorted(name for name in state.groups if name.startswith("vc1"))
        if ends and small:
            ledger.release(state, rng.choice(small))
    answer = place(state, BIG)
    assert not isinstance(answer, Refusal)
    if isinstance(answer, CellPreemption):  # of opportunistic jobs alone: no one loses what he owns
        assert all(victim.priority == -1 for victim in answer.victims)
    validate(state)


def run(state: CellState, name: str, vc: str, size: int, priority: int) -> None:
    job = gang(name, vc, priority, (1, size))
    answer = place(state, job)
    if isinstance(answer, CellPlacement):
        ledger.start(state, job, answer)


def test_a_policy_that_counts_quota_alone_has_the_anomaly() -> None:
    cluster = QuotaOnly()
    assert [cluster.start(name, "vc1", 1) for name in ("one", "two")] == ["node0", "node1"]
    assert cluster.owns["vc2"] == 16
    assert cluster.start("big", "vc2", 16) is None


@pytest.mark.parametrize("seed", range(10))
def test_the_same_mix_that_quota_fails_on_is_no_problem_for_cells(seed: int) -> None:
    rng = random.Random(seed)
    quota, state = QuotaOnly(), healthy(TWO_NODES)
    for i in range(rng.randint(2, 16)):
        quota.start(f"vc1-{i}", "vc1", 1)
        run(state, f"vc1-{i}", "vc1", 1, 0)
    assert quota.start("big", "vc2", 16) is None
    assert isinstance(place(state, BIG), CellPlacement)
