"""How long a gang waits at most, where a policy or the guard against starvation says so.

Under policies of rounds turns bound it, under DRF with terms the terms do, and under all others a
gang that starves comes first and closes the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster import gang, node, owns
from tests.support.policy_lives import CHOICES, few_and_many, name_of

from skep_scheduler import policies
from skep_scheduler.model import Gang, Options, PolicyChoice
from skep_scheduler.policies.base import RoundPolicy, RoundView, View
from skep_scheduler.simulator.cluster import SimulatedCluster

STARVATION_S, STEP_S, GRACE_S = 300.0, 10.0, 5.0
OPTIONS = Options(starvation_s=STARVATION_S, min_run_s=10.0, ageing_s=60.0)
ROUND_S = 20.0
ROUNDS = tuple(
    replace(choice, parameters=(("round_s", ROUND_S), *more))
    for choice in map(PolicyChoice, ("gandiva_fair", "gandiva_trading", "stride", "gavel"))
    for more in ((), (("tickets" if choice.name != "gavel" else "weights", "u0:2"),))
)


def guards(choice: PolicyChoice) -> bool:
    return policies.make(choice, OPTIONS).decide(View("", 0.0, OPTIONS)).guards


GUARDED = tuple(filter(guards, CHOICES))


def cluster_of(choice: PolicyChoice, nodes: int) -> SimulatedCluster:
    (vc,) = owns(a=8 * nodes)
    machines = [node(f"n{i}") for i in range(nodes)]
    vcs = [replace(vc, policy=choice)]
    return SimulatedCluster(machines, vcs, OPTIONS, GRACE_S, keep_progress=True)


@few_and_many
@pytest.mark.parametrize(
    "choice",
    [
        pytest.param(choice, marks=[pytest.mark.long] if choice.parameters else [])
        for choice in GUARDED
    ],
    ids=name_of,
)
def test_a_gang_that_starves_starts_when_those_that_run_have_ended(
    choice: PolicyChoice, examples: int
) -> None:
    """Equal gangs never cease to come, always more than fit; each waits for less than it takes to
    starve. Whatever the other one asks for and says, they keep it waiting no longer."""

    @settings(max_examples=examples, deadline=None)
    @given(
        size=st.sampled_from([1, 2, 4, 8]),
        runs_s=st.sampled_from([20.0, 60.0, 90.0]),
        known=st.booleans(),
        due_in=st.sampled_from([None, 200.0]),
        asks=st.sampled_from([1, 4, 8]),
        says_s=st.sampled_from([None, 5.0, 5_000.0]),
    )
    def holds(
        size: int, runs_s: float, known: bool, due_in: float | None, asks: int, says_s: float | None
    ) -> None:
        cluster, number = cluster_of(choice, 1), 0
        starver = gang("starver", gpus=asks, at=1.0, owner="ann", duration_s=says_s)
        cluster.lifetimes["starver"] = 30.0
        while cluster.now < STARVATION_S + 2 * runs_s:
            waiting = sum(name != "starver" for name in cluster.state.waiting)
            for _ in range((8 // size if number == 0 else 0) + max(8 // size, 2) - waiting):
                name = f"f{number:03}"
                cluster.lifetimes[name] = runs_s * (1 + number % 3 / 3)
                cluster.submit(
                    gang(
                        name,
                        gpus=size,
                        at=cluster.now,
                        owner=("ann", "bob")[number % 2],
                        duration_s=2 * runs_s if known else None,
                        deadline_at=None if due_in is None else cluster.now + due_in,
                    )
                )
                number += 1
            cluster.tick()
            if cluster.now == 0.0:
                cluster.submit(starver)
            cluster.advance(cluster.now + STEP_S)
        longest_s = runs_s * 5 / 3
        began = cluster.history["starver"].first_started_at
        assert began is not None
        assert began <= starver.submitted_at + STARVATION_S + longest_s + 2 * STEP_S

    holds()


def shares_of(choice: PolicyChoice, gangs: Mapping[str, Gang]) -> Mapping[str, float]:
    """Return the share of the time of each gang on 16 GPUs."""
    policy = policies.check(choice)(**dict(choice.parameters))
    assert isinstance(policy, RoundPolicy)
    view = RoundView(
        0.0,
        tuple(gangs.values()),
        lambda one: {"A100": float(one.gpus)},
        {"A100": 16.0},
        lambda one: True,
    )
    return policy.shares(view)


@few_and_many
@pytest.mark.parametrize("choice", ROUNDS, ids=name_of)
def test_turns_bound_how_long_a_job_waits(choice: PolicyChoice, examples: int) -> None:
    """A job with the share x of the time waits for no more than 1 / x rounds, when more is owed to
    it than to one that begins a turn, and then for a turn of each of the others."""

    @settings(max_examples=examples, deadline=None)
    @given(sizes=st.lists(st.sampled_from([1, 2, 4, 8, 8]), min_size=3, max_size=8))
    def holds(sizes: list[int]) -> None:
        cluster = cluster_of(choice, 2)
        gangs = {f"g{i}": gang(f"g{i}", gpus=n, owner=f"u{i}") for i, n in enumerate(sizes)}
        cluster.submit(*gangs.values())
        cluster.tick()
        shares = shares_of(choice, gangs)
        since = dict.fromkeys(gangs, 0.0)
        waited = dict.fromkeys(gangs, 0.0)
        while cluster.now < 60 * ROUND_S:
            cluster.advance(cluster.now + ROUND_S, step_s=STEP_S)
            for name in gangs:
                if name in cluster.state.running:
                    since[name] = cluster.now
                waited[name] = max(waited[name], cluster.now - since[name])
        for name, share in shares.items():
            most = (1 / share + len(gangs) + 2) * ROUND_S if share > 0 else float("inf")
            assert waited[name] <= most, f"{name}, {share}, {waited}"

    holds()


@few_and_many
def test_under_drf_a_user_who_has_nothing_waits_for_no_more_than_a_term(examples: int) -> None:
    term_s = 60.0
    choice = PolicyChoice("drf", (("term_s", term_s),))

    @settings(max_examples=examples, deadline=None)
    @given(
        arrivals=st.lists(
            st.tuples(st.integers(0, 30), st.sampled_from([1, 2])), min_size=1, max_size=3
        )
    )
    def holds(arrivals: list[tuple[int, int]]) -> None:
        cluster = cluster_of(choice, 2)
        cluster.submit(*(gang(f"first{i:02}", owner="first") for i in range(16)))
        cluster.tick()
        for n, (at, size) in enumerate(arrivals):
            for i in range(4):
                came = at * STEP_S
                cluster.submit_later(gang(f"u{n}-{i}", gpus=size, owner=f"u{n}", at=came))
        cluster.advance(30 * STEP_S + 3 * term_s, step_s=STEP_S)
        for n, (at, _) in enumerate(arrivals):
            starts = (cluster.history[f"u{n}-{i}"].first_started_at for i in range(4))
            began = min(moment for moment in starts if moment is not None)
            assert began <= at * STEP_S + term_s + GRACE_S + STEP_S

    holds()
