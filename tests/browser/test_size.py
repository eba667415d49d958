"""The pages of a platform with 10,000 jobs and 10,000 nodes, made by SQL, in Chromium."""

from __future__ import annotations

import pytest
from benchmarks.pages_fill import Size, fill
from tests.support.gateway_server import ProcessServer
from tests.support.platform_factories import make_user
from tests.support.playwright import play

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

SIZE = Size(jobs=10_000, audit=10_000, users=1_000, vcs=20, nodes=10_000, tasks=2_000)
VISITOR, PASSWORD = "mei", "many-busy-bees"


def test_no_page_of_a_large_platform_loads_or_draws_too_much():
    fill(SIZE)
    user = make_user(VISITOR, admin=True)
    user.set_password(PASSWORD)
    user.save()
    with ProcessServer() as server:
        url = f"http://127.0.0.1:{server.port}"
        report = play("size", SKEP_URL=url, SKEP_USER=VISITOR, SKEP_PASSWORD=PASSWORD)
    assert not report, report
