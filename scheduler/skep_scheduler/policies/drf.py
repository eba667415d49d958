"""Dominant resource fairness (DRF): Ghodsi et al., NSDI 2011.

Section 4. Resources r are the GPUs of each model, CPU and memory of the virtual cluster. With the
held amounts u_r of a user, the totals R_r and the weight w, the dominant share is
`s = max over r of u_r / R_r / w`. The user with the least dominant share is served next, with the
next of its jobs in the order of submission; a job that does not fit is passed over (the paper
serves whole tasks of one size; gangs differ, so that shares are even up to one gang).

`fill` is the divisible form (progressive filling): the dominant shares of all users grow alike
until a resource of theirs is used up; it has the paper's four properties exactly.

Ties go by the name of the user. The paper does not preempt: `term_s` is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import WEIGHTS, Amounts, Needs, parameter


@dataclass(frozen=True, slots=True)
class Drf:
    """The user with the least dominant share of the virtual cluster's GPUs, CPU and memory is
    served first; the jobs of one user start in the order of their submission."""

    name: ClassVar[str] = "drf"
    label: ClassVar[str] = "least dominant share first"
    needs: ClassVar[Needs] = Needs()

    weights: str = parameter(
        "",
        "Weights of users such as `ann:2;bob:0.5`; all others have 1.",
        pattern=WEIGHTS,
    )
    term_s: float = parameter(
        0.0,
        "Seconds after which a running job may have to yield to a user with a smaller share; "
        "0: it never has to.",
        minimum=0.0,
    )

    def share(self, held: Amounts, capacity: Amounts, weight: float) -> float:
        return dominant_share(held, capacity) / weight


def dominant_share(held: Amounts, capacity: Amounts) -> float:
    """Return the largest share of any resource. What the virtual cluster does not own has no
    share: it is borrowed."""
    return max(
        (amount / capacity[name] for name, amount in held.items() if capacity.get(name)),
        default=0.0,
    )


def fill(
    demands: Sequence[Mapping[str, float]],
    capacity: Mapping[str, float],
    weights: Sequence[float] = (),
) -> list[float]:
    """Return how many of its tasks each user gets, divided at will; `demands` are those of one
    task. A user whose task needs nothing, or something that is not there, gets none."""
    weight = list(weights) or [1.0] * len(demands)
    left = {name: float(total) for name, total in capacity.items()}
    tasks = [0.0] * len(demands)
    shares = [dominant_share(demand, capacity) for demand in demands]
    growing = [
        user
        for user, demand in enumerate(demands)
        if shares[user] > 0 and all(left.get(r, 0) > 0 for r, need in demand.items() if need > 0)
    ]
    while growing:
        # All dominant shares grow by `step * weight` until the first resource is used up.
        use = dict.fromkeys(left, 0.0)
        for user in growing:
            for name, need in demands[user].items():
                if need > 0:
                    use[name] += need * weight[user] / shares[user]
        step, full = min((left[name] / rate, name) for name, rate in use.items() if rate > 0)
        for user in growing:
            tasks[user] += step * weight[user] / shares[user]
        for name, rate in use.items():
            left[name] = max(left[name] - step * rate, 0.0)
        left[full] = 0.0
        growing = [
            user
            for user in growing
            if all(left[name] > 0 for name, need in demands[user].items() if need > 0)
        ]
    return tasks
