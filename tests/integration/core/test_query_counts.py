"""A page costs as many queries for many rows as for few: nothing is asked row by row."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.one_of_each import make_all, make_users
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place

from skep_platform.audit.services import record
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.usage.models import UsageDay

pytestmark = pytest.mark.django_db

MORE = 12
MOST = 10  # queries of any page, that of who asks included
SPAN = "since=2026-09-01&until=2026-11-30"
PAGES = [
    "/jobs",
    "/jobs?state=WAITING,RUNNING&virtual_cluster=team&owner=owner&tag=a&search=tra",
    "/jobs?ordering=name",
    "/jobs?search=t",
    "/jobs/count",
    "/jobs/count?search=train",
    "/cluster",
    "/cluster/use?nodes=node-a,node-b",
    "/nodes",
    "/virtual-clusters",
    "/images",
    "/storages",
    "/announcements",
    "/audit",
    "/audit?target=train",
    f"/usage?by=vc&{SPAN}",
    f"/usage?by=user,day&{SPAN}",
    f"/usage?by=job&order=-idle&{SPAN}",
    "/virtual-clusters/team/members",
]
FOR_ADMINS = ["/users", "/groups", "/health", "/virtual-clusters/team/report?month=2026-11"]


@pytest.fixture
def users():
    users = make_users()
    make_all(users)
    _more(users["member"], 1)
    return users


@pytest.mark.parametrize("caller", ["member", "admin"])
def test_31_pages_take_as_many_queries_for_many_rows_as_for_few(users, caller):
    api = Api(users[caller])
    pages = PAGES + (FOR_ADMINS if caller == "admin" else [])
    before = {page: _queries(api, page) for page in pages}
    _more(users["member"], MORE)
    after = {page: _queries(api, page) for page in pages}
    assert after == before
    assert max(after.values()) <= MOST, after


def _more(owner, count):
    """More of all that the pages list."""
    team = VirtualCluster.objects.get(name="team")
    for _ in range(count):
        make_vc(members=[owner, make_user()])
        node = make_node(gpus=1)
        job = make_job(team, owner, state="RUNNING", tags=["a"])
        place(job, list(node.devices.all()))
        record("job.submit", "job", job.pk, "train", vc=team)
        own = {"job": job, "user": owner, "vc": team, "gpu_model": "A100", "guaranteed": True}
        UsageDay.objects.create(day="2026-11-05", allocated_us=9, known_us=9, **own)


def _queries(api, page):
    with CaptureQueriesContext(connection) as captured:
        answer = api.get(page)
    assert answer.status_code == 200, (page, answer.content)
    return len(captured)
