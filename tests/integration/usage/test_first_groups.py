"""Pages that are read from a part of the rows are those of all rows."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.integration.usage.test_usage_api import use
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.jobs.models import Job
from skep_platform.usage.models import UsageDay

pytestmark = pytest.mark.django_db

SPAN = {"since": "2026-03-10", "until": "2026-05-20"}
BEGINS = (date(2026, 1, 5), date(2026, 3, 2), date(2026, 3, 8), date(2026, 3, 10))
LATER = (date(2026, 3, 31), date(2026, 4, 15), date(2026, 5, 20), date(2026, 5, 21))


@pytest.fixture
def admin() -> Api:
    """Jobs before, over, within and after the span, and days that are no longer kept by job."""
    users = [make_user(f"user-{number}") for number in range(3)]
    vc = make_vc("team", members=users)
    for number, begin in enumerate(BEGINS + LATER):
        job = make_job(vc, users[number % 3], name=f"job-{number}")
        for later in (0, 1, 9) if number % 2 else (0,):
            use(job, 1 + number, day=begin + timedelta(days=later))
    row = use(Job.objects.order_by("pk")[0], 2, day=date(2026, 4, 1))
    UsageDay.objects.filter(pk=row.pk).update(job=None)
    return Api(make_user("root", admin=True))


@pytest.mark.parametrize("by", ["month,user", "month,vc", "job,day", "job,month", "job,class"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_pages_are_parts_of_the_whole(admin, by, limit):
    whole = admin.get("/usage", by=by, limit=1000, **SPAN).json()["results"]
    assert len(whole) > 2
    found, query = [], {}
    while True:
        page = admin.get("/usage", by=by, limit=limit, **SPAN, **query).json()
        found += page["results"]
        if not page["next"]:
            break
        query = {"cursor": page["next"].partition("cursor=")[2].partition("&")[0]}
    assert found == whole
    keys = [tuple(str(row[name]) for name in by.split(",")) for row in whole]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("by", ["month,user", "job,day"])
def test_more_rows_take_no_more_queries(admin, by):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin.get("/usage", by=by, limit=2, **SPAN).status_code == 200
        return len(captured)

    queries()
    before = queries()
    vc = make_vc("other", members=[make_user("eve")])
    for number in range(20):
        use(make_job(vc, make_user(f"more-{number}")), 1, day=date(2026, 4, 1 + number))
    assert queries() <= before
