"""How fast a job is on each GPU model, for policies that give it time on several.

Nothing measures it: a job declares its speeds (`extras.skep.speeds`), an admin declares those of
all other jobs by a parameter of the policy, and what is declared by neither is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_scheduler.inventory.names import leaf_type
from skep_scheduler.policies.base import WEIGHTS, Knows, parameter


def speeds_parameter() -> Any:
    """Declare the speeds of jobs that declare none, as `weights_of` reads them."""
    return parameter(
        "",
        "Speeds on GPU models such as `V100:1;A100:2.2`, of jobs that declare none; others have 1.",
        pattern=WEIGHTS,
    )


def assumed(table: str) -> dict[Knows, str]:
    """Return what a policy takes for true of a job without speeds, see `Needs.assumes`."""
    if table:
        return {Knows.SPEEDS: "It is taken to be as fast as the parameter `speeds` says."}
    return {Knows.SPEEDS: "It is taken to be equally fast on all GPU models."}


def speed_on(leaf: str, speeds: Mapping[str, float]) -> float:
    """Return the speed on a leaf type: that of its name, else of the longest name that is a part of
    it (`A100` of `A100-SXM4-80GB`), else 1."""
    known = {leaf_type(name): speed for name, speed in speeds.items()}
    if leaf in known:
        return known[leaf]
    fits = [name for name in known if f"-{name}-" in f"-{leaf}-"]
    return known[max(fits, key=lambda name: (len(name), name))] if fits else 1.0
