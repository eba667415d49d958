"""What an admin sees of the cluster's health."""

from __future__ import annotations

import errno
from datetime import timedelta

import pytest
from django.db.models.functions import Now
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user

from skep_agent.protocol import Heartbeat
from skep_platform.cluster import services
from skep_platform.cluster.models import ControlPlane, Node
from skep_platform.core.errors import Unavailable
from skep_platform.core.notifications import valkey
from skep_platform.env_settings import KEY_PREFIX
from skep_platform.operations.readings import Store
from skep_platform.telemetry import store
from skep_platform.web import api

pytestmark = pytest.mark.django_db


@pytest.fixture
def sent(admin, monkeypatch):
    """The alerts by code."""
    monkeypatch.setattr(store, "_noted_at", -store.NOTE_EVERY_S)
    monkeypatch.setattr(api, "STORE_LOW_SHARE", 0.0)  # of whatever machine this is

    def ask():
        answer = admin.get("/health").json()
        found = {alert["code"]: alert for alert in answer["alerts"]}
        assert answer["healthy"] == (not found)
        return found

    return ask


def beat(node: Node, **sent: int) -> None:
    services.heartbeat(node.pk, node.session_epoch, Heartbeat(seq=1, **sent))


def test_a_healthy_cluster_has_no_alert(sent):
    node = make_node()
    beat(node, disk_free_mb=500_000, disk_total_mb=1_000_000, log_bytes_waiting=1000)
    assert sent() == {}
    assert Api(make_user()).get("/health").status_code == 403


def test_finding_c7_a_full_log_store_is_an_alert_with_the_bytes_that_nodes_hold_back(
    sent, monkeypatch
):
    class Full:
        def save_many(self, chunks: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "_store", Full)
    for name, waiting in (("alpha", 3_000_000), ("beta", 9_000_000), ("gamma", 100)):
        beat(make_node(name), log_bytes_waiting=waiting)
    for _ in range(100):
        with pytest.raises(Unavailable):
            store.save_chunks([("k", b"x")])
    alert = sent()["log_store_away"]
    assert alert["severity"] == "critical"
    assert "No space left on device" in alert["message"]
    assert "12,000,000 bytes" in alert["message"]
    assert alert["details"]["nodes"] == {"beta": 9_000_000, "alpha": 3_000_000}
    assert alert["since"] is not None


def test_finding_c7_a_node_whose_disk_is_nearly_full_is_shown(sent, admin):
    beat(make_node("full"), disk_free_mb=1_000, disk_total_mb=500_000)
    beat(make_node("fuller"), disk_free_mb=10, disk_total_mb=20_000)
    beat(make_node("roomy"), disk_free_mb=3_000, disk_total_mb=20_000)
    alert = sent()["node_disk_low"]
    assert [node["name"] for node in alert["details"]["nodes"]] == ["fuller", "full"]
    shown = {node["name"]: node for node in admin.get("/nodes").json()["results"]}
    assert [name for name, node in shown.items() if node["disk_low"]] == ["full", "fuller"]
    assert shown["roomy"]["disk_free_mb"] == 3_000


def test_finding_c7_what_a_node_reports_itself_is_bounded():
    node = make_node()
    beat(node, disk_free_mb=-5, disk_total_mb=2**60, log_bytes_waiting=2**80)
    node.refresh_from_db()
    assert (node.disk_free_mb, node.disk_total_mb) == (0, 2**31 - 1)
    assert node.log_bytes_waiting == 2**63 - 1


def test_a_disk_of_the_log_store_that_is_nearly_full_is_an_alert(sent, monkeypatch):
    monkeypatch.setattr(api, "STORE_LOW_SHARE", 0.05)
    monkeypatch.setattr(api.readings, "store", lambda: Store("local", 4 << 30, 100 << 30))
    alert = sent()["log_store_nearly_full"]
    assert "4.0 of 100.0 GiB left" in alert["message"]
    monkeypatch.setattr(api.readings, "store", lambda: Store("s3://logs", None, None))
    assert sent() == {}


def test_finding_c8_nodes_that_are_waited_for_are_reported(sent):
    node = make_node("alpha")
    services.plan_absence({node.pk: node.session_epoch}, 3600)
    assert [n["name"] for n in sent()["nodes_awaited"]["details"]["nodes"]] == ["alpha"]


def test_finding_c3_a_control_plane_without_a_gateway_is_reported(sent):
    long_ago = Now() - timedelta(seconds=60)
    ControlPlane.objects.create(pk=1, seen_at=long_ago, since=long_ago)
    assert sent()["no_gateway"]["severity"] == "critical"


def test_a_scheduler_that_no_worker_runs_is_reported(sent, monkeypatch):
    queue = f"{KEY_PREFIX}scheduler"
    monkeypatch.setattr(api, "MOST_ROUNDS", 2)
    valkey().lpush(queue, "a", "b")
    try:
        assert sent() == {}
        valkey().lpush(queue, "c")
        assert sent()["scheduler_stopped"]["details"] == {"rounds": 3}
    finally:
        valkey().delete(queue)
