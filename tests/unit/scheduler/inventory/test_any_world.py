"""`build` takes the state as it is: nothing that agents, admins or files report makes it raise."""

from __future__ import annotations

import dataclasses
import random

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.inventories import states

from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.health import set_node
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.state import CellState
from skep_scheduler.inventory import build, check, describe, from_hived, to_hived
from skep_scheduler.model import Inventory, VirtualCluster

thorough = settings(
    max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck)
)


@thorough
@given(states())
def test_every_world_has_valid_cells(state: Inventory) -> None:
    built = build(state)
    state = CellState(built.config)
    validate(state)
    for node in state.nodes:
        set_node(state, node, healthy=True)
    validate(state)
    for shape in built.config.shapes.values():
        for level in shape.levels:
            assert describe(built.config, level.type)["words"]


@thorough
@given(states(), st.randoms())
def test_order_does_not_matter(state: Inventory, order: random.Random) -> None:
    def mixed(things: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(order.sample(things, len(things)))

    nodes = [dataclasses.replace(n, devices=mixed(n.devices)) for n in state.nodes]
    permuted = Inventory(
        mixed(tuple(nodes)),  # type: ignore[arg-type]
        mixed(state.virtual_clusters),  # type: ignore[arg-type]
        mixed(state.pins),  # type: ignore[arg-type]
        state.layout,
    )
    assert build(permuted) == build(state)


@thorough
@given(states())
def test_what_is_exported_reads_back_as_it_was(state: Inventory) -> None:
    built = build(state)
    data = to_hived(state)
    assert read_config(data) == built.config
    imported = from_hived(data, state.nodes)
    vcs = tuple(VirtualCluster(*named) for named in imported.claims.items())
    again = build(Inventory(state.nodes, vcs, imported.pins, imported.layout))
    assert again.config.shapes == built.config.shapes
    assert again.config.tops == built.config.tops
    assert not again.shortfalls


@thorough
@given(states())
def test_an_assignment_that_is_there_already_is_no_error(state: Inventory) -> None:
    checked = check(state, state)
    assert checked.fits
    for left in checked.left:
        assert 0 <= left.left <= left.total
