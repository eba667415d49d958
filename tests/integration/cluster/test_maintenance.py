"""Windows of maintenance, planned, begun and ended by the clock; the scheduler plans around."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from tests.support.jobs_world import placed, submit, tick
from tests.support.platform_api import refusal
from tests.support.platform_factories import make_node

from skep_agent.protocol import CheckReport, CheckResult
from skep_platform.cells import services as cells
from skep_platform.cluster import checks, maintenance, services
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


def test_windows_that_follow_at_once_are_one_for_the_node_and_the_scheduler(
    admin, alice, vc, window
):
    at_once, later = body("gpu-1", after=2 * HOUR), body("gpu-1", after=4 * HOUR)
    for wanted in (later, at_once):
        wanted["starts_at"] = window.starts_at + (wanted["starts_at"] - at_once["starts_at"]) + HOUR
        wanted["ends_at"] = wanted["starts_at"] + HOUR
        assert admin.post("/maintenance-windows", wanted).status_code == 201
    node = Node.objects.get(pk=window.node_id)
    both = (window.starts_at, window.starts_at + 2 * HOUR)
    assert (node.maintenance_from, node.maintenance_until) == both
    job = submit(alice, vc, skep={"duration": "2h"})
    tick()
    assert Job.objects.get(pk=job.pk).wait_reason["details"]["until"] == both[1].timestamp()
    assert at(window, timedelta(0)).maintenance_until == both[1]
    node = at(window, HOUR)
    assert (node.cordoned, node.maintenance_until) == (True, both[1])
    node = at(window, 2 * HOUR)
    assert (node.cordoned, node.maintenance_from) == (False, later["starts_at"])


class TestOthers:
    """What others than the window and the checks do to its node stays as it is at the end."""

    def test_a_cordon_from_before_keeps_its_reason(self, window):
        services.cordon(None, "gpu-1", "a bad fan")
        node = at(window, timedelta(0))
        assert (node.draining, node.cordon_reason) == (True, "a bad fan")
        node = at(window, HOUR)
        assert (node.cordoned, node.draining, node.cordon_reason) == (True, False, "a bad fan")

    @pytest.mark.parametrize("reason", ["a bad fan", ""])
    def test_a_cordon_made_meanwhile_stays_with_its_own_reason(self, admin, window, reason):
        at(window, timedelta(0))
        admin.post("/nodes/gpu-1/cordon", {"reason": reason})
        node = at(window, HOUR)
        assert (node.cordoned, node.draining, node.cordon_reason) == (True, False, reason)

    @pytest.mark.parametrize("after", [-HOUR, timedelta(0)])
    def test_a_drain_made_before_or_meanwhile_stays_a_drain(self, admin, window, after):
        at(window, after)
        admin.post("/nodes/gpu-1/drain", {"reason": "a bad fan"})
        at(window, timedelta(0))
        node = at(window, HOUR)
        assert (node.cordoned, node.draining, node.cordon_reason) == (True, True, "a bad fan")

    def test_a_node_that_an_admin_used_and_cordoned_again_stays_cordoned(self, admin, window):
        at(window, timedelta(0))
        admin.post("/nodes/gpu-1/uncordon")
        admin.post("/nodes/gpu-1/cordon")
        assert at(window, HOUR).cordoned

    def test_it_stays_when_the_window_is_cancelled(self, admin, window):
        at(window, timedelta(0))
        admin.post("/nodes/gpu-1/cordon", {"reason": "a bad fan"})
        admin.delete(f"/maintenance-windows/{window.pk}")
        assert Node.objects.get().cordon_reason == "a bad fan"


class TestNextWindow:
    """Of the same node, which begins when the first one ends."""

    @pytest.fixture
    def following(self, admin, window) -> MaintenanceWindow:
        asked = {"nodes": ["gpu-1"], "starts_at": window.ends_at, "ends_at": window.ends_at + HOUR}
        answer = admin.post("/maintenance-windows", asked)
        return MaintenanceWindow.objects.get(pk=answer.json()[0]["id"])

    def test_the_node_stays_drained_until_the_end_of_the_last(self, window, following):
        at(window, timedelta(0))
        node = at(window, HOUR)
        assert (node.cordoned, node.draining) == (True, True)
        assert node.cordon_reason == following.cordon_reason
        assert node.maintenance_until == following.ends_at
        assert not Event.objects.filter(kind="node.uncordoned").exists()
        node = at(window, 2 * HOUR)
        assert (node.cordoned, node.draining, node.cordon_reason) == (False, False, "")

    def test_a_cordon_from_before_both_stays(self, window, following):
        services.cordon(None, "gpu-1", "a bad fan")
        for hours in range(3):
            node = at(window, hours * HOUR)
            assert (node.cordoned, node.draining) == (True, hours < 2)
            assert node.cordon_reason == "a bad fan"

    def test_a_node_that_an_admin_used_during_the_first_is_drained_and_used_again(
        self, admin, window, following
    ):
        at(window, timedelta(0))
        admin.post("/nodes/gpu-1/uncordon")
        assert at(window, HOUR).draining
        assert not at(window, 2 * HOUR).cordoned

    def test_both_are_over_after_an_absence(self, window, following):
        assert not at(window, 2 * HOUR).cordoned
        states = MaintenanceWindow.objects.values_list("state", flat=True)
        assert set(states) == {MaintenanceState.ENDED}


class TestChecks:
    """Of a node whose window is on."""

    def passed(self) -> Node:
        """The node once it has passed the round that waits."""
        check = NodeCheck.objects.get(state="WAITING")
        result = CheckResult(name="disk", passed=True)
        checks.apply_reports(check.node_id, [CheckReport(check_id=str(check.pk), results=[result])])
        return Node.objects.get()

    @pytest.mark.parametrize("after", [-HOUR, timedelta(0)])
    def test_a_node_that_passes_is_used_at_the_end(self, admin, window, after):
        at(window, after)
        admin.post("/nodes/gpu-1/checks")
        at(window, timedelta(0))
        node = self.passed()
        assert (node.cordoned, node.draining, node.checks_needed) == (True, True, 0)
        assert node.cordon_reason == window.cordon_reason
        assert not at(window, HOUR).cordoned

    def test_a_window_that_an_older_server_began_ends_as_well(self, admin, window):
        """It took the cordon by the checks for one from before."""
        admin.post("/nodes/gpu-1/checks")
        at(window, timedelta(0))
        MaintenanceWindow.objects.update(was_cordoned=True)
        self.passed()
        assert not at(window, HOUR).cordoned

    def test_checks_that_are_not_over_at_the_end_go_on(self, admin, window):
        admin.post("/nodes/gpu-1/checks", {"rounds": 2})
        node = at(window, timedelta(0))
        assert node.cordon_reason == "Waits for its checks (admin)."
        node = at(window, HOUR)
        assert (node.cordoned, node.draining, node.checks_needed) == (True, False, 2)
        assert node.cordon_reason == "Waits for its checks (maintenance)."


def test_a_window_that_no_server_saw_changes_nothing(settings, window):
    settings.SKEP_NODE_CHECKS = 2
    node = at(window, 2 * HOUR)
    assert (node.cordoned, node.checks_needed, node.maintenance_from) == (False, 0, None)
    assert MaintenanceWindow.objects.get().state == "ENDED"


def test_a_window_that_fails_holds_up_no_other(admin, window):
    make_node("gpu-2")
    admin.post("/maintenance-windows", body("gpu-2"))
    with connection.cursor() as cursor:
        cursor.execute(
            "ALTER TABLE cluster_node ADD CHECK (name <> 'gpu-1' OR NOT draining) NOT VALID"
        )
    assert not at(window, timedelta(minutes=1)).draining
    assert Node.objects.get(name="gpu-2").draining


@pytest.mark.parametrize("after", [-HOUR, timedelta(0)])
def test_a_node_that_is_removed_has_no_windows_and_no_checks(admin, window, after):
    at(window, after)
    admin.post("/nodes/gpu-1/checks")
    assert admin.delete("/nodes/gpu-1").status_code == 204
    window.refresh_from_db()
    assert window.state == MaintenanceState.CANCELLED
    assert not NodeCheck.objects.exists()
    node = at(window, HOUR)
    assert (node.maintenance_from, node.checks_needed) == (None, 0)


def test_windows_that_an_older_server_left_open_are_cancelled(window):
    Node.objects.update(state="REMOVED")
    at(window, timedelta(0))
    window.refresh_from_db()
    assert window.state == MaintenanceState.CANCELLED
