"""Limits of virtual clusters: defaults, rows that override them, who may see and set them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.core.models import Event
from skep_platform.tenancy import limits
from skep_platform.tenancy.limits import LIMITS

pytestmark = pytest.mark.django_db
PATH = "/virtual-clusters/vision/limits"


def value(api: Api, name: str) -> int:
    return next(row["value"] for row in api.get(PATH).json()["limits"] if row["name"] == name)


def test_limit_is_its_default_until_an_admin_sets_it(admin, django_assert_num_queries):
    vc = make_vc("vision")
    other = make_vc("audio")
    assert limits.limit(vc, "tasks") == LIMITS["tasks"].default
    answer = admin.put(f"{PATH}/tasks", {"value": 7})
    assert (answer.json()["value"], answer.json()["is_set"]) == (7, True)
    assert (limits.limit(vc, "tasks"), value(admin, "tasks")) == (7, 7)
    assert limits.limit(other, "tasks") == LIMITS["tasks"].default
    with django_assert_num_queries(1):
        assert limits.limits_of(vc) == {n: k.default for n, k in LIMITS.items()} | {"tasks": 7}
    assert admin.delete(f"{PATH}/tasks").json()["is_set"] is False
    assert value(admin, "tasks") == LIMITS["tasks"].default


def test_changes_of_limits_are_told_once(admin):
    make_vc("vision")
    for _ in range(2):
        admin.put(f"{PATH}/active_jobs", {"value": 5})
    told = Event.objects.get(kind="limit.changed")
    default = LIMITS["active_jobs"].default
    assert told.data == {"limit": "active_jobs", "before": default, "after": 5}
    assert told.actor == "root"


@pytest.mark.parametrize(
    ("name", "number"), [("submits_per_minute", 0), ("host_network", 2), ("tasks", 2**63)]
)
def test_limit_out_of_range_is_refused_with_the_range(admin, name, number):
    make_vc("vision")
    answer = admin.put(f"{PATH}/{name}", {"value": number})
    assert refusal(answer) == (400, "limit_out_of_range")
    details = answer.json()["details"]
    assert (details["minimum"], details["maximum"]) == (LIMITS[name].minimum, LIMITS[name].maximum)


def test_unknown_limit_is_not_found(admin):
    make_vc("vision")
    for answer in (admin.put(f"{PATH}/nope", {"value": 1}), admin.delete(f"{PATH}/nope")):
        assert refusal(answer) == (404, "not_found")
        assert "active_jobs" in answer.json()["message"]


def test_managers_see_limits_and_only_admins_set_them():
    ann, bob = make_user("ann"), make_user("bob")
    make_vc("vision", members=[ann], managers=[bob])
    assert refusal(Api(ann).get(PATH)) == (403, "forbidden")
    assert Api(bob).get(PATH).status_code == 200
    assert refusal(Api(bob).put(f"{PATH}/tasks", {"value": 1})) == (403, "forbidden")


@pytest.mark.parametrize("name", LIMITS)
def test_defaults_lie_in_their_own_range(name):
    known = LIMITS[name]
    assert known.minimum <= known.default <= known.maximum
    assert known.description.endswith(".")


def test_every_limit_is_documented_with_its_default():
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    for name, known in LIMITS.items():
        assert f"| `{name}` | {known.default} | {known.unit} | {known.description} |" in text
