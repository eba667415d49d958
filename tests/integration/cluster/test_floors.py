"""Nodes whose software is too old to keep tenants apart."""

from __future__ import annotations

import pytest
from tests.support.jobs_world import attempts_of, state_of, submit, tick
from tests.support.platform_factories import make_node

pytestmark = pytest.mark.django_db

OLD = {"runc": "1.1.4", "toolkit": "1.17.8", "anything": "1"}


def test_finding_s16_a_node_below_a_floor_is_shown_as_such(admin):
    make_node("old", components=OLD, driver_version="550.54.15")
    make_node("new", components={"runc": "1.2.8"})
    answer = admin.get("/nodes").json()["results"]
    found = {node["name"]: node["below_floor"] for node in answer}
    assert found["new"] == []
    assert [(b["component"], b["floor"], b["cve"]) for b in found["old"]] == [
        ("runc", "1.1.12", "CVE-2024-21626"),
        ("driver", "550.127.5", "CVE-2024-0126"),
    ]


def test_finding_s16_nothing_is_placed_below_a_floor_where_the_setting_refuses_it(
    alice, vc, settings
):
    settings.SKEP_VERSION_FLOORS = "refuse"
    make_node("old", gpus=8, components=OLD)
    job = submit(alice, vc)
    tick()
    assert state_of(job) == "WAITING"
    make_node("new", gpus=8, components={"runc": "1.2.8"})
    tick()
    (attempt,) = attempts_of(job)
    assert attempt.node.name == "new"


def test_finding_s16_by_default_a_node_below_a_floor_is_warned_of_alone(alice, vc):
    make_node("old", gpus=8, components=OLD)
    job = submit(alice, vc)
    tick()
    assert len(attempts_of(job)) == 1
