"""Gavel as a live policy: its shares, its turns through the engine, and what it never does."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node
from tests.support.examples import examples

from skep_scheduler import engine
from skep_scheduler.memory import Memory
from skep_scheduler.model import Claim, Gang, Options, Plan, PolicyChoice, VirtualCluster
from skep_scheduler.policies.base import Knows, RoundView
from skep_scheduler.policies.gavel import live
from skep_scheduler.policies.gavel.finish_time import Ftf
from skep_scheduler.policies.gavel.live import Gavel
from skep_scheduler.policies.gavel.problem import Job, ShareProblem
from skep_scheduler.policies.gavel.totals import min_makespan
from skep_scheduler.policies.gpu_speeds import speed_on

PATIENT = Options(starvation_s=1e9, min_run_s=10.0)
ROUND = 60.0
FAST = (("V100", 1.0), ("A100", 4.0))
SLOWER = (("V100", 1.0), ("A100", 0.5))


def two_types(**parameters: Any) -> Cluster:
    """A virtual cluster with 8 V100 and 8 A100, and one beside it with as many."""
    choice = PolicyChoice("gavel", tuple({"round_s": ROUND, **parameters}.items()))
    claims = (Claim("", "V100", 8), Claim("", "A100", 8))
    vcs = [VirtualCluster("a", claims, choice), VirtualCluster("b", claims)]
    nodes = [node(f"{model}-{i}", model=model) for model in ("V100", "A100") for i in range(2)]
    return Cluster(nodes, vcs, PATIENT)


def view(*gangs: Gang, **gpus: float) -> RoundView:
    most = max(sorted(gpus), key=lambda leaf: gpus[leaf])

    def demand(one: Gang) -> dict[str, float]:
        return {one.members[0].gpu_model or most: float(one.gpus)}

    return RoundView(0.0, gangs, demand, gpus, lambda one: one.members[0].gpu_model is None)


def ran(world: Cluster) -> dict[str, float]:
    return {
        name: past.served_s + (world.now - (past.last_started_at or 0.0) if past.running else 0.0)
        for name, past in world.history.items()
    }


# The shares


@pytest.mark.parametrize("objective", sorted(live.OBJECTIVES))
def test_what_rounding_leaves_of_a_gpu_is_not_divided(objective: str) -> None:
    """Of a part of a GPU that is smaller than what counts as a share, no program has an answer."""
    first = gang("first", priority=11, gpus=1)
    others = [gang(f"g{n}", gpus=1, duration_s=600.0 * (n + 1)) for n in range(60)]
    found = Gavel(objective).parts(view(first, *others, A100=1.00003))
    assert not found.warning
    assert found.by_gang["first"] == pytest.approx({"A100": 1.0})
    assert not any(found.by_gang[other.id] for other in others)


def test_the_job_that_gains_most_on_the_fast_model_gets_it() -> None:
    keen, flat = gang("keen", gpus=8, speeds=FAST), gang("flat", gpus=8, speeds=SLOWER)
    parts = Gavel().parts(view(keen, flat, V100=8, A100=8)).by_gang
    assert parts["keen"]["A100"] > 0.8
    assert parts["flat"]["V100"] > 0.6


def test_the_speeds_of_the_policy_are_those_of_jobs_that_declare_none() -> None:
    own, other = gang("own", gpus=8, speeds=SLOWER), gang("other", gpus=8)
    by_table = Gavel(speeds="V100:1;A100:4").parts(view(own, other, V100=8, A100=8)).by_gang
    assert by_table["other"]["A100"] > by_table["own"].get("A100", 0.0) + 0.5


def test_a_job_that_names_a_model_has_its_time_there_only() -> None:
    named = gang("named", members=[member(1, 8, gpu_model="V100")], speeds=FAST)
    parts = Gavel().parts(view(named, gang("any", gpus=8), V100=8, A100=8)).by_gang
    assert set(parts["named"]) == {"V100"}


@pytest.mark.parametrize(
    ("leaf", "speed"), [("A100-SXM4-80GB", 2.5), ("A100-PCIE", 2.0), ("Tesla-V100", 1.5), ("T4", 1)]
)
def test_a_speed_is_that_of_the_longest_name_which_is_a_part_of_the_model(leaf, speed) -> None:
    named = {"A100": 2.0, "NVIDIA A100-SXM4-80GB": 2.5, "V100": 1.5, "A10": 9.0}
    assert speed_on(leaf, named) == speed


def long(name: str, hours: float, **known: Any) -> Gang:
    return gang(name, gpus=8, predicted_s=hours * 3600.0, **known)


def shares_of(objective: str, *gangs: Gang, at: float = 0.0, **gpus: float) -> dict[str, float]:
    seen = replace(view(*gangs, **gpus), start=at)
    made = Gavel(objective=objective).parts(seen)
    assert not made.warning
    return {name: sum(own.values()) for name, own in made.by_gang.items()}


def test_all_jobs_end_soonest_where_each_gets_time_in_proportion_to_its_work() -> None:
    shares = shares_of("min_makespan", long("short", 2), long("long", 32), V100=8)
    assert shares["long"] == pytest.approx(16 * shares["short"], rel=0.1)
    assert sum(shares.values()) == pytest.approx(1.0, abs=0.01)


def test_what_a_job_has_run_is_not_left() -> None:
    done = long("done", 32, attained_gpu_s=8 * 30 * 3600.0)
    shares = shares_of("min_makespan", done, long("new", 32), V100=8)
    assert shares["new"] > 10 * shares["done"]


def test_with_finish_time_fairness_who_waited_gets_what_it_missed() -> None:
    late, new = long("late", 8), long("new", 8, at=8 * 3600.0)
    equal = shares_of("ftf", late, replace(new, submitted_at=0.0), V100=8)
    assert equal["late"] == pytest.approx(equal["new"], abs=0.02)
    shares = shares_of("ftf", late, new, at=8 * 3600.0, V100=8)
    assert shares["late"] > 1.5 * shares["new"]


@pytest.mark.parametrize("objective", live.BY_WORK_LEFT)
def test_live_shares_are_those_of_the_simulator(objective) -> None:
    """Of work that no rounding changes: powers of two."""
    speeds = (4.0, 2.0, 1.0, 0.5, 8.0)
    jobs = [
        gang(f"g{i}", gpus=8, predicted_s=2.0 ** (10 + i), speeds=(("V100", 1.0), ("A100", speed)))
        for i, speed in enumerate(speeds)
    ]
    rows = [Job(i, i, 8, (speed, 1.0), left=2.0 ** (10 + i)) for i, speed in enumerate(speeds)]
    problem = ShareProblem(("A100", "V100"), (8, 8), rows)
    wanted = (Ftf() if objective == "ftf" else min_makespan)(problem)
    parts = Gavel(objective=objective).parts(view(*jobs, V100=8, A100=8)).by_gang
    for i, one in enumerate(jobs):
        found = tuple(parts[one.id].get(leaf, 0.0) for leaf in ("A100", "V100"))
        assert found == pytest.approx(wanted.get((i,), (0.0, 0.0)), abs=0.02)


@pytest.mark.parametrize(("objective", "facts"), [("max_min", set()), ("ftf", {Knows.DURATION})])
def test_what_it_must_know_is_said_by_its_objective(objective, facts) -> None:
    assert Gavel(objective=objective).needs_as_chosen().must_know == facts


SIZES = st.lists(
    st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([0.5, 1.0, 3.0])),
    min_size=1,
    max_size=12,
)


@given(drawn=SIZES)
def test_on_one_model_the_least_share_is_water_filling_whatever_the_speeds(drawn) -> None:
    jobs = [
        gang(f"g{i}", gpus=gpus, speeds=(("V100", speed),)) for i, (gpus, speed) in enumerate(drawn)
    ]
    parts = Gavel().parts(view(*jobs, V100=8)).by_gang
    got = {one.id: parts[one.id].get("V100", 0.0) * one.gpus for one in jobs}
    assert sum(got.values()) <= 8 + 1e-6
    level = max(got.values())
    for one in jobs:
        assert got[one.id] == pytest.approx(min(level, one.gpus), abs=1e-6)


@settings(deadline=None, max_examples=examples(25))
@given(drawn=SIZES, objective=st.sampled_from(sorted(live.OBJECTIVES)))
def test_shares_never_exceed_the_time_of_a_job_or_the_gpus_of_a_model(drawn, objective) -> None:
    jobs = [
        gang(f"g{i}", gpus=gpus, priority=10 * (i % 2), speeds=(("V100", 1.0), ("A100", speed)))
        for i, (gpus, speed) in enumerate(drawn)
    ]
    made = Gavel(objective=objective).parts(view(*jobs, V100=8, A100=8))
    assert not made.warning
    for leaf in ("V100", "A100"):
        used = sum(made.by_gang[one.id].get(leaf, 0.0) * one.gpus for one in jobs)
        assert used <= 8 + 1e-3
    assert all(sum(own.values()) <= 1 + 1e-6 for own in made.by_gang.values())


def test_a_program_is_solved_once_for_as_long_as_the_kinds_of_jobs_are_the_same() -> None:
    live.forget()
    world = two_types()
    world.submit(*(gang(f"g{i}", gpus=8, speeds=FAST if i % 2 else SLOWER) for i in range(6)))
    world.tick()
    world.advance(20 * ROUND, step_s=10.0)
    assert world.preempted, "they took turns"
    solved, remembered = live.known_programs()
    assert solved == 1
    assert remembered > 20


def test_without_a_solver_shares_are_equal_and_the_reason_says_so(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)  # as where it is not installed
    live.forget()
    world = two_types()
    world.submit(*(gang(f"g{i}", gpus=8, speeds=FAST) for i in range(4)))
    plan = world.tick()
    assert len(plan.placements) == 2
    assert "skep[policies]" in plan.warnings["a"]
    assert all("equal shares" in reason.message for reason in plan.reasons.values())
    world.advance(40 * ROUND, step_s=10.0)
    assert min(ran(world).values()) > 10 * ROUND


# The turns


def test_jobs_run_on_the_model_where_they_gain_most_and_take_turns_there() -> None:
    world = two_types()
    world.submit(
        *(gang(f"keen{i}", gpus=8, speeds=FAST) for i in range(2)),
        *(gang(f"flat{i}", gpus=8, speeds=SLOWER) for i in range(2)),
    )
    on: dict[str, set[str]] = {}
    for _ in range(120):
        world.step([world.now + 20.0])
        for name, held in world.state.running.items():
            on.setdefault(name, set()).add(held.tasks[0].node[:4])
    assert all("A100" in on[name] for name in ("keen0", "keen1"))
    assert all("V100" in on[name] for name in ("flat0", "flat1"))
    assert min(ran(world).values()) > 30 * 20.0


def test_the_reason_has_the_share_what_it_has_had_and_when_the_next_round_begins() -> None:
    world = two_types()
    only = [member(1, 8, gpu_model="A100")]
    world.submit(gang("first", members=only), gang("second", members=only, at=1.0))
    plan = world.tick()
    (reason,) = plan.reasons.values()
    words = "its share is 0.50 of the time, it has had 0.00; the next round begins in"
    assert words in reason.message
    made = None
    while made is None:
        made = next(iter(world.step([world.now + 10.0]).preemptions), None)
    (victim,) = made.victims
    assert (victim.gang, victim.standing["share"]) == ("first", 0.5)
    assert victim.standing["had"] > 0.9


# What it never does

MIX = st.lists(
    st.tuples(
        st.sampled_from([1, 2, 4, 8]),
        st.sampled_from([None, None, "V100", "A100"]),
        st.sampled_from([0.5, 1.0, 3.0]),
        st.integers(1, 12),
        st.sampled_from("aab"),
    ),
    min_size=1,
    max_size=9,
)


def filled(mix: list[tuple[int, str | None, float, int, str]], only: str = "ab") -> Cluster:
    world = two_types()
    world.keep_progress = True
    for i, (gpus, model, speed, length, vc) in enumerate(mix):
        if vc not in only:
            continue
        world.lifetimes[f"g{i}"] = length * 40.0
        asks = [member(1, gpus, gpu_model=model)]
        speeds = (("V100", 1.0), ("A100", speed))
        world.submit_later(gang(f"g{i}", vc, members=asks, at=i * 15.0, speeds=speeds))
    return world


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mix=MIX)
def test_every_job_ends_and_another_virtual_cluster_starts_as_if_it_were_alone(mix) -> None:
    """Conservation and HiveD's safety; `Cluster.plan` validates the cells before each plan."""
    together, alone = filled(mix), filled(mix, only="b")
    for world in (together, alone):
        while not (world.idle() and not world.state.waiting) and world.now < 20_000.0:
            world.step([world.now + 15.0])
        assert all(past.ended_at is not None for past in world.history.values())
    for name, past in alone.history.items():
        assert past.preemptions == together.history[name].preemptions == 0
        assert together.history[name].first_started_at == past.first_started_at


@settings(max_examples=examples(10), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mix=MIX)
def test_equal_facts_give_an_equal_plan(mix) -> None:
    """Also with the memory of earlier plans, and with nothing remembered of any program."""
    world = filled(mix)
    memory = Memory(PATIENT)
    for _ in range(12):
        world.step([world.now + 15.0])
        kept = world.state.reservations
        first = engine.plan(world.state, world.now, PATIENT)
        world.state.set_reservations(kept)
        live.forget()
        second = engine.plan(world.state, world.now, PATIENT, memory=memory)
        world.state.set_reservations(kept)
        assert acts(first) == acts(second)


def acts(plan: Plan) -> tuple[Any, ...]:
    return plan.placements, plan.preemptions, plan.cancels, plan.downgrades


def test_many_different_speeds_make_no_large_program() -> None:
    """Jobs of nearly the same speed get the same parts."""
    jobs = [
        gang(f"g{i}", gpus=2 ** (i % 4), speeds=(("V100", 1.0), ("A100", 1.0 + i / 700)))
        for i in range(2048)
    ]
    made = Gavel().parts(view(*jobs, V100=512, A100=512))
    assert not made.warning
    distinct = {tuple(sorted(own.items())) for own in made.by_gang.values()}
    assert 4 <= len(distinct) <= live.MOST_KINDS
