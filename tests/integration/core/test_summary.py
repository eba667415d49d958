"""The cluster in numbers."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api
from tests.support.platform_factories import (
    join_node,
    make_gpus,
    make_inventory,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_platform import __version__
from skep_platform.cluster import services
from skep_platform.jobs.states import JobState

pytestmark = pytest.mark.django_db


def test_summary_counts_nodes_gpus_and_the_jobs_one_may_see():
    ann = make_user()
    mine, other = make_vc(members=[ann]), make_vc()
    node = make_node("alpha", gpus=4)
    make_node("beta", gpus=2, model="H100")
    join_node()
    sick = [gpu.model_copy(update={"healthy": False}) for gpu in make_gpus("alpha", 1)]
    inventory = make_inventory([*sick, *make_gpus("alpha", 4)[1:3]])  # one bad, one gone
    services.update_inventory(node.pk, node.session_epoch, inventory)
    devices = list(node.devices.order_by("index"))
    release(place(make_job(mine, ann, state=JobState.SUCCEEDED), devices[:1]))
    place(make_job(mine, ann, state=JobState.RUNNING), devices[1:3])
    make_job(mine, ann)
    make_job(other, make_user())
    shown = Api(ann).get("/cluster").json()
    assert shown == {
        "nodes": {"ONLINE": 2, "JOINED": 1},
        "gpus": {
            "A100": {"total": 3, "used": 2, "bad": 1},
            "H100": {"total": 2, "used": 0, "bad": 0},
        },
        "jobs": {"RUNNING": 1, "WAITING": 1},
        "version": __version__,
    }
    assert Api(make_user(admin=True)).get("/cluster").json()["jobs"]["WAITING"] == 2


def test_versions_are_counted_where_they_are_asked_for():
    for number, version in enumerate(("1.0", "1.0", "1.1", "")):
        node = make_node(f"n-{number}")
        type(node).objects.filter(pk=node.pk).update(agent_version=version)
    shown = Api(make_user()).get("/cluster", versions="true").json()
    assert shown["versions"] == {"agent": {"1.0": 2, "1.1": 1}, "engine": {}, "driver": {}}


def test_empty_cluster_has_empty_counts():
    shown = Api(make_user()).get("/cluster").json()
    assert (shown["nodes"], shown["gpus"], shown["jobs"]) == ({}, {}, {})
