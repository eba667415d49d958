"""What a virtual cluster gets depends on its own cells and its own policy alone.

It lives twice: alone on its cells, and in a cluster with another one under any policy, with gangs
that use whatever is idle. As those leave at once here, its gangs start, end and are preempted at
the very same moments. (HiveD, OSDI 2020, section 2: the sharing anomaly.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cluster import gang, member, node
from tests.support.policy_lives import CHOICES, each_default, few_and_many

from skep_scheduler.model import Claim, Gang, Options, Plan, PolicyChoice, VirtualCluster
from skep_scheduler.simulator.cluster import SimulatedCluster

STEP_S = 10.0  # everything happens at multiples of it
OPTIONS = Options(min_run_s=20.0, opportunistic_min_run_s=0.0, leave_s=0.0)
OWN = (Claim("", "A100", 8), Claim("", "V100", 2))


@dataclass(frozen=True, slots=True)
class Arrival:
    """A gang that comes, and how long it really runs."""

    gang: Gang
    runs_s: float


def gangs_of(vcs: str, priorities: list[int], most: int) -> st.SearchStrategy[list[Arrival]]:
    """Draw gangs that the owner of `a` or others submit within two minutes."""
    facts = st.tuples(
        st.sampled_from(vcs),
        st.integers(0, 12),
        st.sampled_from([(1, 1), (1, 1), (1, 2), (2, 1), (3, 1), (1, 4), (2, 4), (2, 2)]),
        st.sampled_from([None, None, "A100", "A100", "V100"]),
        st.sampled_from(priorities),
        st.integers(1, 12),
        st.booleans(),
        st.sampled_from([None, 100.0, 400.0]),
        st.sampled_from(["ann", "bob"]),
        st.booleans(),
    )
    return st.lists(facts, min_size=most * 2 // 3, max_size=most).map(_arrivals)


def _arrivals(drawn: list[tuple[Any, ...]]) -> list[Arrival]:
    found = []
    for n, (vc, at, size, model, priority, runs, known, due_in, owner, preemptible) in enumerate(
        drawn
    ):
        submitted_at = at * STEP_S
        one = gang(
            f"{vc}{n:02}",
            vc,
            priority=priority,
            at=submitted_at,
            members=[member(*size, gpu_model=model)],
            duration_s=runs * STEP_S if known else None,
            deadline_at=None if due_in is None else submitted_at + due_in,
            owner=owner,
            preemptible=preemptible,
        )
        found.append(Arrival(one, runs * STEP_S))
    return found


MINE = gangs_of("a", [0, 0, 0, 1], most=18)
THEIRS = gangs_of("abbc", [-1, -1, 0, 1], most=18)


def lives(cluster: SimulatedCluster, arrivals: list[Arrival]) -> SimulatedCluster:
    """Let a cluster live to the end, in which it plans at every step."""
    for arrival in arrivals:
        cluster.lifetimes[arrival.gang.id] = arrival.runs_s
        cluster.submit_later(arrival.gang)
    moment = 0.0
    while moment < 1_500.0 and not (cluster.idle() and not cluster.state.waiting):
        moment += STEP_S
        cluster.advance(moment)
        decided = cluster.tick()
        while _acts(decided):  # victims leave at this very moment
            decided = cluster.step() if decided.preemptions else cluster.tick()
    return cluster


def _acts(plan: Plan) -> bool:
    return any((plan.placements, plan.preemptions, plan.cancels, plan.downgrades, plan.restored))


def nodes_of(kind: str, number: int, gpus: int, model: str) -> list[Any]:
    return [node(f"{kind}{i}", gpus, model) for i in range(number)]


@few_and_many
@each_default
def test_a_virtual_cluster_gets_the_same_as_if_it_were_alone(
    choice: PolicyChoice, examples: int
) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(mine=MINE, theirs=THEIRS, other=st.sampled_from(CHOICES))
    def holds(mine: list[Arrival], theirs: list[Arrival], other: PolicyChoice) -> None:
        own = VirtualCluster("a", OWN, choice)
        if ages(choice):
            mine = [replace(one, gang=replace(one.gang, priority=0)) for one in mine]
        guests = [one for one in theirs if one.gang.vc != "a" or one.gang.opportunistic]
        guests = [replace(one, gang=_renamed(one.gang)) for one in guests]
        alone = SimulatedCluster(
            [*nodes_of("a", 2, 4, "A100"), *nodes_of("v", 1, 2, "V100")],
            [own],
            OPTIONS,
            0.0,
            keep_progress=True,
        )
        shared = SimulatedCluster(
            [*nodes_of("a", 4, 4, "A100"), *nodes_of("v", 3, 2, "V100")],
            [own, VirtualCluster("b", OWN, other), VirtualCluster("c")],
            OPTIONS,
            0.0,
            keep_progress=True,
        )
        lives(alone, mine)
        lives(shared, mine + guests)
        for arrival in mine:
            name = arrival.gang.id
            assert _past(shared, name) == _past(alone, name), name

    holds()


def ages(choice: PolicyChoice) -> bool:
    """Return whether a gang may come before one of a higher priority. If it has to wait for others
    to leave, that one takes over what it has reserved; if it starts at once, it is safe for the
    least time to run. So the time that others need to leave decides."""
    most = dict(choice.parameters).get("ageing_limit", OPTIONS.ageing_limit)
    return choice.name == "priority_ageing" and most != 0


def _renamed(guest: Gang) -> Gang:
    return replace(guest, id=f"guest-{guest.id}")


def _past(cluster: SimulatedCluster, name: str) -> tuple[Any, ...]:
    past = cluster.history[name]
    return (
        past.first_started_at,
        past.last_started_at,
        past.ended_at,
        past.preemptions,
        past.served_s,
    )
