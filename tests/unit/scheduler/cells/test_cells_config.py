"""HiveD's configuration file: read as it is, and all its errors at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.support.cells import plain, reference

from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.problems import ConfigError
from skep_scheduler.cells.state import CellState

GOOD = plain([2, 2], 2, {"a": [(2, 1), (3, 1)]}, node=2)


def problems(data: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(ConfigError) as error:
        read_config(data)
    return {problem.path: problem.message for problem in error.value.problems}


def test_the_reference_design_is_read_with_its_addresses() -> None:
    data = YAML(typ="safe", pure=True).load(reference("configs/design.yaml"))
    state = CellState(read_config(data))
    assert list(state.chains) == sorted(state.chains, reverse=True)
    assert [leaf.index for leaf in state.nodes["1.0.0.0"]] == [1, 3, 4, 7, 0, 2, 6, 5]
    assert ("1.0.0.2", 9) in state.leaves, "one node with devices of two chains"
    assert ("1.0.0.2", 7) in state.leaves
    assert set(state.vcs["VC1"].pins) == {"VC1-YQW-CT1", "VC1-YQW-DGX2", "VC1-YQW-IB-DGX2"}


def test_skus_are_read() -> None:
    data = YAML(typ="safe", pure=True).load(reference("configs/hived-config-1.yaml"))
    sku = read_config(data).skus["K80"]
    assert (sku.gpu, sku.cpu, sku.memory) == (1, 4, "8192Mi")


def test_every_error_is_reported_with_its_path() -> None:
    data = copy.deepcopy(GOOD)
    data["physicalCluster"]["cellTypes"]["G-L2"]["childCellNumber"] = "two"
    data["physicalCluster"]["cellTypes"]["LOOP"] = {"childCellType": "LOOP", "childCellNumber": 1}
    data["physicalCluster"]["physicalCells"].append({"cellType": "NONE"})
    data["virtualClusters"]["a"]["virtualCells"][0]["cellNumber"] = -1
    data["virtualClusters"]["b"] = {"virtualCells": [{"cellType": "X.Y", "cellNumber": 1}]}
    data["virtualClusters"]["c"] = {"pinnedCells": [{"pinnedCellId": "nowhere"}]}
    found = problems(data)
    assert found.keys() >= {
        "physicalCluster.cellTypes.G-L2.childCellNumber",
        "physicalCluster.cellTypes.LOOP",
        "physicalCluster.physicalCells[2].cellType",
        "virtualClusters.a.virtualCells[0].cellNumber",
        "virtualClusters.b.virtualCells[0].cellType",
        "virtualClusters.c.pinnedCells[0].pinnedCellId",
    }


def test_devices_and_pins_belong_to_one_cell_each() -> None:
    data = plain([2], 2, {"a": [(2, 1)]}, node=2)
    for cell in data["physicalCluster"]["physicalCells"]:
        cell.update(cellAddress="same", pinnedCellId="same")
    assert set(problems(data)) == {
        "physicalCluster.physicalCells[1].cellChildren[0]",
        "physicalCluster.physicalCells[1].cellChildren[1]",
        "physicalCluster.physicalCells[1].pinnedCellId",
    }


def test_a_cell_has_as_many_children_as_its_type_says() -> None:
    data = copy.deepcopy(GOOD)
    data["physicalCluster"]["physicalCells"][0]["cellChildren"].pop()
    assert "physicalCluster.physicalCells[0].cellChildren" in problems(data)


def test_an_assignment_that_does_not_fit_is_refused_with_numbers() -> None:
    found = problems(plain([2, 2], 2, {"a": [(2, 3)], "b": [(3, 1)]}, node=2))
    assert found == {
        "virtualClusters": "the VCs own 3 cells of G-L2 (chain G-L3, level 2), but only 2 are "
        "there beside what else they own"
    }


def test_pinned_cells_count_where_they_are() -> None:
    """Two racks of two nodes, a node of each pinned: no rack is left, though two nodes are."""
    data = plain([2, 2], 2, {"a": [(3, 1)], "b": []}, node=2)
    for i, rack in enumerate(data["physicalCluster"]["physicalCells"]):
        rack["cellChildren"][0]["pinnedCellId"] = f"p{i}"
        data["virtualClusters"]["b"]["pinnedCells"].append({"pinnedCellId": f"p{i}"})
    assert "only 0 are there" in problems(data)["virtualClusters"]


@pytest.mark.parametrize("junk", [None, [], 3, "x", {"physicalCells": 1}, {"cellTypes": [1]}])
def test_junk_is_a_problem_and_no_crash(junk: object) -> None:
    data = {"physicalCluster": junk, "virtualClusters": {"a": {"virtualCells": [{"cellType": 1}]}}}
    assert problems(data)


def test_pinned_cells_that_vcs_own_do_not_overlap() -> None:
    data = plain([2, 2], 2, {"a": [], "b": []}, node=2)
    rack = data["physicalCluster"]["physicalCells"][0]
    rack["pinnedCellId"] = "rack"
    rack["cellChildren"][0]["pinnedCellId"] = "node"
    for vc, pin in (("a", "rack"), ("b", "node")):
        data["virtualClusters"][vc]["pinnedCells"].append({"pinnedCellId": pin})
    assert problems(data) == {
        "virtualClusters.b.pinnedCells[0].pinnedCellId": "pinned cell node lies in pinned cell "
        "rack, which is owned, too"
    }


def test_a_cell_too_large_to_build_is_refused() -> None:
    data = copy.deepcopy(GOOD)
    data["physicalCluster"]["cellTypes"]["G-L2"]["childCellNumber"] = 10**9
    assert "more than" in problems(data)["physicalCluster.cellTypes.G-L2"]


def test_the_place_of_a_node_in_a_rack_is_marked_absent() -> None:
    data = plain([2, 2], 1, {"a": [(2, 1)]}, node=2)
    data["physicalCluster"]["physicalCells"][0]["cellChildren"][1]["absent"] = True
    pool = CellState(read_config(data)).chains["G-L3"]
    assert pool.left == [0, 2, 1, 0]
    data["virtualClusters"]["a"]["virtualCells"][0]["cellNumber"] = 2
    assert "only 1 are there" in problems(data)["virtualClusters"]
