"""Windows of maintenance, planned, begun and ended by the clock; the scheduler plans around."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from tests.support.jobs_world import placed, submit, tick
from tests.support.platform_api import refusal
from tests.support.platform_factories import make_node

from skep_platform.cells import services as cells
from skep_platform.cluster import maintenance, services
from skep_platform.cluster.models import MaintenanceState, MaintenanceWindow, Node, NodeCheck
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def body(*nodes: str, after: timedelta = HOUR, lasts: timedelta = HOUR) -> dict[str, object]:
    starts_at = timezone.now() + after
    return {"nodes": nodes, "starts_at": starts_at, "ends_at": starts_at + lasts, "reason": "fans"}


@pytest.fixture
def window(admin, node) -> MaintenanceWindow:
    """Of gpu-1, in an hour, for an hour."""
    answer = admin.post("/maintenance-windows", body("gpu-1"))
    assert answer.status_code == 201, answer.json()
    return MaintenanceWindow.objects.get(pk=answer.json()[0]["id"])


def at(window: MaintenanceWindow, after: timedelta) -> Node:
    maintenance.reconcile(window.starts_at + after)
    return Node.objects.get(pk=window.node_id)


def test_a_window_is_listed_shown_with_the_node_and_cancelled(admin, window):
    [shown] = admin.get("/maintenance-windows", node="gpu-1").json()["results"]
    assert (shown["node"], shown["state"], shown["reason"]) == ("gpu-1", "PLANNED", "fans")
    assert shown["created_by"] == "root"
    node = admin.get("/nodes/gpu-1").json()
    assert (node["maintenance_from"], node["maintenance_until"]) == (
        shown["starts_at"],
        shown["ends_at"],
    )
    assert admin.delete(f"/maintenance-windows/{window.pk}").status_code == 204
    assert admin.get("/maintenance-windows").json()["results"] == []
    assert admin.get("/nodes/gpu-1").json()["maintenance_from"] is None
    assert refusal(admin.delete(f"/maintenance-windows/{window.pk}")) == (404, "not_found")


def test_windows_of_a_node_do_not_overlap_and_end_after_they_begin(admin, window):
    make_node("gpu-2")
    overlapping = body("gpu-2", "gpu-1", after=timedelta(minutes=90))
    assert refusal(admin.post("/maintenance-windows", overlapping)) == (409, "maintenance_overlaps")
    assert MaintenanceWindow.objects.count() == 1
    backwards = body("gpu-2", lasts=-HOUR)
    assert refusal(admin.post("/maintenance-windows", backwards)) == (400, "maintenance_invalid")
    assert refusal(admin.post("/maintenance-windows", body("gpu-9"))) == (404, "not_found")


def test_the_scheduler_places_what_ends_in_time(alice, vc, window):
    short = submit(alice, vc, skep={"duration": "30m"})
    long = submit(alice, vc, skep={"duration": "2h"})
    assert tick() == {str(short.pk)}
    reason = Job.objects.get(pk=long.pk).wait_reason
    assert reason["code"] == "maintenance"
    assert reason["details"]["closing"] == ["gpu-1"]
    maintenance.cancel(None, window.pk)
    assert tick() == {str(long.pk)}


def test_a_node_is_drained_at_the_start_and_used_again_at_the_end(alice, vc, window):
    job = placed(alice, vc, skep={"duration": "30m"})
    assert not at(window, -timedelta(seconds=1)).cordoned
    node = at(window, timedelta(0))
    assert (node.cordoned, node.draining) == (True, True)
    assert node.cordon_reason.endswith("UTC: fans")
    cells.evict_all()
    assert Job.objects.get(pk=job.pk).preempting_at is not None
    node = at(window, HOUR)
    assert (node.cordoned, node.draining, node.maintenance_from) == (False, False, None)
    window.refresh_from_db()
    assert window.state == MaintenanceState.ENDED
    kinds = Event.objects.filter(subject_id=str(node.pk)).values_list("kind", flat=True)
    assert [kind for kind in kinds if kind not in ("node.joined", "node.online")] == [
        "node.maintenance_planned",
        "node.drained",
        "node.uncordoned",
    ]


def test_a_node_that_was_cordoned_before_stays_cordoned(window):
    services.cordon(None, "gpu-1", "a bad fan")
    at(window, timedelta(0))
    node = at(window, HOUR)
    assert (node.cordoned, node.draining) == (True, False)


def test_a_window_that_is_on_ends_when_it_is_cancelled(admin, window):
    assert at(window, timedelta(0)).draining
    assert admin.delete(f"/maintenance-windows/{window.pk}").status_code == 204
    assert not Node.objects.get(pk=window.node_id).cordoned


def test_after_its_maintenance_a_node_is_checked_where_the_setting_says_so(settings, window):
    settings.SKEP_NODE_CHECKS = 2
    at(window, timedelta(0))
    node = at(window, HOUR)
    assert (node.cordoned, node.checks_needed) == (True, 2)
    assert NodeCheck.objects.get(node=node).cause == "maintenance"


def test_the_next_window_of_a_node_is_the_one_that_counts(admin, window):
    later = body("gpu-1", after=3 * HOUR)
    assert admin.post("/maintenance-windows", later).status_code == 201
    at(window, timedelta(0))
    node = at(window, HOUR)
    assert node.maintenance_from == later["starts_at"]
