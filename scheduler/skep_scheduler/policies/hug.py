"""HUG: Chowdhury et al., "HUG: Multi-Resource Fairness for Correlated and Elastic Demands", NSDI
2016. Our reading of the paper; it has no public code.

Section 4. Tenant i has the demand d_i over resources r, normalised so that its largest part is 1;
capacities are 1. Stage 1: the best progress that all can have alike is
`P* = min over r of 1 / sum over i of d_ir`; each tenant is guaranteed `P* d_ir` of every resource.
Stage 2: what is left of a resource goes to tenants that use it, in equal steps, up to P* of any one
resource for each of them. That bound keeps tenants honest where they do not cooperate; the paper
shows that no allocation with the best isolation uses more.

Jobs of Skep ask for fixed amounts, so that no demand is elastic: it is not used live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Demand = Mapping[str, float]


def best_progress(demands: Sequence[Demand]) -> float:
    """Return P* of normalised demands; 1 where no tenant asks for anything."""
    total: dict[str, float] = {}
    for demand in demands:
        for name, part in demand.items():
            total[name] = total.get(name, 0.0) + part
    largest = max(total.values(), default=0.0)
    return 1.0 / largest if largest > 0 else 1.0


def normalised(demand: Demand) -> dict[str, float]:
    """Return a demand whose largest part is 1."""
    largest = max(demand.values(), default=0.0)
    return {name: part / largest for name, part in demand.items()} if largest > 0 else {}


def allocate(demands: Sequence[Demand]) -> list[dict[str, float]]:
    """Return what each tenant gets of each resource, as a part of its capacity. `demands` need not
    be normalised."""
    asked = [normalised(demand) for demand in demands]
    progress = best_progress(asked)
    got = [{name: progress * part for name, part in demand.items()} for demand in asked]
    for name in sorted({name for demand in asked for name in demand}):
        users = [tenant for tenant in got if tenant.get(name, 0.0) > 0]
        left = 1.0 - sum(tenant[name] for tenant in users)
        # The one that is closest to the bound first: equal steps for all that are below it.
        users.sort(key=lambda tenant: progress - tenant[name])
        for position, tenant in enumerate(users):
            more = min(max(progress - tenant[name], 0.0), left / (len(users) - position))
            tenant[name] += more
            left -= more
    return got
