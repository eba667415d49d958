"""Who would notice if a node were drained, cordoned or removed."""

from __future__ import annotations

import pytest
from tests.support.cells_live import HALF, NODE, own, run
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster import services
from skep_platform.tenancy.models import PinnedCell

pytestmark = pytest.mark.django_db


def forecast(api: Api, action: str = "drain", node: str = "n1") -> dict:
    answer = api.get(f"/nodes/{node}/forecast", action=action)
    assert answer.status_code == 200, answer.content
    return answer.json()


def losses(api: Api, node: str = "n1") -> dict[str, dict[str, int]]:
    return {row["name"]: row["loses"] for row in forecast(api, node=node)["virtual_clusters"]}


@pytest.mark.parametrize(
    ("action", "what"), [("drain", "preempted"), ("cordon", "runs on"), ("remove", "lost")]
)
def test_the_jobs_there_are_reported_with_what_becomes_of_them(admin, action, what):
    vision = make_vc("vision", members=[make_user("ann")])
    own(vision, 1)
    job = run(vision, make_node("n1", gpus=8), 3, name="train")
    run(vision, make_node("n2", gpus=8), 1, name="elsewhere")
    (row,) = forecast(admin, action)["jobs"]
    assert row == {
        "id": str(job.pk),
        "name": "train",
        "owner": "ann",
        "virtual_cluster": "vision",
        "gpus": 3,
        "tasks": 1,
        "what": what,
    }


def test_jobs_and_losses_of_other_teams_have_no_names(admin):
    ann = make_user("ann")
    vision, speech = make_vc("vision", members=[ann]), make_vc("speech")
    own(vision, 1)
    own(speech, 1)
    node = make_node("n1", gpus=8)
    make_node("n2", gpus=8)
    run(speech, node, 1, name="secret-plan")
    shown = forecast(Api(ann))
    (row,) = shown["jobs"]
    assert (row["id"], row["name"], row["owner"]) == (None, None, None)
    assert [vc["name"] for vc in shown["virtual_clusters"]] == ["vision"]
    assert losses(admin) == {"speech": {NODE: 1}, "vision": {NODE: 1}}


def test_no_one_loses_while_there_are_free_gpus(admin):
    own(make_vc("vision"), 2)
    for name in ("n1", "n2", "n3"):
        make_node(name, gpus=8)
    assert losses(admin) == {}
    services.cordon(None, "n3")
    assert losses(admin) == {"vision": {NODE: 1}}
    assert losses(admin, "n3") == {}


def test_pins_are_lost_with_their_node_and_parts_count_as_parts(admin):
    vision, speech = make_vc("vision"), make_vc("speech")
    PinnedCell.objects.create(name="corner", cell_type=HALF, node_name="n1", vc=vision)
    own(speech, 2, HALF)
    for name in ("n1", "n2"):
        make_node(name, gpus=8)
    assert losses(admin) == {"vision": {HALF: 1}}
    assert losses(admin, "n2") == {"speech": {HALF: 1}}


def test_it_takes_the_same_queries_for_any_number_of_jobs(admin, django_assert_max_num_queries):
    vision = make_vc("vision")
    own(vision, 1)
    node = make_node("n1", gpus=8)
    for _ in range(8):
        run(vision, node, 1)
    forecast(admin)
    with django_assert_max_num_queries(6):  # token, node, GPUs, news, what is visible, jobs
        assert len(forecast(admin)["jobs"]) == 8


def test_unknown_nodes_and_actions_are_refused(admin):
    make_node("n1", gpus=1)
    assert refusal(admin.get("/nodes/n9/forecast")) == (404, "not_found")
    assert refusal(admin.get("/nodes/n1/forecast", action="burn"))[0] == 400
