"""Policies of shares and rounds: by rule, by law, and through the engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node, owns
from tests.support.examples import examples

from skep_scheduler import engine, policies
from skep_scheduler.forecast import timeline
from skep_scheduler.model import Options, Placement, PolicyChoice, Reason
from skep_scheduler.policies.base import weights_of
from skep_scheduler.policies.drf import dominant_share, fill
from skep_scheduler.policies.gandiva_fair import (
    StrideUser,
    stride,
    water_fill,
)

PATIENT = Options(starvation_s=1e9, min_run_s=10.0)


def cluster(policy: str, nodes: int = 1, **parameters: Any) -> Cluster:
    choice = PolicyChoice(policy, tuple(parameters.items()))
    (vc,) = owns(a=8 * nodes)
    vcs = [replace(vc, policy=choice)]
    return Cluster([node(f"n{i}") for i in range(nodes)], vcs, PATIENT)


# DRF, the divisible form: example and the four properties of the paper


def test_progressive_filling_is_as_in_the_example_of_the_paper() -> None:
    """Section 4.1: 9 CPUs and 18 GB; tasks of (1, 4) and of (3, 1)."""
    capacity = {"cpu": 9.0, "memory": 18.0}
    tasks = fill([{"cpu": 1, "memory": 4}, {"cpu": 3, "memory": 1}], capacity)
    assert tasks == pytest.approx([3.0, 2.0])


RESOURCES = ("V100", "A100", "cpu", "memory")
NEEDS = st.fixed_dictionaries({name: st.integers(0, 9) for name in RESOURCES}).filter(
    lambda needs: any(needs.values())
)
USERS = st.lists(NEEDS, min_size=1, max_size=5)
TOTALS = st.fixed_dictionaries({name: st.integers(1, 100) for name in RESOURCES})


def tasks_within(demand: dict[str, int], bundle: dict[str, float]) -> float:
    return min(bundle[name] / need for name, need in demand.items() if need)


@given(demands=USERS, capacity=TOTALS)
def test_drf_fits_and_leaves_nothing_that_a_user_could_use(demands, capacity) -> None:
    """Pareto efficiency: no user can have more, as one of the resources it needs is used up."""
    tasks = fill(demands, capacity)
    used = {
        name: sum(t * d[name] for t, d in zip(tasks, demands, strict=True)) for name in capacity
    }
    for name, total in capacity.items():
        assert used[name] <= total + 1e-6
    for demand in demands:
        assert any(need and used[name] >= capacity[name] - 1e-6 for name, need in demand.items())


@given(demands=USERS, capacity=TOTALS)
def test_drf_gives_each_user_at_least_an_equal_part_of_everything(demands, capacity) -> None:
    """Sharing incentive."""
    tasks = fill(demands, capacity)
    equal = {name: total / len(demands) for name, total in capacity.items()}
    for got, demand in zip(tasks, demands, strict=True):
        assert got >= tasks_within(demand, equal) - 1e-6


@given(demands=USERS, capacity=TOTALS)
def test_no_user_of_drf_prefers_what_another_one_has(demands, capacity) -> None:
    """Envy-freeness."""
    tasks = fill(demands, capacity)
    for got, demand in zip(tasks, demands, strict=True):
        for theirs, other in zip(tasks, demands, strict=True):
            bundle = {name: theirs * need for name, need in other.items()}
            assert tasks_within(demand, bundle) <= got + 1e-6


@given(demands=USERS, capacity=TOTALS, lie=NEEDS)
def test_no_user_of_drf_gains_by_a_lie(demands, capacity, lie) -> None:
    """Strategy-proofness: tasks that can run on what a lie brings are not more."""
    honest = fill(demands, capacity)[0]
    bundle = {n: fill([lie, *demands[1:]], capacity)[0] * need for n, need in lie.items()}
    assert tasks_within(demands[0], bundle) <= honest + 1e-6


# DRF in the engine


def test_the_user_with_the_least_dominant_share_is_served_first() -> None:
    world = cluster("drf")
    world.run(*(gang(f"ann{i}", owner="ann", at=0.0) for i in range(4)))
    world.submit(
        *(gang(f"ann{i}", owner="ann", at=float(i)) for i in range(4, 10)),
        *(gang(f"bob{i}", owner="bob", at=100.0 + i) for i in range(10)),
    )
    started = [placement.gang for placement in world.tick().placements]
    assert sorted(started) == ["bob0", "bob1", "bob2", "bob3"]


def test_shares_are_counted_again_after_each_start() -> None:
    world = cluster("drf")
    world.submit(
        *(gang(f"ann{i}", owner="ann", at=float(i)) for i in range(9)),
        *(gang(f"bob{i}", owner="bob", at=100.0 + i) for i in range(9)),
    )
    started = [placement.gang for placement in world.tick().placements]
    assert started == [f"{name}{i}" for i in range(4) for name in ("ann", "bob")]


def test_memory_counts_as_gpus_do_and_weights_multiply() -> None:
    # Jobs of ann take two GPUs' share of the memory each: her dominant share is twice bob's.
    large = [member(1, 1, memory_mb=2 * 32_768)]
    world = cluster("drf", weights="ann:2")
    world.submit(
        *(gang(f"ann{i}", owner="ann", members=large, at=float(i)) for i in range(9)),
        *(gang(f"bob{i}", owner="bob", at=100.0 + i) for i in range(9)),
    )
    started = [placement.gang for placement in world.tick().placements]
    assert started[:6] == [f"{name}{i}" for i in range(3) for name in ("ann", "bob")]
    assert "ann3" not in started, "the memory is used up"


def test_a_job_that_does_not_fit_keeps_no_other_job_of_its_user_waiting() -> None:
    world = cluster("drf")
    world.run(gang("bob0", gpus=4, owner="bob"))
    world.submit(
        gang("wide", gpus=8, owner="ann", at=1.0),
        gang("small", owner="ann", at=2.0),
        gang("bob1", owner="bob", at=0.0),
    )
    started = [placement.gang for placement in world.tick().placements]
    assert started == ["small", "bob1"]


def test_with_terms_the_last_job_of_the_user_with_the_largest_share_yields() -> None:
    world = cluster("drf", term_s=300.0)
    world.run(*(gang(f"ann{i}", owner="ann", at=float(i)) for i in range(8)))
    world.now = 100.0
    world.submit(*(gang(f"bob{i}", owner="bob", at=100.0 + i) for i in range(8)))
    plan = world.tick()
    assert not plan.preemptions
    assert plan.next_at == 300.0
    world.now = 300.0
    victims = [victim.gang for made in world.tick().preemptions for victim in made.victims]
    assert victims == ["ann7", "ann6", "ann5", "ann4"]
    world.advance(2000.0, step_s=50.0)
    owners = sorted(g[:3] for g in world.state.running)
    assert owners == ["ann"] * 4 + ["bob"] * 4
    assert len(world.preempted) == 4, "two users displace each other in turn"


# Gandiva_fair: the rule


def test_of_two_users_one_with_twice_the_tickets_gets_twice_the_time() -> None:
    users = [StrideUser("ann", [8], 2.0), StrideUser("bob", [8], 1.0)]
    turns = [stride(users, 8, 60.0)[0][0] for _ in range(9)]
    assert (turns.count("ann"), turns.count("bob")) == (6, 3)


def test_a_large_job_is_not_starved_by_small_ones() -> None:
    users = [StrideUser("large", [8]), StrideUser("small", [1] * 8)]
    turns = [stride(users, 8, 60.0) for _ in range(4)]
    assert [len(chosen) for chosen in turns] == [1, 8, 1, 8]


def test_what_a_user_does_not_need_goes_to_the_others() -> None:
    asked = {"ann": 1.0, "bob": 9.0, "eve": 9.0}
    assert water_fill(8.0, asked, {}) == {"ann": 1.0, "bob": 3.5, "eve": 3.5}
    assert water_fill(9.0, asked, {"bob": 3.0}) == {"ann": 1.0, "bob": 6.0, "eve": 2.0}
    assert weights_of("ann:2;bob:0.5") == {"ann": 2.0, "bob": 0.5}


# Gandiva_fair: turns in the engine

ROUND = 600.0


def turns_of(world: Cluster, rounds: int) -> dict[str, float]:
    """Return how long each gang ran in so many rounds."""
    world.tick()
    world.advance(rounds * ROUND, step_s=60.0)
    ran = {}
    for gang_id, past in world.history.items():
        open_s = world.now - (past.last_started_at or 0.0) if past.running else 0.0
        ran[gang_id] = past.served_s + open_s
    return ran


def test_jobs_that_need_all_gpus_take_turns() -> None:
    world = cluster("gandiva_fair")
    world.submit(*(gang(name, gpus=8, owner=name) for name in ("ann", "bob", "eve")))
    ran = turns_of(world, 12)
    assert all(3.5 * ROUND < seconds < 4.5 * ROUND for seconds in ran.values()), ran


def test_turns_are_in_proportion_to_tickets() -> None:
    world = cluster("gandiva_fair", tickets="ann:2")
    world.submit(*(gang(name, gpus=8, owner=name) for name in ("ann", "bob")))
    ran = turns_of(world, 12)
    assert ran["ann"] / ran["bob"] == pytest.approx(2.0, rel=0.2)


def test_who_stays_within_his_share_is_never_displaced() -> None:
    world = cluster("gandiva_fair")
    world.submit(
        gang("half", gpus=4, owner="ann"),
        *(gang(f"bob{i}", gpus=4, owner="bob", at=float(i)) for i in range(3)),
    )
    ran = turns_of(world, 6)
    assert "half" not in world.preempted
    assert ran["bob0"] == pytest.approx(6 * ROUND, rel=0.05), "jobs of one user go in order"


def test_a_user_that_comes_late_gets_his_share_at_the_next_round_and_no_more() -> None:
    world = cluster("gandiva_fair")
    world.submit(gang("ann", gpus=8, owner="ann"))
    world.tick()
    world.advance(20 * ROUND + 100.0, step_s=60.0)
    world.submit(gang("bob", gpus=8, owner="bob", at=world.now))
    assert not world.tick().preemptions
    world.advance(32 * ROUND, step_s=60.0)
    past = world.history["bob"]
    ran = past.served_s + (world.now - past.last_started_at if past.running else 0.0)
    assert 5 * ROUND < ran < 7 * ROUND


def test_a_large_job_gets_a_turn_where_its_gpus_are_spread_among_small_ones() -> None:
    """Those with the least claim to go on hold half of each node: one with more has to leave."""
    world = cluster("gandiva_fair", nodes=2)
    for name in ("ann", "ben", "cem", "dan"):
        world.run(gang(name, gpus=4, owner=name))
    world.advance(2 * ROUND, step_s=60.0)
    on_node = {g: held.tasks[0].node for g, held in world.state.running.items()}
    for node_name in ("n0", "n1"):
        world.end(next(g for g in sorted(on_node) if on_node[g] == node_name))
    world.run(gang("eve", gpus=4, owner="eve"), gang("fay", gpus=4, owner="fay"))
    world.submit(gang("large", gpus=8, owner="gus", at=world.now))
    ran = turns_of(world, 20)
    assert 3 * ROUND < ran["large"] < 12 * ROUND, ran


def test_jobs_take_turns_beside_one_that_cannot_start() -> None:
    world = cluster("gandiva_fair")
    world.run(gang("stays", gpus=4, owner="ann", preemptible=False))
    world.submit(
        gang("never", gpus=8, owner="bob"),
        gang("cem", gpus=4, owner="cem", at=1.0),
        gang("dan", gpus=4, owner="dan", at=2.0),
    )
    ran = turns_of(world, 20)
    assert ran["never"] == 0
    assert ran["stays"] == pytest.approx(20 * ROUND, rel=0.05)
    assert min(ran["cem"], ran["dan"]) > 5 * ROUND, ran


def test_rounds_end_with_the_last_job_that_can_run() -> None:
    """A job that never fits keeps no simulation going for ever."""
    world = cluster("gandiva_fair")
    world.lifetimes["small"] = 2 * ROUND
    world.submit_later(gang("small", at=1.0, owner="ann"))
    world.submit_later(gang("huge", gpus=8, tasks=2, at=1.0, owner="bob"))
    world.run_to_end(tick_limit=100)
    assert world.history["small"].ended_at is not None


def test_what_would_happen_to_a_new_job_counts_the_shares_of_those_before_it() -> None:
    """An idle virtual cluster serves its two users in turn, and says so before they submit."""
    world = cluster("drf")
    world.submit(*(gang(f"ann{i}", owner="ann", at=float(i)) for i in range(9)))
    new = gang("bob", owner="bob", at=100.0)
    assert isinstance(engine.explain(world.state, new, 100.0, PATIENT), Placement)
    world.submit(*(gang(f"bob{i}", owner="bob", at=50.0 + i) for i in range(9)))
    first = [start.gang for start in timeline(world.state, "a", 100.0, PATIENT)][:4]
    assert first == ["ann0", "bob0", "ann1", "bob1"]


def test_a_user_may_take_places_although_another_one_with_such_a_job_may_not() -> None:
    """Zoe holds nothing, but one GPU would be more for her than for the others: she has the least
    weight. Bob's job asks for the same, and he holds less than ann even with it."""
    world = cluster("drf", term_s=60.0, weights="zoe:0.01")
    world.run(*(gang(f"ann{i}", owner="ann", at=float(i)) for i in range(6)))
    world.run(*(gang(f"bob{i}", owner="bob", at=float(i)) for i in range(2)))
    world.now = 100.0
    world.submit(gang("zoe", owner="zoe", at=50.0), gang("bob", owner="bob", at=60.0))
    (made,) = world.tick().preemptions
    assert (made.gang, [victim.gang for victim in made.victims]) == ("bob", ["ann5"])


MIX = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob", "eve"]),
        st.sampled_from([1, 2, 4, 8, 16]),
        st.sampled_from([0, 10, 10]),
        st.integers(1, 20),
    ),
    min_size=1,
    max_size=10,
)
CHOICES = (
    PolicyChoice("drf"),
    PolicyChoice("drf", (("term_s", 200.0), ("weights", "ann:3"))),
    PolicyChoice("gandiva_fair", (("round_s", 60.0),)),
    PolicyChoice("gandiva_fair", (("round_s", 300.0), ("tickets", "bob:2"))),
    PolicyChoice("stride", (("round_s", 60.0), ("tickets", "ann:2"))),
    PolicyChoice("gavel", (("round_s", 60.0),)),
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mix=MIX, choice=st.sampled_from(CHOICES))
def test_every_job_ends_and_none_waits_beside_gpus_that_it_could_use(mix, choice) -> None:
    """No starvation and work conservation; `Cluster.plan` validates the cells before each plan."""
    (vc,) = owns(a=16)
    world = Cluster([node("n0"), node("n1")], [replace(vc, policy=choice)], PATIENT)
    world.keep_progress = True
    for i, (owner, gpus, priority, length) in enumerate(mix):
        tasks = [member(2, 8)] if gpus == 16 else [member(1, gpus)]
        world.lifetimes[f"g{i}"] = length * 50.0
        world.submit_later(
            gang(f"g{i}", members=tasks, owner=owner, priority=priority, at=i * 40.0)
        )
    while world.now < 40.0 * len(mix) + 30_000.0 and not (world.idle() and not world.state.waiting):
        plan = world.step([world.now + 20.0])
        settled = not (plan.preemptions or world.state.nominated or plan.placements)
        held = sum(len(task.gpu_uuids) for a in world.state.running.values() for task in a.tasks)
        if settled and any(waits.gpus == 1 for waits in world.state.waiting.values()):
            assert held == 16
    assert all(past.ended_at is not None for past in world.history.values())


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    mix=MIX,
    firm=st.sets(st.integers(0, 9), max_size=3),
    choice=st.sampled_from([*CHOICES[1:], PolicyChoice("edf")]),
)
def test_none_leaves_that_may_not_be_asked_to(mix, firm, choice) -> None:
    """No other virtual cluster's gang, none of a higher priority, none that is not preemptible, and
    none before its least run time and, of the same priority, before the next round."""
    first, second = owns(a=16, b=8)
    vcs = [replace(first, policy=choice), second]
    world = Cluster([node(f"n{i}") for i in range(3)], vcs, PATIENT, keep_progress=True)
    world.run(gang("other", "b", gpus=8, priority=0))
    round_s = dict(choice.parameters).get("round_s", 1.0)
    for i, (owner, gpus, priority, length) in enumerate(mix):
        tasks = [member(2, 8)] if gpus == 16 else [member(1, gpus)]
        world.lifetimes[f"g{i}"] = length * 100.0
        late = gang(f"g{i}", members=tasks, owner=owner, priority=priority, at=i * 40.0)
        due = 1e4 - 300.0 * length if length % 2 else None
        world.submit_later(replace(late, preemptible=i not in firm, deadline_at=due))
    while world.now < 2_000.0 and not world.idle():
        plan = world.plan()
        for made in plan.preemptions:
            by = world.state.waiting[made.gang]
            for victim in made.victims:
                known = world.state.running[victim.gang]
                assert known.gang.vc == by.vc
                assert known.gang.preemptible
                assert known.gang.priority <= by.priority
                assert known.placed_at + PATIENT.min_run_s <= world.now
                if known.gang.priority == by.priority:
                    assert known.placed_at < world.now // round_s * round_s
        world.step([world.now + 20.0])


def test_by_stride_each_job_gets_time_by_the_tickets_of_its_owner() -> None:
    world = cluster("stride", tickets="ann:2")
    world.submit(*(gang(name, gpus=8, owner=name[:3]) for name in ("ann1", "ann2", "bob")))
    ran = turns_of(world, 20)
    assert ran["ann1"] / ran["bob"] == pytest.approx(2.0, rel=0.25)
    assert ran["ann1"] / ran["ann2"] == pytest.approx(1.0, rel=0.25)


@pytest.mark.parametrize("name", policies.names())
def test_a_forecast_is_made_under_every_policy_without_a_trace(name: str) -> None:
    world = cluster(name)
    world.run(gang("runs", gpus=4, owner="ann", duration_s=900.0))
    world.submit(gang("wide", gpus=8, owner="bob", at=1.0, duration_s=60.0))
    before = world.state.digest()
    small = gang("small", gpus=2, owner="eve", at=2.0, duration_s=60.0)
    answer = engine.explain(world.state, small, 5.0, PATIENT)
    assert isinstance(answer, Placement | Reason)
    assert [start.gang for start in timeline(world.state, "a", 5.0, PATIENT)] == ["wide"]
    assert world.state.digest() == before


@pytest.mark.parametrize("text", ["ann", "ann:x", "ann:1,bob:2", "ann:-1", 7])
def test_weights_that_cannot_be_read_are_refused(text) -> None:
    with pytest.raises(policies.PolicyError) as caught:
        policies.check(PolicyChoice("drf", (("weights", text),)))
    assert caught.value.code == "bad_policy_parameter"


def test_a_dominant_share_is_of_what_is_owned() -> None:
    assert dominant_share({"V100": 4, "K80": 9, "cpu": 10}, {"V100": 8, "cpu": 100}) == 0.5
