"""What nodes are sent about what tasks may reach."""

from __future__ import annotations

import os
import subprocess
import sys
from ipaddress import IPv4Network

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.platform_factories import make_node

from skep_agent.network.rules import Egress
from skep_platform.cluster import network

pytestmark = pytest.mark.django_db


def denied() -> list[str]:
    return network.policy().denied


def test_finding_s5_nodes_and_control_plane_with_public_addresses_are_closed(settings):
    settings.SKEP_PUBLIC_URL = "https://203.0.113.9:8443"
    make_node("a", address="198.51.100.4")
    make_node("b", address="198.51.100.5")
    make_node("c", address="some.name")
    assert denied() == ["198.51.100.4/31", "203.0.113.9/32"]


def test_finding_s5_private_addresses_are_reported_only_where_a_list_would_open_them(settings):
    make_node("a", address="10.0.0.4")
    make_node("b", address="10.7.0.4")
    assert denied() == []
    settings.SKEP_EGRESS_ALLOW = ["10.0.0.0/16", "10.7.0.4:2049"]
    assert denied() == ["10.0.0.4/32"]
    egress = Egress.of(network.policy(), (), ())
    assert egress.allowed_ports == ((IPv4Network("10.7.0.4"), 2049),)


def test_many_nodes_are_reported_in_ranges_by_one_query(settings):
    settings.SKEP_EGRESS_ALLOW = ["10.0.0.0/8"]
    for number in range(8):
        make_node(f"n{number}", address=f"10.0.0.{8 + number}")
    with CaptureQueriesContext(connection) as queries:
        assert denied() == ["10.0.0.8/29"]
    assert len(queries) == 1


def test_a_frame_is_worked_out_once_for_all_agents(settings):
    network.forget()
    first = network.frame()
    make_node("a", address="198.51.100.4")
    with CaptureQueriesContext(connection) as queries:
        assert network.frame() == first
    assert len(queries) == 0
    network.forget()
    assert "198.51.100.4" in network.frame()
    network.forget()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SKEP_EGRESS_ALLOW", "10.0.0.0/8,nfs.example.org"),
        ("SKEP_EGRESS_ALLOW", "10.0.0.5:99999"),
        ("SKEP_GANG_POOL", "8.0.0.0/10"),
        ("SKEP_GANG_POOL", "10.0.0.0/30"),
        ("SKEP_GANG_POOL", "everything"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused_at_the_start(name, value):
    done = subprocess.run(
        [sys.executable, "-c", "import skep_platform.settings"],
        env=os.environ | {name: value, "SKEP_SECRET_KEY": settings.SECRET_KEY},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert name in done.stderr.splitlines()[-1]
