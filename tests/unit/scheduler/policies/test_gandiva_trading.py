"""Gandiva_fair's trades of GPU time between models: the exchange, the shares, and the engine."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cluster import Cluster, gang, member, node

from skep_scheduler.model import Claim, Gang, Options, PolicyChoice, VirtualCluster
from skep_scheduler.policies.base import RoundView
from skep_scheduler.policies.gandiva_trading import GandivaTrading, Trader, trade

ROUND = 60.0
KEEN = (("V100", 1.0), ("A100", 4.0))
FLAT = (("V100", 1.0), ("A100", 1.25))

TRADERS = st.lists(
    st.tuples(st.floats(0, 10), st.floats(0, 10), st.floats(0.5, 8), st.floats(0, 30)),
    min_size=1,
    max_size=6,
)


# The exchange


@given(drawn=TRADERS)
def test_no_user_loses_throughput_by_trading_and_no_gpu_is_lost(drawn) -> None:
    before = [
        Trader(str(i), fast, slow, speed_up, fast + slow + more)
        for i, (fast, slow, speed_up, more) in enumerate(drawn)
    ]
    after = trade(before)
    for old, new in zip(before, after, strict=True):
        assert new.throughput >= old.throughput * (1 - 1e-9) - 1e-9
        assert new.fast >= -1e-9
        assert new.slow >= -1e-9
        assert new.fast + new.slow <= new.most + 1e-6
    assert sum(u.fast for u in after) == pytest.approx(sum(u.fast for u in before))
    assert sum(u.slow for u in after) == pytest.approx(sum(u.slow for u in before))


def test_the_price_of_a_trade_is_the_second_largest_speed_up() -> None:
    users = [Trader("a", 4, 0, 1.0), Trader("b", 0, 4, 2.0), Trader("c", 0, 40, 4.0)]
    after = {user.name: user for user in trade(users)}
    assert (after["a"].fast, after["a"].slow) == (0, 8)
    assert (after["c"].fast, after["c"].slow) == (4, 32)


def test_a_lender_takes_no_more_than_it_can_use_and_the_next_one_lends_the_rest() -> None:
    users = [
        Trader("full", 4, 0, 1.0, 6.0),
        Trader("next", 4, 0, 1.1, 40.0),
        Trader("b", 0, 40, 2.0),
        Trader("c", 0, 40, 4.0),
    ]
    after = {user.name: user for user in trade(users)}
    assert after["full"].fast + after["full"].slow == pytest.approx(6.0)
    assert after["next"].fast == pytest.approx(0.0)


# The shares


def view(*gangs: Gang, **gpus: float) -> RoundView:
    most = max(sorted(gpus), key=lambda leaf: gpus[leaf])

    def demand(one: Gang) -> dict[str, float]:
        return {one.members[0].gpu_model or most: float(one.gpus)}

    return RoundView(0.0, gangs, demand, gpus, lambda one: one.members[0].gpu_model is None)


def many(owner: str, speeds: tuple[tuple[str, float], ...], count: int = 4) -> list[Gang]:
    return [
        gang(f"{owner}-{i}", gpus=4, owner=owner, speeds=speeds, at=float(i)) for i in range(count)
    ]


def gpus_of(parts: Any, owner: str, leaf: str) -> float:
    return sum(4 * own.get(leaf, 0.0) for name, own in parts.items() if name.startswith(owner))


def test_who_gains_more_on_the_fast_model_buys_time_there_and_both_gain() -> None:
    parts = GandivaTrading().parts(view(*many("keen", KEEN), *many("flat", FLAT), V100=8, A100=8))
    keen, flat = (
        {leaf: gpus_of(parts.by_gang, owner, leaf) for leaf in ("V100", "A100")}
        for owner in ("keen", "flat")
    )
    assert keen["A100"] > 4
    assert 4 * keen["A100"] + keen["V100"] > 4 * 4 + 4
    assert 1.25 * flat["A100"] + flat["V100"] >= 1.25 * 4 + 4 - 1e-9
    assert keen["A100"] + flat["A100"] == pytest.approx(8)


def test_without_speeds_users_have_their_part_of_each_model_by_tickets() -> None:
    gangs = [*many("ann", ()), *many("bob", ())]
    parts = GandivaTrading(tickets="ann:3").parts(view(*gangs, V100=8, A100=8)).by_gang
    for leaf in ("V100", "A100"):
        assert gpus_of(parts, "ann", leaf) == pytest.approx(6)
        assert gpus_of(parts, "bob", leaf) == pytest.approx(2)


def test_a_job_that_names_a_model_keeps_its_time_there() -> None:
    named = gang("named", members=[member(1, 8, gpu_model="A100")], owner="ann", speeds=FLAT)
    parts = GandivaTrading().parts(view(named, *many("keen", KEEN), V100=8, A100=8)).by_gang
    assert parts["named"] == {"A100": pytest.approx(0.5)}


def test_a_user_alone_has_the_whole_of_its_fastest_model() -> None:
    parts = GandivaTrading().parts(view(gang("a", gpus=8, speeds=KEEN), V100=8, A100=8)).by_gang
    assert parts["a"] == {"A100": pytest.approx(1.0)}


@given(
    drawn=st.lists(
        st.tuples(
            st.sampled_from(["ann", "bob", "eve"]),
            st.integers(1, 8),
            st.sampled_from(["", "V100", "A100"]),
            st.sampled_from([(), KEEN, FLAT]),
        ),
        max_size=12,
    ),
    v100=st.integers(1, 16),
    a100=st.integers(1, 16),
)
def test_the_parts_of_a_job_are_at_most_one_and_no_model_is_given_twice(drawn, v100, a100) -> None:
    gangs = [
        gang(
            f"g{i}",
            members=[member(1, gpus, gpu_model=model or None)],
            owner=owner,
            speeds=speeds,
            at=float(i),
        )
        for i, (owner, gpus, model, speeds) in enumerate(drawn)
    ]
    parts = GandivaTrading().parts(view(*gangs, V100=v100, A100=a100)).by_gang
    assert set(parts) == {one.id for one in gangs}
    for one in gangs:
        assert sum(parts[one.id].values()) <= 1 + 1e-6
    for leaf, gpus in (("V100", v100), ("A100", a100)):
        assert sum(one.gpus * parts[one.id].get(leaf, 0.0) for one in gangs) <= gpus + 1e-6


# Through the engine


def test_the_jobs_of_each_user_run_where_it_traded_to() -> None:
    choice = PolicyChoice("gandiva_trading", (("round_s", ROUND),))
    claims = (Claim("", "V100", 8), Claim("", "A100", 8))
    nodes = [node(f"{model}-{i}", model=model) for model in ("V100", "A100") for i in range(2)]
    world = Cluster(
        nodes, [VirtualCluster("a", claims, choice)], Options(starvation_s=1e9, min_run_s=10.0)
    )
    world.submit(*many("keen", KEEN, 3), *many("flat", FLAT, 3))
    world.tick()
    on = {"keen": {"V100": 0, "A100": 0}, "flat": {"V100": 0, "A100": 0}}
    for at in range(1, 40):
        world.advance(at * ROUND, step_s=ROUND / 2)
        for name, held in world.state.running.items():
            on[name.partition("-")[0]][held.tasks[0].node.partition("-")[0]] += 4
    assert on["keen"]["A100"] > 2 * on["flat"]["A100"]
    assert on["flat"]["V100"] > on["keen"]["V100"]
