"""Service accounts: users for programs that a virtual cluster owns."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_node, make_user, make_vc

from skep_platform.accounts import groups
from skep_platform.accounts.models import ApiToken, User
from skep_platform.accounts.services import create_user
from skep_platform.core.errors import NotFound, SkepError
from skep_platform.jobs.models import Job
from skep_platform.tenancy import limits, memberships

pytestmark = pytest.mark.django_db

ROOT = "/virtual-clusters/vision/service-accounts"


@pytest.fixture
def head() -> Api:
    user = make_user("head")
    make_vc("vision", quotas={"A100": 8}, vc_admins=[user], members=[make_user("member")])
    make_node("node-a", gpus=8)
    return session(user)


def made(api: Api, name: str = "ci", **body: Any) -> dict[str, Any]:
    answer = api.post(ROOT, {"name": name, **body})
    assert answer.status_code == 201, answer.content
    return dict(answer.json())


def by_token(api: Api, **body: Any) -> Api:
    answer = api.post(f"{ROOT}/ci/tokens", body)
    assert answer.status_code == 201, answer.content
    program = Api()
    program.client.credentials(HTTP_AUTHORIZATION=f"Bearer {answer.json()['token']}")
    return program


def test_a_vc_admin_makes_an_account_whose_token_submits_a_job_that_it_owns(head):
    assert made(head)["username"] == "svc.vision.ci"
    program = by_token(head, name="nightly")
    job = program.post("/jobs", job_file("vision", name="first"))
    assert job.status_code == 201, job.content
    assert job.json()["owner"] == "svc.vision.ci"
    assert head.get(f"/jobs/{job.json()['id']}").status_code == 200
    member = Api(User.objects.get(username="member"))
    assert member.get(f"/jobs/{job.json()['id']}").status_code == 404
    (listed,) = head.get(ROOT).json()["results"]
    assert (listed["tokens"], listed["role"], listed["is_active"]) == (1, "member", True)
    assert program.get("/me").json()["virtual_clusters"] == [{"name": "vision", "role": "member"}]


def test_a_service_account_cannot_log_in_or_get_a_password(head):
    made(head)
    user = User.objects.get(username="svc.vision.ci")
    user.set_password(PASSWORD)  # whatever sets one
    user.save()
    for path in ("/auth/login", "/auth/token"):
        body = {"username": user.username, "password": PASSWORD}
        assert refusal(Api().post(path, body)) == (401, "login_failed")
    admin = Api(make_user("root", admin=True))
    path = f"/users/{user.username}"
    assert admin.get(path).status_code == 404
    assert admin.patch(path, {"password": PASSWORD}).status_code == 404
    assert admin.patch(path, {"is_admin": True}).status_code == 404
    assert admin.post(f"{path}/reset-link").status_code == 404
    assert "svc.vision.ci" not in str(admin.get("/users").json())


@pytest.mark.parametrize("name", ["svc.vision.x", "SVC.y"])
def test_no_person_takes_the_name_of_a_service_account(name):
    with pytest.raises(SkepError) as error:
        create_user(None, name, PASSWORD)
    assert error.value.code == "name_invalid"


def test_it_gets_no_role_elsewhere_and_joins_no_group(head):
    made(head)
    other = make_vc("language")
    group = groups.create(make_user("root", admin=True), "research")
    with pytest.raises(NotFound):
        memberships.set_member(None, other, "svc.vision.ci", "member")
    with pytest.raises(NotFound):
        groups.add_members(None, group, ["svc.vision.ci"])
    assert refusal(head.patch(f"{ROOT}/ci", {"role": "admin"})) == (400, "invalid")
    members = head.get("/virtual-clusters/vision/members").json()["results"]
    assert [each["username"] for each in members] == ["head", "member"]
    assert head.delete("/virtual-clusters/vision/members/svc.vision.ci").status_code == 404


@pytest.mark.parametrize("scope", ["admin", "everything"])
def test_its_tokens_read_or_submit_and_nothing_more(head, scope):
    made(head)
    assert refusal(head.post(f"{ROOT}/ci/tokens", {"scope": scope})) == (400, "invalid")
    program = by_token(head, scope="read")
    assert program.get("/jobs").status_code == 200
    assert refusal(program.post("/jobs/check", {})) == (403, "scope_too_small")


def test_a_viewer_may_not_submit(head):
    made(head, role="viewer")
    answer = by_token(head).post("/jobs", job_file("vision", name="first"))
    assert refusal(answer) == (400, "role_too_small")


@pytest.mark.parametrize("how", ["disable", "remove", "revoke", "vc"])
def test_tokens_end_at_once_and_so_do_jobs(head, how):
    made(head)
    program = by_token(head)
    if how != "vc":  # one that has jobs is not deleted
        job = program.post("/jobs", job_file("vision", name="first")).json()
    if how == "disable":
        assert head.patch(f"{ROOT}/ci", {"is_active": False}).status_code == 200
        assert refusal(head.post(f"{ROOT}/ci/tokens")) == (409, "service_account_disabled")
    elif how == "remove":
        assert head.delete(f"{ROOT}/ci").status_code == 204
        assert head.get(f"{ROOT}/ci").status_code == 404
        assert not User.objects.filter(username="svc.vision.ci").exists()
    elif how == "revoke":
        token = head.get(f"{ROOT}/ci/tokens").json()[0]["id"]
        assert head.delete(f"{ROOT}/ci/tokens/{token}").status_code == 204
    else:
        admin = Api(make_user("root", admin=True))
        assert admin.delete("/virtual-clusters/vision").status_code == 204
        assert not User.objects.filter(is_service_account=True).exists()
    assert program.get("/me").status_code == 401
    if how in ("disable", "remove"):
        stopped = Job.objects.get(pk=job["id"])
        assert (stopped.state, stopped.exit_reason["code"]) == ("STOPPED", "owner_left")


def test_a_token_makes_a_token_only_with_the_password_of_its_user(head):
    made(head)
    api = Api(head.user)
    assert refusal(api.post(f"{ROOT}/ci/tokens")) == (403, "token_by_token")
    wrong = api.post(f"{ROOT}/ci/tokens", {"password": "wrong"})
    assert refusal(wrong) == (401, "login_failed")
    assert not ApiToken.objects.filter(user__is_service_account=True).exists()
    by_token(api, password=PASSWORD)


def test_a_token_makes_a_token_for_no_user_who_has_to_set_up_mfa_first(head, settings):
    made(head)
    settings.SKEP_REQUIRE_MFA = "all"
    answer = Api(head.user).post(f"{ROOT}/ci/tokens", {"password": PASSWORD})
    assert refusal(answer) == (403, "mfa_setup_required")
    assert not ApiToken.objects.filter(user__is_service_account=True).exists()


def test_a_virtual_cluster_has_no_more_of_them_than_its_limit(head):
    vc = make_vc("other", vc_admins=[head.user])
    limits.set_limit(None, vc, "service_accounts", 1)
    path = "/virtual-clusters/other/service-accounts"
    assert head.post(path, {"name": "one"}).status_code == 201
    answer = head.post(path, {"name": "two"})
    assert refusal(answer) == (409, "too_many_service_accounts")
    assert answer.json()["details"] == {"limit": "service_accounts", "now": 1, "most": 1}
    assert refusal(head.post(ROOT, {"name": "a.b"})) == (400, "name_invalid")
    made(head, "ci")
    assert refusal(head.post(ROOT, {"name": "ci"})) == (409, "name_taken")


def test_an_admin_lists_the_tokens_of_all_users_and_revokes_one(head):
    made(head)
    program = by_token(head, name="nightly", expires_in_s=3600)
    admin = Api(make_user("root", admin=True))
    rows = admin.get("/tokens").json()["results"]
    assert {row["owner"] for row in rows} == {"root", "svc.vision.ci"}
    (row,) = admin.get("/tokens", user="svc.vision.ci").json()["results"]
    assert (row["name"], row["scope"], row["kind"]) == ("nightly", "submit", "service_account")
    assert "token" not in row
    assert admin.get("/tokens", user="nobody").json()["results"] == []
    assert admin.delete(f"/tokens/{row['id']}").status_code == 204
    assert program.get("/me").status_code == 401
    assert refusal(admin.delete(f"/tokens/{row['id']}")) == (404, "not_found")


@pytest.mark.parametrize("seconds", [10**10, 10**30])
def test_a_token_lives_no_longer_than_any_other(head, seconds):
    made(head)
    answer = head.post(f"{ROOT}/ci/tokens", {"expires_in_s": seconds})
    assert refusal(answer) == (400, "ttl_invalid")
