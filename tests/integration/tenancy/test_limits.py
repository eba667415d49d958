"""Limits of virtual clusters: defaults, rows that override them, who may see and set them."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

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


def test_changes_of_limits_are_reported_once(admin):
    make_vc("vision")
    for _ in range(2):
        admin.put(f"{PATH}/active_jobs", {"value": 5})
    event = Event.objects.get(kind="limit.changed")
    default = LIMITS["active_jobs"].default
    assert event.data == {"limit": "active_jobs", "before": default, "after": 5}
    assert event.actor == "root"


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


def test_vc_admins_set_the_limits_of_their_team_and_not_those_that_protect_the_platform():
    ann, bob = make_user("ann"), make_user("bob")
    make_vc("vision", members=[ann], vc_admins=[bob])
    assert refusal(Api(ann).get(PATH)) == (403, "forbidden")
    assert refusal(Api(ann).put(f"{PATH}/gpus_per_user", {"value": 1})) == (403, "forbidden")
    vc_admin = Api(bob)
    may_set = {row["name"] for row in vc_admin.get(PATH).json()["limits"] if row["may_set"]}
    assert {"gpus_per_user", "job_duration_s", "submits_per_minute"} <= may_set
    assert not {"host_network", "rdma", "tasks", "log_bytes_per_job"} & may_set
    assert vc_admin.put(f"{PATH}/gpus_per_user", {"value": 8}).json()["value"] == 8
    for answer in (
        vc_admin.put(f"{PATH}/host_network", {"value": 1}),
        vc_admin.delete(f"{PATH}/host_network"),
    ):
        assert refusal(answer) == (403, "limit_set_by_admins")
    answer = vc_admin.put(f"{PATH}/submits_per_minute", {"value": 121})
    assert refusal(answer) == (403, "limit_above_default")
    assert answer.json()["details"]["most"] == 120
    assert vc_admin.put(f"{PATH}/submits_per_minute", {"value": 60}).status_code == 200


def test_limits_come_with_what_is_used_of_them(admin):
    ann, bob = make_user("ann"), make_user("bob")
    vc, other = make_vc("vision", members=[ann, bob]), make_vc("audio", members=[ann])
    for user, gpus in ((ann, 4), (ann, 2), (bob, 1)):
        make_job(vc, user, state="RUNNING", gpus=gpus, placed_at=timezone.now())
    make_job(vc, ann, gpus=8)
    make_job(other, ann, gpus=16)
    rows = {row["name"]: row for row in admin.get(PATH).json()["limits"]}
    used = {name: row["used"] for name, row in rows.items()}
    assert (used["active_jobs"], used["waiting_jobs"], used["gpus_per_job"]) == (3, 1, 8)
    assert (used["running_jobs_per_user"], used["jobs_per_user"]) == (2, 3)
    assert used["job_duration_s"] is None
    assert rows["gpus_per_user"]["is_open"] is True
    effects = {rows[name]["effect"] for name in ("gpus_per_user", "running_jobs_per_user")}
    assert (effects, rows["gpus_per_job"]["effect"]) == ({"wait"}, "submit")


@pytest.mark.parametrize("name", LIMITS)
def test_defaults_lie_in_their_own_range(name):
    known = LIMITS[name]
    assert known.minimum <= known.default <= known.maximum
    assert known.description.endswith(".")


def test_every_limit_is_documented_with_its_default():
    text = (Path(__file__).parents[3] / "docs/operations.md").read_text()
    for name, known in LIMITS.items():
        assert f"| `{name}` | {known.default} | {known.unit} | {known.description} |" in text


def test_a_vc_admin_sets_the_default_image_of_the_team():
    ann, bob = make_user("ann"), make_user("bob")
    make_vc("vision", members=[ann], vc_admins=[bob])
    path = "/virtual-clusters/vision"
    assert refusal(Api(ann).patch(path, {"default_image": "x"})) == (403, "forbidden")
    changed = Api(bob).patch(path, {"default_image": "registry.example.org/torch:2.4"})
    assert changed.json()["default_image"] == "registry.example.org/torch:2.4"
    assert Api(ann).get(path).json()["default_image"] == "registry.example.org/torch:2.4"
    assert Api(bob).patch(path, {"default_image": "no image at all"}).status_code == 400
    assert Api(bob).patch(path, {"default_image": ""}).json()["default_image"] == ""
