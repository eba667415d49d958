"""Why a gang waits: one sentence with numbers, and the numbers by chain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from skep_scheduler.cells.answer import Refusal
from skep_scheduler.cells.request import GangRequest
from skep_scheduler.cells.shape import LEAF, Shape
from skep_scheduler.cells.state import CellState, Domain
from skep_scheduler.cells.tree import Cell


@dataclass(slots=True)
class Attempt:
    """A chain that was tried in vain. `unmapped`: the VC has free cells, but only bad hardware for
    them."""

    chain: str
    domain: Domain | None
    unmapped: bool = False
    met_bad: bool = False


def refuse(state: CellState, gang: GangRequest, attempts: Sequence[Attempt]) -> Refusal:
    if not attempts:
        return Refusal(
            "vc_owns_nothing",
            f"Virtual cluster {gang.vc} owns no cells that the gang could use.",
            {"vc": gang.vc},
        )
    numbers = [_numbers(state, gang, attempt) for attempt in attempts]
    code = _code(gang, attempts, numbers)
    best = max(numbers, key=lambda n: (n["free"], n["owns"]))
    details = {"vc": gang.vc, **best, "chains": numbers}
    return Refusal(code, _sentence(code, gang, details), details)


def _code(gang: GangRequest, attempts: Sequence[Attempt], numbers: Sequence[dict[str, Any]]) -> str:
    if all(n["needs"] is None for n in numbers):
        return "unknown_cell_type"
    if any(attempt.unmapped for attempt in attempts):
        return "bad_hardware"
    never = all(n["needs"] is None or n["needs"] > n["owns"] for n in numbers)
    if gang.opportunistic:
        return "never_fits_cluster" if never else "cluster_busy"
    return "never_fits_vc" if never else "vc_busy"


def _numbers(state: CellState, gang: GangRequest, attempt: Attempt) -> dict[str, Any]:
    """Devices: what the gang needs, and what of the chain is whose."""
    pool = state.chains[attempt.chain]
    roots: Sequence[Cell] = attempt.domain.roots if attempt.domain else pool.tops
    owns = sum(root.spec.leaves for root in roots)
    if gang.opportunistic:
        kept = sum(root.used_total for root in roots)
    else:
        kept = sum(root.used_from(gang.priority) for root in roots)
    return {
        "chain": attempt.chain,
        "leaf_type": pool.shape.leaf_type,
        "needs": devices_needed(gang, pool.shape),
        "owns": owns,
        "used": kept,
        "free": owns - kept,
        "bad_in_chain": pool.bad,
    }


def devices_needed(gang: GangRequest, shape: Shape) -> int | None:
    """Return the devices that a gang asks for in all, None where the chain lacks a cell type that
    is asked for."""
    names: Iterable[str | None] = [p.within for p in gang.topology_groups()]
    if any(name is not None and name not in shape.level_of for name in names):
        return None
    total = 0
    for member in gang.members:
        if member.cell_type is not None and member.cell_type not in shape.level_of:
            return None
        level = LEAF if member.cell_type is None else shape.level_of[member.cell_type]
        total += member.tasks * member.cells * shape.at(level).leaves
    return total


def _sentence(code: str, gang: GangRequest, n: dict[str, Any]) -> str:
    what = f"pinned cell {gang.pin}" if gang.pin is not None else f"chain {n['chain']}"
    if code == "unknown_cell_type":
        return "No chain has all the cell types that the gang asks for."
    if code == "cluster_busy":
        return (
            f"Needs {n['needs']} {n['leaf_type']} at opportunistic priority; in {what} {n['free']} "
            f"of {n['owns']} are idle and {n['bad_in_chain']} are bad, or not together as asked."
        )
    if code == "never_fits_cluster":
        return f"Needs {n['needs']} {n['leaf_type']}; {what} has {n['owns']}."
    if code == "never_fits_vc":
        return f"Needs {n['needs']} {n['leaf_type']}; {gang.vc} owns {n['owns']} in {what}."
    if code == "bad_hardware":
        return (
            f"Needs {n['needs']} {n['leaf_type']}; {gang.vc} has {n['free']} of its {n['owns']} in "
            f"{what} free, but they would be on bad or avoided hardware ({n['bad_in_chain']} bad)."
        )
    return (
        f"Needs {n['needs']} {n['leaf_type']}; {gang.vc} owns {n['owns']} in {what}, and "
        f"{n['used']} are in use at this priority or above, the rest is not together as asked."
    )
