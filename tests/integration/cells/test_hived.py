"""HiveD files: exported, checked, imported, deleted; nothing in them is trusted."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.support.cells import reference
from tests.support.platform_api import ROOT, Api, refusal
from tests.support.platform_factories import make_node, make_vc

from skep_platform.cells.api import MAX_HIVED_BYTES
from skep_platform.cluster.services import cell_layout
from skep_platform.core.models import Event
from skep_platform.tenancy.models import PinnedCell, VcCell, VirtualCluster

pytestmark = pytest.mark.django_db

FILE = """
physicalCluster:
  cellTypes:
    HALF: {childCellType: A100, childCellNumber: 4}
    BOX: {childCellType: HALF, childCellNumber: 2, isNodeLevel: true}
    ROW: {childCellType: BOX, childCellNumber: 2}
  physicalCells:
  - cellType: ROW
    cellChildren: [{cellAddress: n1}, {cellAddress: n2, pinnedCellId: corner}]
virtualClusters:
  vision:
    virtualCells: [{cellType: ROW.BOX.HALF, cellNumber: 2}]
    pinnedCells: [{pinnedCellId: corner}]
"""


@pytest.fixture(autouse=True)
def nodes() -> None:
    for name in ("n1", "n2", "n3"):
        make_node(name, gpus=8)


def send(api: Api, method: str, text: str, path: str = "/cells/hived") -> Any:
    return api.client.generic(method, ROOT + path, text.encode(), content_type="text/yaml")


def check(api: Api, text: str, *, assign: bool = False) -> dict[str, Any]:
    answer = send(api, "POST", text, f"/cells/hived/check?assign={int(assign)}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def chains(api: Api) -> dict[str, int]:
    return {chain["chain"]: chain["nodes"] for chain in api.get("/cells").json()["chains"]}


def test_import_lays_out_the_nodes_that_the_file_names(admin):
    assert check(admin, FILE)["fits"]
    assert chains(admin) == {"A100-NODE8": 3}
    answer = send(admin, "PUT", FILE)
    assert answer.status_code == 200, answer.content
    assert answer.json()["revision"] == cell_layout().revision > 0
    assert chains(admin) == {"ROW": 2, "A100-NODE8": 1}
    assert admin.get("/cells").json()["source"] == "file"
    assert not VirtualCluster.objects.exists()
    assert Event.objects.get(kind="cells.imported").actor == "root"


def test_import_with_assign_makes_virtual_clusters_and_gives_them_what_they_own(admin):
    make_vc("old", quotas={"A100": 8})
    answer = send(admin, "PUT", FILE, "/cells/hived?assign=1")
    assert answer.status_code == 200, answer.content
    shown = admin.get("/cells/assignment").json()
    assert shown["virtual_clusters"] == {
        "old": {"cells": [], "quotas": {}, "pins": []},
        "vision": {
            "cells": [{"chain": "ROW", "cell_type": "HALF", "number": 2}],
            "quotas": {},
            "pins": ["corner"],
        },
    }
    corner = {"name": "corner", "cell_type": "BOX", "node": "n2", "device": ""}
    assert shown["pins"] == [corner]


def test_delete_goes_back_to_what_the_nodes_report_and_keeps_claims(admin):
    send(admin, "PUT", FILE, "/cells/hived?assign=1")
    assert admin.delete("/cells/hived").status_code == 204
    assert admin.delete("/cells/hived").status_code == 204
    assert chains(admin) == {"A100-NODE8": 3}
    assert admin.get("/cells").json()["source"] == "inventory"
    assert VcCell.objects.get().chain == "ROW"
    assert admin.get("/virtual-clusters/vision/cells").json()["shortfalls"]
    assert Event.objects.filter(kind="cells.file_deleted").count() == 1


def test_export_reads_back_equal(admin):
    for text in (FILE, ""):
        if text:
            send(admin, "PUT", text, "/cells/hived?assign=1")
        else:
            admin.delete("/cells/hived")
        before = admin.get("/cells").json()["chains"]
        exported = admin.get("/cells/hived")
        assert exported["Content-Type"].startswith("text/yaml")
        found = exported.content.decode()
        answer = send(admin, "PUT", found, "/cells/hived?assign=1")
        assert answer.status_code == 200, answer.content
        assert admin.get("/cells").json()["chains"] == before
        assert admin.get("/cells/hived").content.decode() == found


def test_all_that_is_wrong_is_reported_with_its_path(admin):
    wrong = FILE.replace("childCellNumber: 4", "childCellNumber: many").replace("n2,", "n1,")
    wrong = wrong.replace("ROW.BOX.HALF", "COLUMN")
    verdict = check(admin, wrong, assign=True)
    assert not verdict["fits"]
    paths = [error["path"] for error in verdict["errors"]]
    assert "physicalCluster.cellTypes.HALF.childCellNumber" in paths
    assert "virtualClusters.vision.virtualCells[0].cellType" in paths
    assert len(paths) > 2
    answer = send(admin, "PUT", wrong, "/cells/hived?assign=1")
    assert refusal(answer) == (400, "cells_do_not_fit")
    assert answer.json()["details"]["errors"] == verdict["errors"]
    assert cell_layout().text == ""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty"),
        ("- 1", "not_an_object"),
        ("a: [1", "syntax"),
        ("a: 1\na: 2", "duplicate_key"),
        ("a: !!python/object:os.system {}", "unsupported_tag"),
        ("a: &a [*a]", "recursive_alias"),
        ("virtualClusters: {}", "layout_invalid"),
        ("physicalCluster: 3", "layout_invalid"),
        ("{" * 5000, "syntax"),
        (FILE.replace("vision", "vi sion"), "name_invalid"),
        (FILE.replace("corner", '"cor\\0ner"'), "name_invalid"),
        (FILE.replace("HALF", "H" * 300), "name_invalid"),
    ],
)
def test_31_no_text_does_harm(admin, text, code):
    verdict = check(admin, text, assign=True)
    assert verdict["errors"][0]["code"] == code
    assert send(admin, "PUT", text, "/cells/hived?assign=1").status_code == 400
    assert not PinnedCell.objects.exists()


def test_31_bombs_and_floods_are_refused(admin):
    layers = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 20)}]" for i in range(1, 9)]
    bomb = "\n".join(["a0: &a0 [x, x]", *layers])
    (error,) = check(admin, bomb)["errors"]
    assert error["code"] == "too_many_values"
    assert refusal(send(admin, "PUT", "#" * (MAX_HIVED_BYTES + 1))) == (413, "layout_too_large")
    assert refusal(
        admin.client.generic("PUT", f"{ROOT}/cells/hived", b"\xff", content_type="text/yaml")
    ) == (400, "not_utf8")


def test_a_file_that_owns_more_than_it_has_is_refused_with_numbers(admin):
    verdict = check(admin, FILE.replace("cellNumber: 2", "cellNumber: 3"), assign=True)
    assert not verdict["fits"]
    assert check(admin, FILE.replace("cellNumber: 2", "cellNumber: 3"))["fits"] is False


def test_files_of_the_reference_can_be_imported(admin):
    files = sorted(reference("configs").glob("*.yaml"))
    assert files
    for path in files:
        answer = send(admin, "PUT", path.read_text(), "/cells/hived?assign=1")
        if "invalid" in path.stem:
            assert answer.status_code == 400, path
            continue
        assert answer.status_code == 200, (path, answer.content)
        data = YAML(typ="safe", pure=True).load(path.read_text())
        names = set(VirtualCluster.objects.values_list("name", flat=True))
        assert names >= set(map(str, data["virtualClusters"])), path
