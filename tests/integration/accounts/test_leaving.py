"""People who forget passwords, leave a team, or leave for good."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

import pytest
from allauth.socialaccount.models import SocialAccount
from tests.support.api_world import SSH_KEY
from tests.support.jobs_world import attempts_of, partly_placed, placed, report, state_of, submit
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import PASSWORD, make_job, make_node, make_user, make_vc

from skep_platform.accounts import services
from skep_platform.accounts.models import BrowserSession, SshKey, User
from skep_platform.core.models import Event
from skep_platform.images.models import RegistryCredential
from skep_platform.jobs.lifecycle import stopping
from skep_platform.jobs.models import Job
from skep_platform.tenancy.models import Membership

pytestmark = pytest.mark.django_db

NEW = "an-entirely-new-one"


def login(username: str, password: str) -> int:
    body = {"username": username, "password": password}
    return Api().post("/auth/token", body).status_code


def link_of(admin: Api, username: str) -> dict[str, str]:
    url = urlsplit(admin.post(f"/users/{username}/reset-link").json()["url"])
    assert url.path == "/reset-password"
    query = parse_qs(url.query)
    return {"username": query["user"][0], "token": query["token"][0]}


def test_finding_u13_a_link_resets_a_password_once_and_ends_all_sessions(admin):
    ann = make_user("ann")
    api, browser = Api(ann), Api()
    browser.client.force_login(ann)
    link = link_of(admin, "ann")
    reset = Api().post("/auth/password-reset", {**link, "new": NEW})
    assert reset.status_code == 204, reset.content
    assert (login("ann", NEW), login("ann", PASSWORD)) == (201, 401)
    assert api.get("/me").status_code == browser.get("/me").status_code == 401
    again = Api().post("/auth/password-reset", {**link, "new": NEW + "2"})
    assert refusal(again) == (400, "link_invalid")


@pytest.mark.parametrize(
    "change",
    [{"token": "x"}, {"username": "root"}, {"username": "nobody"}, {"token": "c0ffee-" + "a" * 32}],
)
def test_finding_u13_a_link_is_for_its_user_only(admin, change):
    make_user("ann")
    body = {**link_of(admin, "ann"), "new": NEW, **change}
    assert refusal(Api().post("/auth/password-reset", body)) == (400, "link_invalid")
    assert login("ann", PASSWORD) == 201


def test_finding_u13_a_link_ends_with_a_login_and_is_never_in_an_event(admin):
    make_user("ann")
    link = link_of(admin, "ann")
    assert login("ann", PASSWORD) == 201
    body = {**link, "new": NEW}
    assert refusal(Api().post("/auth/password-reset", body)) == (400, "link_invalid")
    assert link["token"] not in str(list(Event.objects.values()))


def test_finding_u13_the_last_login_is_reported_also_of_a_command_line(admin):
    make_user("ann")
    assert admin.get("/users/ann").json()["last_login_at"] is None
    login("ann", PASSWORD)
    assert admin.get("/users/ann").json()["last_login_at"]


def test_finding_u13_tokens_survive_a_change_of_password_by_choice(admin):
    ann = make_user("ann")
    kept = Api(ann)
    body = {"current": PASSWORD, "new": NEW, "keep_tokens": True}
    assert kept.post("/me/password", body).status_code == 204
    assert kept.get("/me").status_code == 200
    kept.post("/me/password", {"current": NEW, "new": PASSWORD})
    assert kept.get("/me").status_code == 401


@pytest.fixture
def meanwhile(monkeypatch) -> Callable[[Callable[[], object]], None]:
    """Let something happen, once, while a new password is checked and hashed."""

    def set_up(happen: Callable[[], object]) -> None:
        def validate(*args: object) -> None:
            monkeypatch.undo()
            happen()

        monkeypatch.setattr(services, "validate_password", validate)

    return set_up


def test_a_change_of_password_undoes_no_deactivation_of_the_same_moment(meanwhile):
    ann = make_user("ann", admin=True)
    browser = session(ann)
    meanwhile(lambda: User.objects.update(is_active=False, is_superuser=False))
    body = {"current": PASSWORD, "new": NEW}
    assert refusal(browser.post("/me/password", body)) == (403, "account_inactive")
    ann.refresh_from_db()
    assert (ann.is_active, ann.is_superuser) == (False, False)
    assert ann.check_password(PASSWORD)


def test_a_change_of_password_undoes_no_demotion_of_the_same_moment(meanwhile):
    ann = make_user("ann", admin=True)
    browser, before = session(ann), ann.sign_outs
    meanwhile(lambda: User.objects.update(is_superuser=False, sign_outs=before + 5))
    assert browser.post("/me/password", {"current": PASSWORD, "new": NEW}).status_code == 204
    ann.refresh_from_db()
    assert (ann.is_superuser, ann.sign_outs) == (False, before + 6)
    assert browser.get("/me").status_code == 200


def test_of_two_resets_at_once_by_one_link_the_second_is_refused(admin, meanwhile):
    make_user("ann")
    link = link_of(admin, "ann")
    answers = []
    faster = {**link, "new": NEW}
    meanwhile(lambda: answers.append(Api().post("/auth/password-reset", faster)))
    slower = Api().post("/auth/password-reset", {**link, "new": NEW + "2"})
    assert answers[0].status_code == 204
    assert refusal(slower) == (400, "link_invalid")
    assert (login("ann", NEW), login("ann", NEW + "2")) == (201, 401)


def test_ending_sessions_counts_from_what_is_stored_and_not_from_what_was_read():
    ann = make_user("ann")
    SocialAccount.objects.create(user=ann, provider="", uid="1")
    User.objects.update(sign_outs=5)
    services.unlink_sso(ann)
    assert (ann.sign_outs, User.objects.get().sign_outs) == (6, 6)


def test_finding_u13_a_user_without_traces_is_deleted(admin):
    make_vc("team", members=[make_user("ann")])
    assert admin.delete("/users/ann").status_code == 204
    assert not User.objects.filter(username="ann").exists()
    assert refusal(admin.get("/users/ann")) == (404, "not_found")


def test_finding_u13_a_user_with_jobs_is_made_nameless_and_may_come_back(admin, alice, vc):
    job = make_job(vc, alice, state="SUCCEEDED")
    api = Api(alice)
    assert admin.delete("/users/alice").status_code == 204
    assert api.get("/me").status_code == 401
    assert login("alice", PASSWORD) == 401
    shown = admin.get(f"/jobs/{job.pk}").json()
    assert shown["owner"] == f"deleted-{alice.pk}"
    names = [user["username"] for user in admin.get("/users").json()["results"]]
    assert names == ["root"]
    body = {"username": "alice", "password": NEW}
    assert admin.post("/users", body).status_code == 201
    assert Api(User.objects.get(username="alice")).get("/jobs").json()["results"] == []


def test_no_one_takes_the_name_that_a_deleted_user_gets(admin, alice, vc):
    make_job(vc, alice, state="SUCCEEDED")
    body = {"username": f"deleted-{alice.pk}", "password": NEW}
    assert refusal(admin.post("/users", body)) == (400, "name_invalid")
    assert admin.delete("/users/alice").status_code == 204


def test_what_is_personal_goes_with_a_user_whose_jobs_stay(admin, alice, vc):
    make_job(vc, alice, state="SUCCEEDED")
    api = session(alice)
    assert api.post("/me/ssh-keys", {"name": "laptop", "public_key": SSH_KEY}).status_code == 201
    secret = {"username": "alice", "password": "token"}
    assert api.put("/me/registry-credentials/registry.example.org", secret).status_code == 200
    assert api.get("/me/sessions").json()
    assert admin.delete("/users/alice").status_code == 204
    for model in (SshKey, RegistryCredential, BrowserSession):
        assert not model.objects.exists()


def test_finding_u13_no_admin_deletes_the_own_account(admin):
    assert refusal(admin.delete("/users/root")) == (409, "not_yourself")


@pytest.fixture
def jobs(alice, vc) -> dict[str, Job]:
    make_node("gpu-1", gpus=8)
    make_node("gpu-2", gpus=8)
    running = placed(alice, vc)
    report(attempts_of(running), "running")
    growing = partly_placed(alice, vc, tasks=3, placed_tasks=1)
    return {"running": running, "growing": growing, "waiting": submit(alice, vc, instances=60)}


def deactivated(admin: Api) -> None:
    assert admin.patch("/users/alice", {"is_active": False}).status_code == 200


def deleted(admin: Api) -> None:
    assert admin.delete("/users/alice").status_code == 204


def removed(admin: Api) -> None:
    assert admin.delete("/virtual-clusters/vision/members/alice").status_code == 204


def states(jobs: dict[str, Job]) -> dict[str, str]:
    return {name: state_of(job) for name, job in jobs.items()}


@pytest.mark.parametrize("leave", [deactivated, removed, deleted])
def test_finding_s20_jobs_end_with_the_right_to_submit_them(admin, jobs, leave):
    leave(admin)
    assert states(jobs) == {"running": "STOPPING", "growing": "STOPPING", "waiting": "STOPPED"}
    answer = admin.get(f"/jobs/{jobs['waiting'].pk}").json()["exit_reason"]
    assert answer["code"] == "owner_left"
    words = "not a member of vision" if leave is removed else "was deactivated"
    assert words in answer["message"]
    events = admin.get(f"/jobs/{jobs['running'].pk}/events").json()["results"]
    assert any(e["kind"] == "job.stop" and words in e["message"] for e in events)
    for job in (jobs["running"], jobs["growing"]):
        report(attempts_of(job), "exited", exit_code=1)
        report(attempts_of(job), "released")
    assert set(states(jobs).values()) == {"STOPPED"}  # nothing is tried again


def test_finding_s20_running_jobs_may_finish_where_the_admin_wants_it(admin, jobs, settings):
    settings.SKEP_FORMER_MEMBERS_JOBS = "finish"
    removed(admin)
    assert states(jobs) == {"running": "RUNNING", "growing": "WAITING", "waiting": "STOPPED"}


def test_finding_s20_jobs_elsewhere_and_of_others_go_on(admin, alice, vc, jobs):
    other = make_vc("other", quotas={"A100": 8}, members=[alice])
    bob = make_user("bob")
    Membership.objects.create(vc=vc, user=bob)
    staying = [submit(alice, other), submit(bob, vc)]
    removed(admin)
    assert [state_of(job) for job in staying] == ["WAITING", "WAITING"]


def test_finding_s20_what_a_request_left_undone_is_done_later(admin, alice, vc, jobs):
    """As after a crash, or when rows were changed by hand."""
    Membership.objects.filter(user=alice).delete()
    assert stopping.stop_all() == 3
    assert stopping.stop_all() == 0
    assert states(jobs)["waiting"] == "STOPPED"


def test_finding_s20_admins_need_no_membership(admin, vc):
    job = submit(admin.user, vc)
    assert stopping.stop_all() == 0
    assert state_of(job) == "WAITING"
