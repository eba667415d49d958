"""What agents and admins report becomes chains of cells with names that mean the same for ever."""

from __future__ import annotations

import pytest
from tests.support.cells import plain
from tests.support.inventories import A100, A100_NODE, joined, node, vc

from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.problems import ConfigError
from skep_scheduler.inventory import Built, build, check, describe, from_hived, to_hived
from skep_scheduler.model import Claim, Inventory, Node, Pin, VirtualCluster

RACK = f"{A100_NODE}-RACK"


def built(*nodes: Node, vcs: tuple[VirtualCluster, ...] = (), pins: tuple[Pin, ...] = ()) -> Built:
    return build(Inventory(nodes, vcs, pins))


def types(found: Built) -> dict[str, list[str]]:
    return {c: [level.type for level in s.levels] for c, s in found.config.shapes.items()}


def owns(found: Built, name: str) -> dict[str, int]:
    owned: dict[str, int] = {}
    for share in found.config.vcs[name].shares:
        cell_type = found.config.shapes[share.chain].at(share.level).type
        owned[cell_type] = owned.get(cell_type, 0) + share.number
    return owned


def test_a_flat_node_has_halves() -> None:
    flat = joined(node("n"), lambda a, b: "NV12")
    assert types(built(flat)) == {
        A100_NODE: ["A100-SXM4-80GB", f"{A100_NODE}-x2", f"{A100_NODE}-x4", A100_NODE]
    }


def test_sockets_and_switches_are_levels_and_their_gpus_lie_together() -> None:
    crossed = joined(
        node("n"),
        lambda a, b: "PIX" if a % 4 == b % 4 else "NODE" if a % 2 == b % 2 else "SYS",
    )
    name = f"{A100_NODE}-2xSOCKET-4xSWITCH"
    found = built(crossed)
    assert types(found)[name] == ["A100-SXM4-80GB", f"{name}-SWITCH", f"{name}-SOCKET", name]
    _, top = found.config.tops[0]
    switch = top.children[0].children[1]
    assert [leaf.name for leaf in switch.children] == ["GPU-n-2", "GPU-n-6"]


def test_unequal_groups_are_left_out() -> None:
    odd = joined(node("n"), lambda a, b: "NV4" if a // 3 == b // 3 else "SYS")
    assert list(types(built(odd))) == [A100_NODE]


def test_a_node_of_two_models_has_cells_in_two_chains() -> None:
    both = Node("n", 1, 1, node("n", 2).devices + node("m", 4, "V100").devices)
    assert list(types(built(both))) == ["A100-SXM4-80GB-NODE2", "V100-NODE4"]


def test_racks_are_as_wide_as_the_largest_one() -> None:
    found = built(*(node(n, rack=n[0]) for n in ("a1", "a2", "a3", "b1", "b2")), node("c"))
    assert {c: s.at(s.top).leaves for c, s in found.config.shapes.items()} == {
        A100_NODE: 8,
        RACK: 24,
    }
    assert found.left[RACK][4:] == [5, 1]


def test_fabrics_hold_racks() -> None:
    found = built(*(node(n, rack=n[:2], fabric=n[0]) for n in ("x1a", "x1b", "x2a", "y1a")))
    assert list(types(found)) == [f"{RACK}-FABRIC"]
    assert [top.address for _, top in found.config.tops] == ["x", "y"]


def test_counts_become_the_largest_cells_that_fit() -> None:
    found = built(node("n1"), node("n2"), node("n3"), vcs=(vc("a", ("", A100, 15)),))
    assert owns(found, "a") == {
        A100_NODE: 1,
        f"{A100_NODE}-x4": 1,
        f"{A100_NODE}-x2": 1,
        "A100-SXM4-80GB": 1,
    }


def test_cells_come_before_counts_and_what_is_short_is_reported() -> None:
    vcs = (vc("a", ("", A100, 12)), vc("b", (A100_NODE, A100_NODE, 1)))
    found = built(node("n1"), node("n2"), vcs=vcs)
    assert owns(found, "a") == {A100_NODE: 1}
    assert owns(found, "b") == {A100_NODE: 1}
    [short] = found.shortfalls
    assert (short.vc, short.asked, short.got, short.code) == ("a", 12, 8, "too_many_gpus")


def test_a_pinned_cell_is_found_by_node_and_device() -> None:
    pins = (
        Pin("half", f"{A100_NODE}-x4", "n1", "GPU-n1-6", "a"),
        Pin("rack", RACK, "n1", vc="b"),
        Pin("lost", A100_NODE, "nowhere", vc="a"),
    )
    nodes = (node("n1", rack="r"), node("n2", rack="r"))
    found = built(*nodes, vcs=(vc("a"), vc("b")), pins=pins)
    assert found.config.vcs["a"].pins == ("half",)
    assert {(s.pin, s.code) for s in found.shortfalls} == {
        ("rack", "pin_overlaps"),
        ("lost", "pin_not_found"),
    }
    rack = found.config.tops[0][1]
    assert rack.children[0].children[1].pin == "half"


def test_an_imported_file_names_gpus_by_their_number() -> None:
    data = plain([2, 2], 1, {}, node=2)
    found = build(Inventory((node("g0", 3), node("n1")), layout=data))
    leaves = [leaf.name for host in found.config.tops[0][1].children for leaf in host.children]
    assert leaves == ["GPU-g0-0", "GPU-g0-1", "0", "1"]
    assert list(found.config.shapes) == [A100_NODE, "G-L3"]
    assert [str(problem) for problem in found.problems] == [
        "nodes.g0: has 3 GPUs; of the 2 that the file names 0 are not there, and 1 are not in the "
        "file"
    ]


def test_a_broken_file_is_left_aside_and_reported() -> None:
    found = build(Inventory((node("n1"),), layout={"physicalCluster": [1]}))
    assert list(found.config.shapes) == [A100_NODE]
    assert [problem.path for problem in found.problems] == ["physicalCluster"]


def test_our_types_get_other_names_where_a_file_means_something_else() -> None:
    data = {
        "physicalCluster": {
            "cellTypes": {
                A100_NODE: {
                    "childCellType": "A100-SXM4-80GB",
                    "childCellNumber": 8,
                    "isNodeLevel": True,
                }
            },
            "physicalCells": [{"cellType": A100_NODE, "cellAddress": "f1"}],
        }
    }
    found = build(Inventory((node("n1"),), layout=data))
    assert list(found.config.shapes) == [A100_NODE, f"{A100_NODE}-AGENT1"]


def test_a_file_is_exported_with_the_share_of_each_gpu() -> None:
    state = Inventory((node("n1"),), (vc("a", ("", A100, 8)),))
    data = to_hived(state)
    assert data["physicalCluster"]["skuTypes"] == {
        "A100-SXM4-80GB": {"gpu": 1, "cpu": 8, "memory": "65536Mi"}
    }
    assert read_config(data) == build(state).config
    assert from_hived(data).claims == {"a": (Claim(A100_NODE, A100_NODE, 1),)}


def test_all_errors_of_a_file_are_reported_at_once() -> None:
    data = plain([2], 1, {"a": [(2, 5)]}, node=2)
    data["physicalCluster"]["physicalCells"].append({"cellType": "X"})
    data["virtualClusters"]["a"]["virtualCells"][0]["cellNumber"] = "x"
    with pytest.raises(ConfigError) as error:
        from_hived(data)
    assert len(error.value.problems) == 2


def test_an_editor_is_shown_what_is_too_much_and_what_is_left() -> None:
    before = Inventory((node("n1"), node("n2")), (vc("a", (A100_NODE, A100_NODE, 1)),))
    after = Inventory(before.nodes, (vc("a", (A100_NODE, A100_NODE, 3)),))
    checked = check(before, after)
    [error] = checked.errors
    assert (error.code, error.path) == ("too_many_cells", "virtual_clusters.a.cells[0]")
    assert error.details["asked"] == 3
    assert error.details["available"] == 2
    left = {left.type: (left.total, left.left) for left in check(before, before).left}
    assert left[A100_NODE] == (2, 1)
    assert left[f"{A100_NODE}-x4"] == (4, 2)


def test_types_have_words() -> None:
    config = built(
        joined(node("n"), lambda a, b: "NODE" if a // 4 == b // 4 else "SYS"),
        *(node(n, rack="r") for n in "ab"),
    ).config
    half = describe(config, f"{A100_NODE}-2xSOCKET-SOCKET")
    assert half == {"gpus": 4, "kind": "socket", "words": "half node of 4 A100-SXM4-80GB"}
    assert describe(config, RACK)["words"] == "rack of 2 nodes of 8 A100-SXM4-80GB"
    assert describe(config, "X") == {"gpus": 0, "kind": "unknown", "words": "X"}
