"""Cells as trees: who sees which, what they are doing, and how much is sent at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.cells_live import HALF, NODE, own, run
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    make_gpus,
    make_inventory,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
)

from skep_platform.cluster import services
from skep_platform.jobs.models import Task
from skep_platform.tenancy.models import PinnedCell, VcCell

pytestmark = pytest.mark.django_db


def leaves(cell: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if cell["gpus"] == 1:
        yield cell
    for part in cell["children"] or ():
        yield from leaves(part)


def tree(api: Api, vc: str, **query: str) -> dict[str, Any]:
    answer = api.get(f"/virtual-clusters/{vc}/cells", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()


def types(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["type"]: row for chain in body["chains"] for row in chain["types"]}


def test_cells_are_reported_by_type_and_down_to_the_gpus():
    ann = make_user("ann")
    vision = make_vc("vision", members=[ann])
    node = make_node("n1", gpus=8)
    make_node("n2", gpus=8)
    own(vision, 2)
    job = run(vision, node, 3, name="train")
    body = tree(Api(ann), "vision")
    row = types(body)[NODE]
    assert (row["owned"], row["used"], row["free"], row["gpus"]) == (2, 1, 1, 8)
    assert row["kind"] == "node"
    used, free = body["chains"][0]["cells"]
    assert (used["state"], used["used"], used["physical"]["node"]) == ("used", 3, "n1")
    assert (free["state"], free["used"], free["physical"]) == ("free", 0, None)
    jobs = [leaf["job"] for leaf in leaves(used)]
    assert jobs == [{"id": str(job.pk), "name": "train"}] * 3 + [None] * 5
    assert [leaf["state"] for leaf in leaves(used)] == ["used"] * 3 + ["free"] * 5


@pytest.mark.parametrize("fields", [{"incremental": True}, {"groups": ("left", "right")}])
def test_the_parts_of_a_job_that_are_placed_apart_are_reported_as_that_job(admin, fields):
    ann = make_user("ann")
    vision = make_vc("vision", members=[ann])
    node = make_node("n1", gpus=8)
    own(vision, 1)
    groups = fields.pop("groups", ("", ""))
    job = make_job(vision, ann, name="parts", state="RUNNING", priority=10, attempt=1, **fields)
    role = job.roles.get()
    role.affinity_group = groups[0]
    role.save()
    role.pk, role.name, role.position, role.affinity_group = None, "other", 1, groups[1]
    role.save()
    Task.objects.create(job=job, role=role, index=0, rank=1)
    for rank, device in enumerate(node.devices.order_by("index")[:2]):
        place(job, [device], rank=rank, state="RUNNING", cell_type=NODE)
    (cell,) = tree(Api(ann), "vision")["chains"][0]["cells"]
    jobs = [leaf["job"] for leaf in leaves(cell) if leaf["job"]]
    assert jobs == [{"id": str(job.pk), "name": "parts"}] * 2
    (top,) = admin.get("/cells/physical", depth=9).json()["results"]
    assert [leaf["job"] for leaf in leaves(top) if leaf["job"]] == jobs


def test_idle_cells_that_others_use_are_lent_and_name_no_one():
    ann, bob = make_user("ann"), make_user("bob")
    vision, speech = make_vc("vision", members=[ann]), make_vc("speech", members=[bob])
    node = make_node("n1", gpus=8)
    own(vision, 1)
    run(speech, node, 2, cell_type="", name="secret-plan")
    answer = Api(ann).get("/virtual-clusters/vision/cells")
    body = answer.json()
    row = types(body)[NODE]
    assert (row["owned"], row["free"], row["borrowed_out"]) == (1, 0, 1)
    assert body["chains"][0]["cells"][0]["state"] == "lent"
    for hidden in ("secret-plan", "speech", "bob"):
        assert hidden not in answer.content.decode()
    assert tree(Api(bob), "speech") == {"chains": [], "borrowed_in": 2, "shortfalls": []}


def test_a_pinned_cell_shows_who_borrows_its_gpus_only_to_those_who_may_see_the_job(admin):
    ann, bob = make_user("ann"), make_user("bob")
    vision, speech = make_vc("vision", members=[ann]), make_vc("speech", members=[bob])
    node = make_node("n1", gpus=8)
    PinnedCell.objects.create(name="corner", cell_type=NODE, node_name="n1", vc=vision)
    job = run(speech, node, 1, cell_type="", name="secret-plan")

    def first(api: Api) -> dict[str, Any]:
        (cell,) = tree(api, "vision")["chains"][0]["cells"]
        assert cell["pin"] == "corner"
        return next(leaves(cell))

    lent = first(Api(ann))
    assert (lent["state"], lent["job"]) == ("lent", None)
    assert first(admin)["job"] == {"id": str(job.pk), "name": "secret-plan"}


def test_bad_hardware_shows_where_it_is_known():
    ann = make_user("ann")
    vision = make_vc("vision", members=[ann])
    node = make_node("n1", gpus=8)
    make_node("n2", gpus=8)
    own(vision, 2)
    run(vision, node, 1)
    gpus = make_gpus("n1", 8)
    gpus[7] = gpus[7].model_copy(update={"healthy": False, "problem": "XID 79"})
    services.update_inventory(node.pk, node.session_epoch, make_inventory(gpus))
    services.cordon(None, "n2")
    body = tree(Api(ann), "vision")
    row = types(body)[NODE]
    assert (row["used"], row["free"], row["bad"]) == (1, 0, 1)
    bound, unbound = body["chains"][0]["cells"]
    assert (bound["state"], bound["bad"]) == ("used", 1)
    assert [leaf["state"] for leaf in leaves(bound)].count("bad") == 1
    assert unbound["state"] == "bad"


def test_large_trees_are_reported_part_by_part(admin):
    vision = make_vc("vision")
    for i in range(33):
        make_node(f"n{i:02}", gpus=8)
    own(vision, 33)
    body = tree(admin, "vision")
    (chain,) = body["chains"]
    assert len(chain["cells"]) == 33
    assert all(cell["children"] is None for cell in chain["cells"])
    wanted = chain["cells"][30]["address"]
    (part,) = tree(admin, "vision", under=wanted)["chains"][0]["cells"]
    assert part["address"] == wanted
    assert len(list(leaves(part))) == 8
    rest = tree(admin, "vision", after=wanted)["chains"][0]
    assert [len(rest["cells"]), rest["more"]] == [2, 0]
    assert refusal(admin.get("/virtual-clusters/vision/cells", under="vision/99"))[0] == 404


def test_a_cell_that_is_large_itself_is_reported_with_its_parts(admin):
    vision = make_vc("vision")
    for i in range(33):
        make_node(f"n{i:02}", gpus=8, labels={"rack": "r1"})
    rack = f"{NODE}-RACK"
    VcCell.objects.create(vc=vision, chain=rack, cell_type=rack, number=1)
    (whole,) = tree(admin, "vision")["chains"][0]["cells"]
    assert (whole["gpus"], whole["children"]) == (264, None)
    (opened,) = tree(admin, "vision", under=whole["address"])["chains"][0]["cells"]
    assert len(opened["children"]) == 33
    assert opened["children"][0]["children"] is None
    part = opened["children"][32]["address"]
    (node,) = tree(admin, "vision", under=part)["chains"][0]["cells"]
    assert len(list(leaves(node))) == 8
    (shown,) = admin.get("/cells/physical", depth=2).json()["results"]
    assert [cell["address"] for cell in shown["children"]][:2] == ["r1/n00", "r1/n01"]


def test_trees_take_the_same_queries_however_large(admin, django_assert_max_num_queries):
    vision = make_vc("vision")
    for name in ("n1", "n2"):
        run(vision, make_node(name, gpus=8), 8)
    own(vision, 2)
    tree(admin, "vision")
    with django_assert_max_num_queries(4):  # token, virtual cluster, news for the world, jobs
        tree(admin, "vision")
    with django_assert_max_num_queries(4):
        admin.get("/cells/physical", depth=5)


def test_an_admin_sees_all_physical_cells_page_by_page(admin):
    vision = make_vc("vision")
    own(vision, 1)
    node = make_node("n1", gpus=8)
    for name in ("n2", "n3"):
        make_node(name, gpus=8)
    job = run(vision, node, 1, name="train")
    body = admin.get("/cells/physical", limit=2).json()
    first, second = body["results"]
    assert (first["address"], first["virtual_cluster"], first["used"]) == ("n1", "vision", 1)
    assert (second["virtual_cluster"], second["children"]) == (None, None)
    assert len(admin.client.get(body["next"]).json()["results"]) == 1
    (whole,) = admin.get("/cells/physical", under="n1", depth=9).json()["results"]
    leaf = next(leaves(whole))
    assert (leaf["uuid"], leaf["index"], leaf["state"]) == ("GPU-n1-0", 0, "used")
    assert leaf["job"] == {"id": str(job.pk), "name": "train"}
    assert refusal(admin.get("/cells/physical", under="n9")) == (404, "not_found")


def test_members_see_the_physical_cells_that_their_teams_have_a_place_in():
    ann = make_user("ann")
    vision, speech = make_vc("vision", members=[ann]), make_vc("speech")
    own(vision, 1)
    own(speech, 1)
    run(vision, make_node("n1", gpus=8), 1)
    run(speech, make_node("n2", gpus=8), 1)
    api = Api(ann)
    assert [cell["address"] for cell in api.get("/cells/physical").json()["results"]] == ["n1"]
    assert api.get("/cells/physical", under="n1").status_code == 200
    assert refusal(api.get("/cells/physical", under="n2")) == (404, "not_found")


def test_types_and_numbers_are_reported_as_far_as_one_may_see(admin):
    ann = make_user("ann")
    vision, speech = make_vc("vision", members=[ann]), make_vc("speech")
    for name in ("n1", "n2", "n3"):
        make_node(name, gpus=8)
    own(vision, 1)
    own(speech, 3, HALF)
    services.cordon(None, "n3")
    PinnedCell.objects.create(name="theirs", cell_type=HALF, node_name="n1", vc=speech)

    def totals(api: Api) -> dict[str, list[int | None]]:
        (chain,) = api.get("/cells").json()["chains"]
        assert (chain["gpu_model"], chain["nodes"]) == ("A100", 3)
        return {
            t["type"]: [t["total"], t["owned"], t["left"], t["bad"]]
            for t in chain["totals"]
            if t["type"] in (NODE, HALF)
        }

    assert totals(admin) == {NODE: [3, 1, 0, 1], HALF: [6, 4, 0, 2]}
    assert totals(Api(ann)) == {NODE: [3, 1, None, 1], HALF: [6, 0, None, 2]}
    assert [pin["name"] for pin in admin.get("/cells").json()["pins"]] == ["theirs"]
    assert Api(ann).get("/cells").json()["pins"] == []
    levels = {row["type"]: row for row in admin.get("/cells").json()["chains"][0]["levels"]}
    assert levels[NODE]["is_node"]
    assert "half" in levels[HALF]["words"]
