"""Two admins at once: one is asked to look again, and nothing is half done."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.at_once import at_once, codes
from tests.support.cells_live import NODE
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cells import services
from skep_platform.cluster.services import cell_layout
from skep_platform.tenancy.models import Quota, VcCell
from skep_platform.tenancy.services import set_quotas

pytestmark = pytest.mark.django_db(transaction=True)


def body(revision: int, **nodes: int) -> dict[str, Any]:
    vcs = {
        name: {
            "cells": [{"chain": NODE, "cell_type": NODE, "number": number}],
            "quotas": {},
            "pins": [],
        }
        for name, number in nodes.items()
    }
    return {"revision": revision, "virtual_clusters": vcs, "pins": []}


def test_one_of_two_assignments_wins_and_the_other_is_stale():
    admin = make_user("root", admin=True)
    for name in ("n1", "n2"):
        make_node(name, gpus=8)
    make_vc("vision")
    make_vc("speech")
    revision = cell_layout().revision
    answers = at_once(
        lambda: services.assign(admin, body(revision, vision=2)),
        lambda: services.assign(admin, body(revision, speech=2)),
    )
    assert codes(answers) == ["ok", "revision_stale"]
    assert VcCell.objects.get().number == 2
    assert cell_layout().revision == revision + 1


def test_counts_and_cells_cannot_be_reserved_twice():
    admin = make_user("root", admin=True)
    make_node("n1", gpus=8)
    vision, speech = make_vc("vision"), make_vc("speech")
    revision = cell_layout().revision
    answers = at_once(
        lambda: services.assign(admin, body(revision, vision=1)),
        lambda: set_quotas(admin, speech, {"A100": 8}),
    )
    assert "ok" in codes(answers)
    assert codes(answers) != ["ok", "ok"]
    cells = sum(cell.number * 8 for cell in VcCell.objects.filter(vc=vision))
    assert cells + sum(quota.gpus for quota in Quota.objects.filter(vc=speech)) == 8
