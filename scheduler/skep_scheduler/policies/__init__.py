"""Queueing policies: in which order a tick tries the gangs that wait. One module per policy."""

from __future__ import annotations

from skep_scheduler.policies.base import Policy
from skep_scheduler.policies.priority import Priority

POLICIES: dict[str, Policy] = {policy.name: policy for policy in (Priority(),)}


class UnknownPolicyError(ValueError):
    pass


def by_name(name: str) -> Policy:
    """Raises `UnknownPolicyError` which names the policies there are."""
    if name not in POLICIES:
        raise UnknownPolicyError(f"No policy {name!r}; there are: {', '.join(sorted(POLICIES))}.")
    return POLICIES[name]


__all__ = ["POLICIES", "Policy", "UnknownPolicyError", "by_name"]
