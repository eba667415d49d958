"""Apps over REST: who may start, see, share and open one; and when an unused one is stopped."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import override_settings
from django.utils import timezone
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api, refusal, session
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place, release

from skep_platform.audit.models import AuditEntry
from skep_platform.core.models import Event
from skep_platform.interactive import queries, services, watching
from skep_platform.interactive.models import App, AppSession
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.jobs.states import AttemptState, JobState
from skep_platform.tenancy import limits

pytestmark = pytest.mark.django_db

STATE = "s" * 40
NEW = {"type": "jupyterlab", "image": "test/image:1", "virtual_cluster": "team", "gpus": 1}


@pytest.fixture
def owner() -> Any:
    return make_user("owner")


@pytest.fixture
def colleague() -> Any:
    return make_user("colleague")


@pytest.fixture
def vc(owner: Any, colleague: Any) -> Any:
    return make_vc("team", quotas={"A100": 8}, members=[owner, colleague])


@pytest.fixture
def app(vc: Any, owner: Any) -> App:
    """Of a job that runs."""
    node = make_node("node-a", gpus=1)
    job = make_job(vc, owner, gpus=0, state=JobState.RUNNING, attempt=1)
    place(job, [], node=node, state=AttemptState.RUNNING)
    return App.objects.create(
        job=job, name="lab", type="jupyterlab", role="worker", port=8888, idle_stop=True
    )


def attempt_of(app: App) -> TaskAttempt:
    return TaskAttempt.objects.get(job=app.job)


def test_a_notebook_is_a_job_made_of_a_template(vc, owner):
    answer = Api(owner).post("/apps", NEW)

    assert answer.status_code == 201, answer.content
    made = answer.json()
    assert (made["type"], made["port"], made["state"], made["idle_stop"]) == (
        *("jupyterlab", 8888, "waiting", True),
    )
    job = Job.objects.get(pk=made["job_id"])
    assert (job.gpus, job.vc.name) == (1, "team")
    assert "jupyter-lab" in job.spec["taskRoles"]["app"]["commands"][0]
    entry = AuditEntry.objects.get(action="app.create")
    assert (entry.target_name, entry.actor_name) == (job.name, "owner")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"image": ""}, "invalid"),
        ({"type": "web"}, "invalid"),
        ({"virtual_cluster": "elsewhere"}, "unknown_virtual_cluster"),
        ({"type": "tensorboard"}, "log_dir_missing"),
        ({"type": "tensorboard", "log_dir": "/mnt/x'; rm -rf /"}, "invalid"),
        ({"gpus": -1}, "invalid"),
        ({"storages": ["nowhere"]}, "storage_not_found"),
    ],
)
def test_a_wrong_request_is_refused_with_a_code(vc, owner, change, code):
    answer = Api(owner).post("/apps", {**NEW, **change})
    assert refusal(answer)[1] == code
    assert not Job.objects.exists()


def test_a_job_file_declares_apps_and_its_mistakes_are_named(vc, owner):
    api = Api(owner)
    apps = [{"name": "board", "type": "tensorboard", "port": 6006, "path": "/#x"}]

    made = api.post("/jobs", job_file(vc, skep={"apps": apps})).json()

    [app] = api.get(f"/jobs/{made['id']}/apps").json()["results"]
    assert (app["name"], app["task_role"], app["idle_stop"]) == ("board", "worker", False)
    wrong = [{"name": "a", "taskRole": "nobody"}, {"name": "a", "type": "shell", "port": 1}]
    errors = api.post("/jobs", job_file(vc, skep={"apps": wrong})).json()["details"]["errors"]
    assert sorted(error["code"] for error in errors) == [
        *("app_port", "app_port", "duplicate_app", "unknown_task_role"),
    ]


def test_a_shared_app_is_seen_by_those_who_may_submit_and_by_no_one_else(app, owner, colleague):
    stranger = make_user("stranger")
    make_vc("elsewhere", members=[stranger])

    assert refusal(Api(colleague).get(f"/apps/{app.pk}")) == (404, "app_not_found")
    assert Api(owner).patch(f"/apps/{app.pk}", {"shared": True}).json()["shared"] is True

    assert Api(colleague).get(f"/apps/{app.pk}").json()["may_share"] is False
    assert refusal(Api(colleague).patch(f"/apps/{app.pk}", {"shared": False})) == (
        *(403, "may_not_share"),
    )
    assert Api(stranger).get("/apps").json()["results"] == []
    assert [a["id"] for a in Api(colleague).get("/apps").json()["results"]] == [str(app.pk)]
    assert Api(colleague).get("/apps", mine="1").json()["results"] == []


@override_settings(SKEP_APPS_URL="https://apps.example.net")
def test_17_a_code_is_for_one_user_app_and_browser_and_works_once(app, owner):
    browser = session(owner)
    answer = browser.post(f"/apps/{app.pk}/open", {"state": STATE})
    url = urlsplit(answer.json()["url"])
    code = parse_qs(url.query)["code"][0]

    assert (url.netloc, url.path) == (f"{app.label}.apps.example.net", "/_skep/login")
    assert services.redeem("another-label", code, STATE) is None
    assert services.redeem(app.label, code, "t" * 40) is None
    token = services.redeem(app.label, code, STATE)
    assert token is not None
    assert services.redeem(app.label, code, STATE) is None
    grant = queries.grant(app.label, services.digest(token))
    assert grant is not None
    assert (grant.user, grant.attempt) == (owner, attempt_of(app))
    assert queries.grant("another-label", services.digest(token)) is None
    assert code not in str(AuditEntry.objects.get(action="app.open").__dict__)


@override_settings(SKEP_APPS_URL="https://apps.example.net")
def test_17_a_code_is_too_late_after_a_minute(app, owner):
    url = session(owner).post(f"/apps/{app.pk}/open", {"state": STATE}).json()["url"]
    AppSession.objects.update(expires_at=timezone.now())
    assert services.redeem(app.label, url.rpartition("=")[2], STATE) is None
    services.tidy()
    assert not AppSession.objects.exists()


@override_settings(SKEP_APPS_URL="https://apps.example.net")
@pytest.mark.parametrize("end", ["logout", "deactivated", "left the virtual cluster"])
def test_20_a_login_at_an_app_ends_with_the_right_to_it(app, owner, vc, end):
    browser = session(owner)
    url = browser.post(f"/apps/{app.pk}/open", {"state": STATE}).json()["url"]
    token = services.redeem(app.label, url.rpartition("=")[2], STATE)
    assert token is not None
    if end == "logout":
        browser.client.logout()
    elif end == "deactivated":
        owner.is_active = False
        owner.save()
    else:
        vc.memberships.filter(user=owner).delete()
    assert queries.grant(app.label, services.digest(token)) is None


def test_a_token_opens_no_browser_and_without_a_domain_there_are_no_apps(app, owner):
    path = f"/apps/{app.pk}/open"
    assert refusal(Api(owner).post(path, {"state": STATE})) == (403, "browser_needed")
    with override_settings(SKEP_APPS_URL=""):
        assert refusal(session(owner).post(path, {"state": STATE})) == (503, "apps_not_configured")
        assert Api(owner).get(f"/apps/{app.pk}").json()["url"] is None


def test_tensorboard_is_attached_to_a_running_job_once_for_a_folder(app, owner, colleague):
    path = f"/jobs/{app.job_id}/apps"
    made = Api(owner).post(path, {"log_dir": "/workspace/runs"}).json()
    again = Api(owner).post(path, {"log_dir": "/workspace/runs"}).json()
    other = Api(owner).post(path, {"log_dir": "/other"}).json()

    assert made["id"] == again["id"]
    assert [(x["name"], x["port"]) for x in (made, other)] == [
        *(("tensorboard", 6006), ("tensorboard-2", 6007)),
    ]
    assert refusal(Api(owner).post(path, {"log_dir": "$(reboot)"})) == (400, "invalid")
    assert refusal(Api(owner).post(path, {"log_dir": "/x", "task_role": "nobody"})) == (
        *(400, "unknown_task_role"),
    )
    assert Api(colleague).post(path, {"log_dir": "/x"}).status_code == 404
    assert AuditEntry.objects.filter(action="app.attach", outcome="done").count() == 2
    Job.objects.update(state=JobState.SUCCEEDED)
    assert refusal(Api(owner).post(path, {"log_dir": "/y"})) == (409, "not_running")


def test_an_app_is_ready_in_the_attempt_in_which_it_answered(app):
    attempt = attempt_of(app)
    assert [found[0].pk for found in watching.claim_starting()] == [app.pk]
    assert watching.claim_starting() == []  # another process looked just now

    services.answered(app, attempt.pk)
    services.answered(app, attempt.pk)

    app.refresh_from_db()
    assert queries.state_of(app, attempt) == "ready"
    assert Event.objects.filter(kind="job.app_ready").count() == 1
    App.objects.update(probed_at=None)
    assert watching.claim_starting() == []
    release(attempt, AttemptState.FAILED)
    again = place(app.job, [], node=attempt.node, state=AttemptState.RUNNING, retry=1)
    assert queries.state_of(app, again) == "starting"
    assert [found[0].pk for found in watching.claim_starting()] == [app.pk]


def test_an_unused_app_is_warned_of_and_then_its_job_is_stopped(app, vc):
    services.answered(app, attempt_of(app).pk)
    assert watching.idle_candidates() == []  # the virtual cluster has no rule
    limits.set_limit(None, vc, "app_idle_minutes", 60)

    def idle(minutes: int) -> list[App]:
        moment = timezone.now() - timedelta(minutes=minutes)
        App.objects.update(ready_at=moment, created_at=moment, active_at=moment)
        return [found[0] for found in watching.idle_candidates()]

    assert idle(45) == []
    [warned] = idle(51)
    services.warn_idle(warned, 51, 9)
    services.warn_idle(warned, 51, 9)
    event = Event.objects.get(kind="job.app_idle")
    assert event.message.startswith("App lab has not been used for 51 minutes: the job will be")
    services.used(app.pk)
    app.refresh_from_db()
    assert app.warned_at is None
    assert services.stop_idle(app, 60) is False
    assert watching.idle_candidates() == []

    [unused] = idle(61)
    assert services.stop_idle(unused, 60) is True

    job = Job.objects.get(pk=app.job_id)
    assert job.stop_requested_at is not None
    assert job.exit_reason["code"] == "app_idle"
