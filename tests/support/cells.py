"""Clusters of cells for tests: configurations, random ones too, and what to look at."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from skep_scheduler.cells import ledger
from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.health import set_device, set_node
from skep_scheduler.cells.problems import ConfigError
from skep_scheduler.cells.reconfigure import placements_of
from skep_scheduler.cells.shape import Config
from skep_scheduler.cells.state import CellState
from skep_scheduler.cells.tree import DEVICE_FAULT, NODE_FAULT

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT.parent / "shared" / "reference" / "hived"


def reference(name: str) -> Path:
    """A file recorded from HiveD. Skips where there is none, but not in CI."""
    path = REFERENCE / name
    if not path.exists():
        message = f"no recorded HiveD data at {path}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def plain(
    widths: list[int],
    tops: int,
    vcs: Mapping[str, list[tuple[int, int]]],
    node: int = 2,
    pins: Mapping[str, tuple[int, int]] | None = None,
    name: str = "G",
) -> dict[str, Any]:
    """A configuration of one chain as data. `widths` are the children per level above the leaf;
    `node` is the node level; a VC owns (level, number)s; a pin is (top, level): the first cell of
    that level in the top cell, for the VC of the pin's name."""
    types = [name] + [f"{name}-L{level}" for level in range(2, len(widths) + 2)]
    cell_types = {
        types[i]: {
            "childCellType": types[i - 1],
            "childCellNumber": widths[i - 1],
            "isNodeLevel": i + 1 == node,
        }
        for i in range(1, len(types))
    }
    names = iter(f"{name.lower()}{i}" for i in range(10_000))
    pinned = {place: vc for vc, place in (pins or {}).items()}

    def cell(level: int, top: int, first: bool) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if first and (top, level) in pinned:
            entry["pinnedCellId"] = f"pin-{pinned[top, level]}-{name}"
        if level == node:
            entry["cellAddress"] = next(names)
        if level > 1:
            width = widths[level - 2]
            entry["cellChildren"] = [cell(level - 1, top, first and i == 0) for i in range(width)]
        return entry

    top_level = len(types)
    return {
        "physicalCluster": {
            "cellTypes": cell_types,
            "physicalCells": [
                {"cellType": types[-1], **cell(top_level, top, True)} for top in range(tops)
            ],
        },
        "virtualClusters": {
            vc: {
                "virtualCells": [
                    {"cellType": ".".join(reversed(types[level - 1 :])), "cellNumber": number}
                    for level, number in shares
                ],
                "pinnedCells": [{"pinnedCellId": f"pin-{vc}-{name}"}] if vc in (pins or {}) else [],
            }
            for vc, shares in vcs.items()
        },
    }


def merged(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Several chains as one cluster."""
    whole: dict[str, Any] = {
        "physicalCluster": {"cellTypes": {}, "physicalCells": []},
        "virtualClusters": {},
    }
    for part in parts:
        whole["physicalCluster"]["cellTypes"].update(part["physicalCluster"]["cellTypes"])
        whole["physicalCluster"]["physicalCells"] += part["physicalCluster"]["physicalCells"]
        for vc, owns in part["virtualClusters"].items():
            mine = whole["virtualClusters"].setdefault(vc, {"virtualCells": [], "pinnedCells": []})
            mine["virtualCells"] += owns["virtualCells"]
            mine["pinnedCells"] += owns["pinnedCells"]
    return whole


def healthy(config: Config | Mapping[str, Any]) -> CellState:
    """A state with every node healthy."""
    state = CellState(config if isinstance(config, Config) else read_config(config))
    for node in state.nodes:
        set_node(state, node, healthy=True)
    return state


def rebuilt(state: CellState, seed: int) -> CellState | None:
    """Return a new state with the same hardware, in which the same groups run, adopted in another
    order; None where the standing of a group depends on the order."""
    groups = list(state.groups.values())
    if any(group.preempting or group.downgraded_by is not None for group in groups):
        return None
    slots = [slot for group in groups for slot in group.slots]
    if any(leaf is None for slot in slots for leaf in slot.leaves):
        return None
    other, chance = CellState(state.config), random.Random(seed)
    for node, leaves in chance.sample(sorted(state.nodes.items()), len(state.nodes)):
        set_node(other, node, not any(leaf.faults & NODE_FAULT for leaf in leaves))
    for (node, device), leaf in chance.sample(list(state.leaves.items()), len(state.leaves)):
        set_device(other, node, device, not leaf.faults & DEVICE_FAULT)
    for group in chance.sample(groups, len(groups)):
        ledger.adopt(other, group.gang, group.chain, placements_of(group))
    if any(group.downgraded_by is not None for group in other.groups.values()):
        return None
    return other


def counters(state: CellState) -> dict[str, object]:
    """All that is counted; equal for states between which nothing has changed."""
    return {
        chain: (
            list(pool.left),
            list(pool.bad_left),
            list(pool.claims),
            {vc: list(claims) for vc, claims in pool.vc_claims.items()},
            [sorted(cell.address for cell in cells.cells) for cells in pool.free],
            {top.address: top.used_total for top in pool.tops},
        )
        for chain, pool in state.chains.items()
    }


def trace(state: CellState) -> object:
    """Everything that a what-if could leave behind, with the order of the free lists."""
    lists = {
        chain: [[cell.address for cell in cells.cells] for cells in pool.free]
        for chain, pool in state.chains.items()
    }
    leaves = {
        key: (leaf.priority, leaf.user, leaf.holder, leaf.virtual and leaf.virtual.address)
        for key, leaf in state.leaves.items()
    }
    groups = {name: (g.downgraded_by, g.preempting) for name, g in state.groups.items()}
    return counters(state), lists, leaves, groups


@st.composite
def hierarchies(draw: st.DrawFn, name: str = "G") -> dict[str, Any]:
    """A random chain with VCs whose cells fit."""
    widths = draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))
    node = draw(st.integers(2, len(widths) + 1))
    tops = draw(st.integers(1, 3))
    top = len(widths) + 1
    vcs: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    pins = {}
    if draw(st.booleans()):
        pins["a"] = (draw(st.integers(0, tops - 1)), draw(st.integers(1, top)))
    wishes = st.tuples(st.sampled_from(["a", "b"]), st.integers(1, top), st.integers(1, 3))
    for vc, level, number in draw(st.lists(wishes, max_size=5)):
        vcs[vc].append((level, number))
        if not fits(plain(widths, tops, vcs, node, pins, name)):
            vcs[vc].pop()
    return plain(widths, tops, vcs, node, pins, name)


def fits(data: Mapping[str, Any]) -> bool:
    try:
        read_config(data)
    except ConfigError:
        return False
    return True
