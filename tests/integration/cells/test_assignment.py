"""What virtual clusters own in cells: shown, checked, replaced as a whole, and nothing stops."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.cells_live import HALF, NODE, run
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster.models import Node
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import PinnedCell, Quota, VcCell

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nodes() -> None:
    for name in ("n1", "n2", "n3"):
        make_node(name, gpus=8)


def cell(cell_type: str, number: int, chain: str = NODE) -> dict[str, Any]:
    return {"chain": chain, "cell_type": cell_type, "number": number}


def owns(*cells: dict[str, Any], pins: tuple[str, ...] = (), **quotas: int) -> dict[str, Any]:
    return {"cells": list(cells), "quotas": quotas, "pins": list(pins)}


def pin(name: str, node: str, cell_type: str = NODE, device: str = "") -> dict[str, str]:
    return {"name": name, "cell_type": cell_type, "node": node, "device": device}


def revision(api: Api) -> int:
    return api.get("/cells/assignment").json()["revision"]


def body(api: Api, *pins: dict[str, str], **vcs: dict[str, Any]) -> dict[str, Any]:
    return {"revision": revision(api), "virtual_clusters": vcs, "pins": list(pins)}


def put(api: Api, *pins: dict[str, str], **vcs: dict[str, Any]):
    return api.put("/cells/assignment", body(api, *pins, **vcs))


def check(api: Api, *pins: dict[str, str], **vcs: dict[str, Any]) -> dict[str, Any]:
    answer = api.post("/cells/assignment/check", body(api, *pins, **vcs))
    assert answer.status_code == 200, answer.content
    return answer.json()


def codes(verdict: dict[str, Any]) -> list[str]:
    return [error["code"] for error in verdict["errors"]]


def left(verdict: dict[str, Any], cell_type: str) -> int:
    return next(row["left"] for row in verdict["left"] if row["type"] == cell_type)


def test_what_was_put_is_shown(admin):
    make_vc("vision")
    make_vc("speech")
    vision, speech = owns(cell(NODE, 1), pins=("corner",)), owns(cell(HALF, 1), A100=2)
    answer = put(admin, pin("corner", "n3"), vision=vision, speech=speech)
    assert answer.status_code == 200, answer.content
    shown = admin.get("/cells/assignment").json()
    assert shown["revision"] == answer.json()["revision"]
    assert shown["virtual_clusters"] == {"speech": speech, "vision": vision}
    assert shown["pins"] == [pin("corner", "n3")]
    assert admin.get("/virtual-clusters/vision").json()["pins"] == ["corner"]


def test_the_check_says_what_would_be_left_and_changes_nothing(admin):
    make_vc("vision")
    verdict = check(admin, vision=owns(cell(NODE, 2)))
    assert verdict["fits"]
    assert (left(verdict, NODE), left(verdict, HALF), left(verdict, "A100")) == (1, 2, 8)
    assert not VcCell.objects.exists()


def test_all_that_is_wrong_is_reported_at_once(admin):
    make_vc("vision")
    wrong = owns(cell("A100-NODE9", 1), cell(NODE, 1, chain="V100"), pins=("nowhere",))
    asked = body(admin, pin("corner", "n9"), vision=wrong, nobody=owns())
    verdict = admin.post("/cells/assignment/check", asked).json()
    assert not verdict["fits"]
    paths = {error["path"] for error in verdict["errors"]}
    assert {"virtual_clusters.nobody", "virtual_clusters.vision.pins[0]"} <= paths
    assert refusal(admin.put("/cells/assignment", asked)) == (400, "cells_do_not_fit")


def test_more_than_there_is_is_refused_with_numbers(admin):
    make_vc("vision")
    make_vc("speech")
    answer = put(admin, vision=owns(cell(NODE, 2)), speech=owns(cell(HALF, 3)))
    assert refusal(answer) == (400, "cells_do_not_fit")
    (error,) = answer.json()["details"]["errors"]
    assert error["path"] == "virtual_clusters.vision.cells[0]"
    numbers = {"virtual_cluster": "vision", "chain": NODE, "cell_type": NODE}
    assert error["details"] == numbers | {"asked": 2, "available": 1}
    assert not VcCell.objects.exists()


def test_someone_who_was_slower_is_reported(admin):
    make_vc("vision")
    mine = body(admin, vision=owns(cell(NODE, 1)))
    assert admin.put("/virtual-clusters/vision/quotas", {"quotas": {"A100": 4}}).status_code == 200
    answer = admin.put("/cells/assignment", mine)
    assert refusal(answer) == (409, "revision_stale")
    assert answer.json()["details"]["revision"] == mine["revision"] + 1
    assert Quota.objects.get().gpus == 4


def test_every_virtual_cluster_that_changed_is_informed_of(admin):
    make_vc("vision", quotas={"A100": 8})
    make_vc("speech")
    put(admin, vision=owns(cell(NODE, 1)), speech=owns())
    event = Event.objects.get(kind="claims.changed")
    assert event.message == "vision owns 1 x A100-NODE8 now."
    assert event.actor == "root"
    assert event.data["before"]["quotas"] == {"A100": 8}


def test_changed_pins_are_announced_also_without_a_vc(admin):
    put(admin, pin("corner", "n3"))
    put(admin, pin("corner", "n3"))
    event = Event.objects.get(kind="pins.changed")
    assert (event.actor, event.data["before"]) == ("root", [])
    assert event.data["after"] == [pin("corner", "n3") | {"vc": ""}]


def test_one_that_is_not_listed_owns_nothing(admin):
    make_vc("vision", quotas={"A100": 8})
    put(admin)
    assert not Quota.objects.exists()


def test_running_jobs_whose_cells_go_are_reported_first_and_run_on(admin):
    ann = make_user("ann")
    vision = make_vc("vision", members=[ann])
    make_vc("speech")
    put(admin, vision=owns(cell(NODE, 2)))
    job = run(vision, Node.objects.get(name="n1"), 8, name="train")
    verdict = check(admin, speech=owns(cell(NODE, 2)))
    (touched,) = verdict["downgraded"]
    assert (touched["job_id"], touched["name"]) == (str(job.pk), "train")
    assert touched["virtual_cluster"] == "vision"
    assert put(admin, speech=owns(cell(NODE, 2))).json()["downgraded"] == [touched]
    assert Job.objects.get(pk=job.pk).state == "RUNNING"
    assert check(admin, vision=owns(cell(NODE, 1)))["downgraded"] == []


def test_raised_counts_must_fit_beside_cells(admin):
    make_vc("vision")
    make_vc("speech")
    put(admin, vision=owns(cell(NODE, 2)))
    answer = admin.put("/virtual-clusters/speech/quotas", {"quotas": {"A100": 9}})
    assert refusal(answer) == (400, "cells_do_not_fit")
    answer = admin.put("/virtual-clusters/speech/quotas", {"quotas": {"A100": 8}})
    assert answer.status_code == 200


def test_a_node_that_goes_raises_nothing_and_shows_as_missing(admin):
    make_vc("vision")
    put(admin, pin("corner", "n1"), vision=owns(cell(NODE, 2), pins=("corner",)))
    assert admin.delete("/nodes/n3").status_code == 204
    shown = admin.get("/virtual-clusters/vision/cells").json()
    (row,) = (t for t in shown["chains"][0]["types"] if t["type"] == NODE)
    assert (row["owned"], row["missing"]) == (3, 1)
    assert check(admin, pin("corner", "n1"), vision=owns(cell(NODE, 2), pins=("corner",)))[
        "shortfalls"
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"revision": -1},
        {"virtual_clusters": {"vision": {"cells": []}}},
        {"virtual_clusters": {"vision": owns(cell(NODE, -1))}},
        {"virtual_clusters": []},
        {"pins": [{"name": "a b", "cell_type": NODE, "node": "n1", "device": ""}]},
        {"pins": None},
        {"others": 1},
    ],
)
def test_malformed_assignments_are_refused(admin, wrong):
    make_vc("vision", quotas={"A100": 1})
    answer = admin.put("/cells/assignment", body(admin) | wrong)
    assert refusal(answer) == (400, "invalid")
    assert Quota.objects.exists()


def test_what_contradicts_itself_is_refused(admin):
    make_vc("vision")
    make_vc("speech")
    verdict = check(
        admin,
        pin("corner", "n1"),
        pin("corner", "n2"),
        vision=owns(cell(NODE, 1), cell(NODE, 1), pins=("corner",)),
        speech=owns(pins=("corner",)),
    )
    assert sorted(codes(verdict)) == ["listed_twice", "listed_twice", "pin_given_twice"]
    assert not PinnedCell.objects.exists()


def test_a_model_is_counted_by_whichever_name_it_is_written(admin):
    """NVML's name of a GPU is the same model as the cluster's: in both ways to write quotas."""
    make_vc("vision")
    make_vc("speech")
    nvml, both = {"NVIDIA A100": 4}, {"NVIDIA A100": 4, "A100": 2}

    assert put(admin, vision=owns(**nvml)).status_code == 200
    assert dict(Quota.objects.values_list("gpu_model", "gpus")) == {"A100": 4}

    assert codes(check(admin, vision=owns(**both))) == ["listed_twice"]
    answer = admin.put("/virtual-clusters/speech/quotas", {"quotas": both})
    assert refusal(answer) == (400, "quota_invalid")
    assert dict(Quota.objects.values_list("gpu_model", "gpus")) == {"A100": 4}
