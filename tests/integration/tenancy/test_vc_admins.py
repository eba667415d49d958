"""What VC admins of a virtual cluster may do in it, and nowhere else."""

from __future__ import annotations

import pytest
from tests.support.jobs_world import job_file, state_of, submit, tick
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db


@pytest.fixture
def boss(vc) -> Api:
    user = make_user("boss")
    Membership.objects.create(vc=vc, user=user, role="admin")
    return Api(user)


def roles(api: Api) -> dict[str, str]:
    rows = api.get("/virtual-clusters/vision/members").json()["results"]
    return {row["username"]: row["role"] for row in rows}


def test_finding_u12_a_vc_admin_brings_people_in_promotes_them_and_takes_them_out(boss):
    make_user("carol")
    members = "/virtual-clusters/vision/members"
    assert boss.put(f"{members}/carol", {}).status_code == 200
    assert roles(boss)["carol"] == "member"
    assert boss.put(f"{members}/carol", {"role": "admin"}).status_code == 200
    assert roles(boss)["carol"] == "admin"
    assert boss.delete(f"{members}/carol").status_code == 204
    assert "carol" not in roles(boss)
    assert refusal(boss.put(f"{members}/nobody", {})) == (404, "not_found")


def test_finding_u12_the_last_vc_admin_goes_only_when_that_is_confirmed(boss, admin):
    path = "/virtual-clusters/vision/members/boss"
    assert refusal(boss.delete(path)) == (409, "last_vc_admin")
    assert refusal(boss.put(path, {"role": "member"})) == (409, "last_vc_admin")
    assert refusal(admin.delete(path)) == (409, "last_vc_admin")
    assert boss.put(path, {"role": "admin"}).status_code == 200
    assert boss.put(path, {"role": "member", "confirm": True}).status_code == 200
    assert refusal(boss.delete(path)) == (403, "forbidden")
    admin.put(path, {"role": "admin"})
    assert boss.delete(f"{path}?confirm=1").status_code == 204


def test_finding_u12_a_vc_admin_stops_and_ranks_its_jobs(boss, alice, vc):
    job = submit(alice, vc)
    assert boss.get(f"/jobs/{job.pk}").json()["may_prioritise"]
    ranked = boss.put(f"/jobs/{job.pk}/priority", {"priority": 500})
    assert ranked.json()["priority"] == 500
    assert refusal(boss.put(f"/jobs/{job.pk}/priority", {"priority": 1001})) == (400, "invalid")
    own = Api(alice).put(f"/jobs/{job.pk}/priority", {"priority": 101})
    assert refusal(own) == (403, "priority_too_high")
    assert Api(alice).put(f"/jobs/{job.pk}/priority", {"priority": 1}).status_code == 200
    assert boss.post(f"/jobs/{job.pk}/stop").status_code == 202
    assert state_of(job) == "STOPPED"
    ended = boss.put(f"/jobs/{job.pk}/priority", {"priority": 1})
    assert refusal(ended) == (409, "job_ended")


def test_finding_u12_an_opportunistic_job_has_no_rank_to_change(boss, alice, vc):
    job = submit(alice, vc, priority="oppo")
    answer = boss.put(f"/jobs/{job.pk}/priority", {"priority": 100})
    assert refusal(answer) == (409, "job_opportunistic")


def test_finding_u12_a_vc_admin_says_who_sees_jobs_and_sees_the_limits(boss, alice):
    path = "/virtual-clusters/vision"
    changed = boss.patch(path, {"job_visibility": "members", "description": "Eyes"}).json()
    assert (changed["job_visibility"], changed["description"]) == ("members", "Eyes")
    assert changed["may_manage"]
    assert boss.get(f"{path}/limits").status_code == 200
    assert refusal(Api(alice).patch(path, {"job_visibility": "everyone"})) == (403, "forbidden")
    assert not Api(alice).get(path).json()["may_manage"]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PATCH", "/virtual-clusters/vision", {"name": "mine"}),
        ("DELETE", "/virtual-clusters/vision", None),
        ("PUT", "/virtual-clusters/vision/quotas", {"quotas": {"A100": 1000}}),
        ("PUT", "/virtual-clusters/vision/limits/active_jobs", {"value": 1000}),
        ("PATCH", "/users/boss", {"is_admin": True}),
        ("POST", "/users/root/reset-link", None),
        ("DELETE", "/users/alice", None),
        ("GET", "/users", None),
    ],
)
def test_finding_u12_a_vc_admin_is_no_admin(boss, admin, method, path, body):
    assert boss.send(method, path, body).status_code == 403
    assert not boss.get("/me").json()["is_admin"]


@pytest.mark.parametrize("role", ["owner", "", "superuser", "ADMIN"])
def test_finding_u12_there_are_no_other_roles_to_give(boss, role):
    make_user("carol")
    answer = boss.put("/virtual-clusters/vision/members/carol", {"role": role})
    assert answer.status_code == 400


def test_finding_u12_other_virtual_clusters_do_not_exist_for_a_vc_admin(boss):
    make_vc("other", members=[make_user("carol")])
    for method, path in (
        ("PATCH", "/virtual-clusters/other"),
        ("PUT", "/virtual-clusters/other/members/boss"),
        ("DELETE", "/virtual-clusters/other/members/carol"),
    ):
        assert refusal(boss.send(method, path, {})) == (404, "not_found")


def nameless(**changes) -> dict:
    made = job_file("", **changes)
    del made["defaults"]
    return made


def test_finding_u24_who_is_in_one_virtual_cluster_need_not_name_it(alice, vc):
    api = Api(alice)
    found = api.post("/jobs/check", nameless()).json()
    assert (found["valid"], found["summary"]["virtual_cluster"]) == (True, "vision")
    made = api.post("/jobs", nameless())
    assert made.json()["virtual_cluster"] == "vision"
    assert Job.objects.get().vc == vc


def test_finding_u24_who_is_in_several_sees_their_names(alice, vc):
    make_vc("nlp", members=[alice])
    (error,) = Api(alice).post("/jobs/check", nameless()).json()["errors"]
    assert error["code"] == "unknown_virtual_cluster"
    assert "nlp, vision" in error["message"]


def test_finding_u24_who_is_in_none_sees_whom_to_ask(admin):
    carol = Api(make_user("carol"))
    assert carol.get("/me").json()["admins"] == ["root"]
    (error,) = carol.post("/jobs/check", nameless()).json()["errors"]
    assert "ask root" in error["message"]
    assert refusal(carol.post("/jobs", nameless())) == (404, "unknown_virtual_cluster")


def test_finding_u24_a_name_that_is_given_is_meant(alice, vc):
    (error,) = Api(alice).post("/jobs/check", job_file("elsewhere")).json()["errors"]
    assert "elsewhere" in error["message"]


def test_finding_u12_the_scheduler_ranks_a_job_anew(boss, alice, vc):
    make_node("gpu-1", gpus=8)
    first, second = (submit(alice, vc, gpus=8) for _ in range(2))
    assert boss.put(f"/jobs/{second.pk}/priority", {"priority": 900}).status_code == 200
    assert tick() == {str(second.pk)}
    assert state_of(first) == "WAITING"
