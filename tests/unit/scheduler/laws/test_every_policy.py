"""What holds under every policy that a virtual cluster can choose, whatever happens.

A policy that is registered is tested here, with its defaults and with other parameters.
"""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from tests.support.policy_lives import (
    LIVES,
    MORE,
    NEVER_STARTS,
    Life,
    each_choice,
    few_and_many,
    heal,
    live,
)

from skep_scheduler import policies
from skep_scheduler.model import PolicyChoice


@few_and_many
@each_choice
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
    more gangs come. Those that were preempted go on where they stopped."""

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
