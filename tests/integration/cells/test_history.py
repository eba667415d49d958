"""A virtual cluster's use over time, for those who belong to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.scheduling.models import VcUse

pytestmark = pytest.mark.django_db

START = datetime(2026, 1, 5, 12, tzinfo=UTC)


def use(vc, at, model="A100", **values: int):
    known = dict.fromkeys(("owned", "used", "borrowed", "lent", "bad", "waiting"), 0)
    VcUse.objects.create(vc=vc, gpu_model=model, at=at, **known | values)


def test_points_are_means_over_the_step(django_assert_max_num_queries):
    ann = make_user()
    vc, other = make_vc("vision", members=[ann]), make_vc("other")
    for minute in range(4):
        use(vc, START + timedelta(minutes=minute), owned=8, used=minute, waiting=16)
    use(vc, START, "V100", owned=4)
    use(vc, START - timedelta(days=1), used=100)
    use(other, START, used=100)
    api = Api(ann)
    with django_assert_max_num_queries(3):  # token, virtual cluster, use
        answer = api.get(
            "/virtual-clusters/vision/history", since=START.isoformat(), step=86400
        ).json()
    at = START.replace(hour=0).timestamp()
    assert answer["step_s"] == 86400
    assert answer["models"] == {
        "A100": {"points": [[at, 8.0, 1.5, 0.0, 0.0, 0.0, 16.0, 0.0]]},
        "V100": {"points": [[at, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]]},
    }


def test_a_long_time_is_reported_in_fewer_points():
    ann = make_user()
    vc = make_vc("vision", members=[ann])
    now = timezone.now()
    for hours in range(0, 24 * 60, 3):
        use(vc, now - timedelta(hours=hours), used=1)
    since = (now - timedelta(days=60)).isoformat()
    answer = Api(ann).get("/virtual-clusters/vision/history", since=since, step=60).json()
    assert answer["step_s"] > 10_000
    assert 400 < len(answer["models"]["A100"]["points"]) <= 501


def test_it_is_the_last_day_unless_asked_otherwise():
    ann = make_user()
    vc = make_vc("vision", members=[ann])
    for days in (0.5, 1.5):
        use(vc, timezone.now() - timedelta(days=days), used=1)
    answer = Api(ann).get("/virtual-clusters/vision/history").json()
    assert len(answer["models"]["A100"]["points"]) == 1


@pytest.mark.parametrize("query", [{"since": "yesterday"}, {"step": 0}, {"step": "x"}])
def test_what_makes_no_sense_is_refused(query):
    ann = make_user()
    make_vc("vision", members=[ann])
    assert refusal(Api(ann).get("/virtual-clusters/vision/history", **query))[0] == 400
