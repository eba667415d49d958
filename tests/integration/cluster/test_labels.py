"""Labels of nodes: what the agent reports, overruled by what an admin set."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import (
    make_gpus,
    make_hello,
    make_inventory,
    make_node,
)

from skep_platform.cluster import services
from skep_platform.core.models import Event

pytestmark = pytest.mark.django_db


def label(api: Api, **labels: str | None):
    return api.patch("/nodes/alpha", {"labels": labels})


def test_what_the_admin_set_outlives_the_agents_reports(admin):
    node = make_node("alpha", gpus=1, labels={"rack": "r1", "zone": "z"})
    assert label(admin, rack="r7").json()["labels"] == {"rack": "r7", "zone": "z"}
    inventory = make_inventory(make_gpus("alpha", 1), labels={"rack": "r2", "zone": "y"})
    services.update_inventory(node.pk, node.session_epoch, inventory)
    assert admin.get("/nodes/alpha").json()["labels"] == {"rack": "r7", "zone": "y"}
    services.open_session(node.pk, node.instance_id, make_hello(node.instance_id, inventory))
    assert admin.get("/nodes/alpha").json()["labels"] == {"rack": "r7", "zone": "y"}
    assert label(admin, rack=None).json()["labels"] == {"rack": "r2", "zone": "y"}


def test_labelling_is_reported_with_before_and_after(admin):
    make_node("alpha", gpus=1)
    label(admin, rack="r1", fabric="f1")
    label(admin, rack="r1")
    event = Event.objects.get(kind="node.labelled")
    assert event.actor == "root"
    assert event.data == {"before": {}, "after": {"rack": "r1", "fabric": "f1"}}


@pytest.mark.parametrize(
    "labels", [{"zone": "z"}, {"rack": "a/b"}, {"rack": ""}, {"rack": "x" * 64}, {"rack": True}]
)
def test_others_than_rack_and_fabric_are_refused(admin, labels):
    make_node("alpha", gpus=1, labels={"zone": "y"})
    assert label(admin, **labels).status_code == 400
    assert admin.get("/nodes/alpha").json()["labels"] == {"zone": "y"}


def test_node_that_is_not_there_has_no_labels(admin):
    assert refusal(label(admin, rack="r1")) == (404, "not_found")
