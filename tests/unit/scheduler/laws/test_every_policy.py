"""What holds under every policy that a virtual cluster can choose, whatever happens.

A policy that is registered is tested here, with its defaults and with other parameters.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from tests.support.plans import rebuilt
from tests.support.policy_lives import (
    LIVES,
    MORE,
    NEVER_STARTS,
    Life,
    each_choice,
    each_default,
    few_and_many,
    heal,
    live,
)

from skep_scheduler import policies
from skep_scheduler.model import Code, Options, PolicyChoice


@few_and_many
@each_default
def test_every_plan_is_lawful(choice: PolicyChoice, examples: int) -> None:
    """The cells are valid before and after every plan, no GPU has two gangs, none has what another
    virtual cluster owns, every gang that waits has a reason, none waits beside idle places, a
    second plan is equal, and so is one for the same facts in another order."""

    @settings(max_examples=examples, deadline=None)
    @given(life=LIVES)
    def holds(life: Life) -> None:
        live(choice, life)

    holds()


@few_and_many
@each_choice
def test_every_gang_that_can_start_ends(choice: PolicyChoice, examples: int) -> None:
    """Nothing that happened before keeps gangs waiting for ever, once all hardware is good and no
    more gangs come. Those that were preempted go on where they stopped. Plans are lawful in these
    lives, too."""

    @settings(max_examples=examples, deadline=None)
    @given(life=LIVES)
    def holds(life: Life) -> None:
        cluster = live(choice, dataclasses.replace(life, keep_progress=True))
        heal(cluster)
        for gang_id, past in cluster.history.items():
            if past.ended_at is None and gang_id not in cluster.lifetimes:
                cluster.end(gang_id)
        cluster.tick()
        cluster.run_to_end(tick_limit=2_000)
        left = cluster.plan().reasons
        for gang_id, past in cluster.history.items():
            assert past.ended_at is not None or left[gang_id].code in NEVER_STARTS, left[gang_id]

    holds()


def test_every_policy_is_lived_with_other_parameters_than_its_defaults() -> None:
    known = {policy.name for policy in policies.POLICIES if dataclasses.fields(policy)}
    assert known == MORE.keys()


def test_nominated_places_survive_facts_in_another_order() -> None:
    """Those that were put anew after one nomination took the places of another one, of another
    virtual cluster, which then was cancelled: after a takeover its victims left in vain."""
    opportunistic = ("submit", 1, "a", (1, 1), None, -1, None, False, None, "ann", "")
    own = ("submit", 2, "a", (1, 2), "V100", 0, None, False, None, "ann", "")
    other = ("submit", 1, "b", (1, 1), None, 0, None, False, None, "ann", "")
    now, later = ("wait", 0.0), ("wait", 60.0)
    first = opportunistic, now, now, opportunistic, now, now
    happenings = (*first, own, now, later, other, now, now)
    demoting = {"first_limit_gpu_s": 100, "second_limit_gpu_s": 0}
    options = Options(starvation_s=1e9, min_run_s=0.0, opportunistic_min_run_s=0.0, leave_s=5.0)
    cluster = live(
        PolicyChoice("tiresias", tuple(demoting.items())),
        Life(happenings, PolicyChoice("priority_ageing"), options, keep_progress=False),
    )
    assert len(cluster.state.nominated) == 2
    for seed in range(200):
        facts = rebuilt(cluster.state, seed)
        facts.reconcile()
        assert all(facts.is_nominated(gang_id) for gang_id in facts.nominated)


def submitted(copies: int, size: tuple[int, int]) -> tuple[Any, ...]:
    return "submit", copies, "a", size, "A100", 0, None, False, None, "ann", ""


@pytest.mark.parametrize("starvation_s", [1e9, 100.0])
@pytest.mark.parametrize("policy", [policy.name for policy in policies.ELASTIC])
def test_gpus_that_were_given_to_a_gang_without_a_place_are_used_by_the_others(
    policy: str, starvation_s: float
) -> None:
    """Policies of sizes count GPUs. Of the six A100 two gangs of one GPU have one in each half, so
    that the four that are left are no place for a gang of four on one node. The next one starts
    beside them, or is held back by name, where that gang starves."""
    fill = submitted(3, (1, 1)), ("wait", 0.0), ("end", 0), ("wait", 0.0)
    stuck = submitted(1, (1, 4)), ("wait", 60.0), ("wait", 60.0)
    happenings = (*fill, *stuck, submitted(1, (1, 1)), ("wait", 0.0))
    options = Options(
        starvation_s=starvation_s,
        min_run_s=0.0,
        opportunistic_min_run_s=0.0,
        leave_s=5.0,
        resize_hold_s=0.0,
    )
    life = Life(happenings, PolicyChoice("priority_ageing"), options, keep_progress=False)
    cluster = live(PolicyChoice(policy), life)
    if starvation_s == 1e9:
        assert "g07a" in cluster.state.running
    else:
        assert cluster.plan().reasons["g07a"].code == Code.HELD_BACK
