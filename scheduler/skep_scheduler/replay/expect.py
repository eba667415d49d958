"""Whether what happened is what a case expects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skep_scheduler.cells.health import lost
from skep_scheduler.cells.shape import FREE
from skep_scheduler.cells.state import State
from skep_scheduler.replay.session import Bound, Result, Victims, Waiting


def describe(result: Result | None) -> dict[str, Any]:
    """A result in the words of the cases."""
    if isinstance(result, Bound):
        spot = result.spots[result.seat]
        group = [
            {
                "node": s.node,
                "leaf_cells": list(s.devices),
                "preassigned_cell_type": s.cell_type,
            }
            for s in result.spots
        ]
        bind = {"node": spot.node, "leaf_cells": list(spot.devices), "chain": result.chain}
        return {"bind": {**bind, "group": group}}
    if isinstance(result, Victims):
        return {"preempt": {"all_victims_by_node": result.pods}}
    if isinstance(result, Waiting):
        return {"wait": {"code": result.code, "message": result.message}}
    return {}


def matches(expected: Mapping[str, Any], result: Result | None, panic: str | None) -> bool:
    """Every key must hold; a key that is not known does not."""
    if "panic" not in expected and panic is not None:
        return False
    return all(
        key in _CHECKS and _CHECKS[key](value, result, panic) for key, value in expected.items()
    )


def _bind(expected: Any, result: Result | None, panic: str | None) -> bool:
    if not isinstance(result, Bound):
        return False
    if expected is True:
        return True
    got = describe(result)["bind"]
    return all(_same(got.get(key), value) for key, value in expected.items())


def _same(got: object, expected: object) -> bool:
    """Devices in their order; the places of a gang in any."""
    if isinstance(got, list) and isinstance(expected, list) and got and isinstance(got[0], dict):
        return sorted(got, key=repr) == sorted(expected, key=repr)
    return got == expected


def _no_bind(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Bound) != bool(expected)


def _subset(expected: Any, result: Result | None, panic: str | None) -> bool:
    if not isinstance(result, Victims):
        return not expected
    return result.names <= set(expected)


def _exactly(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Victims) and result.names == set(expected)


def _wait(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Waiting) == bool(expected)


def _preempt(expected: Any, result: Result | None, panic: str | None) -> bool:
    return isinstance(result, Victims) == bool(expected)


def _panic(expected: Any, result: Result | None, panic: str | None) -> bool:
    return panic == expected


_CHECKS: dict[str, Callable[[Any, Result | None, str | None], bool]] = {
    "bind": _bind,
    "no_bind": _no_bind,
    "preempt": _preempt,
    "preempt_victims_subset_of": _subset,
    "preempt_victims_exactly": _exactly,
    "wait": _wait,
    "panic": _panic,
}


def check_assert(
    state: State, step: Mapping[str, Any], last: Result | None
) -> tuple[Any, Any, bool]:
    """Expected, got, and whether they agree."""
    name = str(step["assert"])
    group = state.groups.get(str(step.get("group", "")))
    if name == "group_absent":
        return "absent", group.state if group else "absent", group is None
    if name == "group_state":
        got = group.state if group else "absent"
        return step.get("state"), got, got == step.get("state")
    if name == "group_lazy_preempted":
        wanted = _first(step, ("lazy_preempted", "value", "expected"), True)
        is_lazy = group is not None and group.downgraded_by is not None
        return wanted, is_lazy, group is not None and is_lazy == bool(wanted)
    if name == "last_result_has_bind":
        return "bind", describe(last), isinstance(last, Bound)
    if name == "leaf_cells_used_or_free":
        return _leaf_cells(state, step)
    if name == "vc_preassigned_cells_health":
        return _health(state, step)
    return name, "unknown assertion", False


def _first(step: Mapping[str, Any], names: tuple[str, ...], default: Any = None) -> Any:
    return next((step[name] for name in names if name in step), default)


def _leaf_cells(state: State, step: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    wrong = {}
    for name in step["cells"]:
        node, _, index = str(name).rpartition(":")
        leaf = state.leaves.get((node, int(index) if index.isdecimal() else index))
        if leaf is None:
            wrong[name] = "no such cell"
        elif leaf.holder is not None or (leaf.priority not in (FREE, step["used_priority"])):
            wrong[name] = f"{leaf.priority}, reserved: {leaf.holder is not None}"
    return f"free, or used at {step['used_priority']}", wrong or "as expected", not wrong


def _health(state: State, step: Mapping[str, Any]) -> tuple[Any, Any, bool]:
    """Of the cells of a VC that it has not pinned: those in use are as bad as what they are bound
    to; of the others as many are bad as cannot be had."""
    vc = str(_first(step, ("vc", "virtual_cluster", "virtualCluster")))
    chain, level = str(step["chain"]), int(step["level"])
    asked = str(next((v for k, v in step.items() if "health" in k.lower()), "Healthy"))
    wanted = "bad" if "bad" in asked.lower() else "healthy"
    domain = state.vcs[vc].chains[chain]
    roots = domain.by_level.get(level, [])
    healths = []
    if not _only_free(step):
        healths = [
            "bad" if root.physical.bad else "healthy" for root in roots if root.physical is not None
        ]
    bad = lost(state, vc, chain, level)
    free = sum(root.physical is None for root in roots)
    healths += ["bad"] * bad + ["healthy"] * (free - bad)
    return wanted, healths, all(health == wanted for health in healths)


def _only_free(step: Mapping[str, Any]) -> bool:
    """However it is spelled: `free_only: true`, `cells: free`."""
    return any(
        ("free" in key.lower() and value is True)
        or (isinstance(value, str) and "free" in value.lower())
        for key, value in step.items()
    )
