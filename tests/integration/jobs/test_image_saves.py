"""Containers that are saved as images: who may ask, and what nodes are sent and report."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone
from tests.support.gateway_server import wait_until
from tests.support.jobs_world import attempts_of, placed, report
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user

from skep_agent.protocol import ImageSaveReport, ImageSaves
from skep_platform.accounts.models import User
from skep_platform.core.models import Event
from skep_platform.images import credentials, rules
from skep_platform.jobs import image_saves
from skep_platform.jobs.image_saves import ImageSave
from skep_platform.jobs.models import Job, TaskAttempt
from skep_platform.notifications import collecting, preferences
from skep_platform.notifications.models import Delivery
from skep_platform.tenancy import limits

pytestmark = pytest.mark.django_db
MINE = "registry.example.org/ann/env:1"
PASSWORD = "hunter2-push"


@pytest.fixture(autouse=True)
def _fresh():
    image_saves.nodes_with_work.forget()
    yield
    image_saves.nodes_with_work.forget()


@pytest.fixture
def node(vc):
    return make_node("gpu-1", gpus=8)


@pytest.fixture
def ann(vc):
    user = make_user("ann")
    vc.memberships.create(user=user, role="member")
    return user


@pytest.fixture
def job(vc, node, ann) -> Job:
    """Its two tasks run, its virtual cluster allows it, and ann may push."""
    limits.set_limit(None, vc, "save_image_mb", 1024)
    credentials.store(ann, "registry.example.org", "ann", PASSWORD)
    job = placed(ann, vc, instances=2)
    report(attempts_of(job), "ready", "running")
    return Job.objects.get(pk=job.pk)


def save(user, job: Job, reference: str = MINE, rank: int = 0):
    return Api(user).post(f"/jobs/{job.pk}/image-saves", {"reference": reference, "rank": rank})


def frame(node) -> ImageSaves:
    image_saves.nodes_with_work.forget()
    return ImageSaves.model_validate_json(image_saves.frame(node.pk))


def said(made: dict, state: str, **fields) -> ImageSaveReport:
    return ImageSaveReport.model_validate({"save_id": made["id"], "state": state} | fields)


def listed(user, job: Job) -> list[dict]:
    return Api(user).get(f"/jobs/{job.pk}/image-saves").json()["results"]


def test_the_node_gets_the_attempt_the_limit_the_rules_and_the_credential_of_who_asked(
    ann, job, node, vc
):
    rules.replace(vc, ["registry.example.org/*"])
    made = save(ann, job, rank=1)
    assert made.status_code == 201, made.content
    assert PASSWORD.encode() not in made.content
    shown = made.json()
    assert (shown["state"], shown["task"], shown["reference"]) == ("WAITING", "worker-1", MINE)
    (spec,) = frame(node).saves
    attempt = TaskAttempt.objects.get(job=job, task__rank=1)
    assert (spec.attempt_id, spec.epoch) == (str(attempt.pk), attempt.epoch)
    assert (spec.image.reference, spec.image.username, spec.image.password) == (
        MINE,
        "ann",
        PASSWORD,
    )
    assert spec.max_bytes == 1024 * 1024**2
    assert spec.image_patterns == ["registry.example.org/*"]
    assert PASSWORD not in repr(spec)
    assert PASSWORD not in str([*ImageSave.objects.values_list(), *Event.objects.values_list()])
    assert frame(make_node("gpu-2")).saves == []


def test_the_end_is_shown_on_the_job_and_the_image_is_offered_to_who_saved_it(ann, job, node):
    made, other = save(ann, job).json(), make_node("gpu-2")
    image_saves.apply_reports(other.pk, [said(made, "done", digest="sha256:forged")])
    image_saves.apply_reports(node.pk, [said(made, "pushing", percent=40)])
    (row,) = listed(ann, job)
    assert (row["state"], row["percent"], row["ended_at"]) == ("PUSHING", 40, None)
    assert Api(ann).get("/me/saved-images").json()["results"] == []
    done = said(made, "done", percent=100, digest="sha256:" + "a" * 64, size=4096)
    image_saves.apply_reports(node.pk, [done])
    image_saves.apply_reports(node.pk, [said(made, "failed", message="late")])
    (row,) = listed(ann, job)
    assert (row["state"], row["digest"], row["size"]) == ("DONE", "sha256:" + "a" * 64, 4096)
    assert row["ended_at"] is not None
    assert frame(node).saves == []
    (offered,) = Api(ann).get("/me/saved-images").json()["results"]
    assert (offered["reference"], offered["job_name"]) == (MINE, job.name)
    assert Api(make_user("bob")).get("/me/saved-images").json()["results"] == []
    messages = [one["message"] for one in Api(ann).get(f"/jobs/{job.pk}/events").json()["results"]]
    assert f"worker-0 was saved as the image {MINE}." in messages


def test_a_failure_says_why_and_the_task_can_be_saved_again(ann, job, node):
    made = save(ann, job).json()
    assert refusal(save(ann, job)) == (409, "save_under_way")
    why = {"code": "save_has_secret", "message": "The file /root/x holds\0 a secret."}
    image_saves.apply_reports(node.pk, [said(made, "failed", **why)])
    (row,) = listed(ann, job)
    assert (row["state"], row["code"]) == ("FAILED", "save_has_secret")
    assert row["message"] == "The file /root/x holds a secret."
    assert save(ann, job).status_code == 201


def cancel(user, made: dict):
    return Api(user).send("DELETE", f"/image-saves/{made['id']}")


def test_a_save_is_cancelled_and_the_node_gives_it_up(ann, job, node):
    made = save(ann, job).json()
    assert [one.save_id for one in frame(node).saves] == [made["id"]]
    assert cancel(ann, made).status_code == 204
    assert frame(node).saves == []
    image_saves.apply_reports(node.pk, [said(made, "done", digest="sha256:late")])
    (row,) = listed(ann, job)
    assert (row["state"], row["code"], row["digest"]) == ("FAILED", "save_cancelled", "")
    assert row["message"] == "ann cancelled it."
    assert refusal(cancel(ann, made)) == (409, "save_ended")
    assert save(ann, job).status_code == 201
    assert notified(ann) == []  # of what one did oneself


def test_who_may_look_in_may_cancel_and_who_asked_is_notified(ann, job, vc):
    boss, vc_admin, stranger = make_user("root", admin=True), make_user("eve"), make_user("bob")
    vc.memberships.create(user=vc_admin, role="admin")
    made = save(ann, job).json()
    assert refusal(cancel(stranger, made)) == (404, "not_found")
    assert refusal(cancel(vc_admin, made)) == (403, "may_not_save")
    assert cancel(boss, made).status_code == 204
    assert notified(ann) == [f"Image {MINE} was not saved"]
    assert notified(boss) == []


def test_a_save_of_a_deleted_job_is_cancelled_by_who_asked_alone(ann, job):
    made = save(ann, job).json()
    ImageSave.objects.update(job=None)
    assert refusal(cancel(make_user("root", admin=True), made)) == (404, "not_found")
    assert cancel(ann, made).status_code == 204


def notified(user) -> list[str]:
    collecting.collect()
    rows = Api(user).get("/notifications").json()["results"]
    return [row["title"] for row in reversed(rows) if row["event"].startswith("job.image")]


def test_who_asked_is_notified_of_the_end_by_the_channels_that_were_chosen(
    ann, job, node, vc, settings
):
    settings.EMAIL_HOST = "127.0.0.1"
    User.objects.filter(pk=ann.pk).update(email="ann@example.org")
    preferences.update(ann, {"job.image_saved": {"email": True}})
    credentials.store(vc, "registry.example.org", "robot", "of-the-vc")
    boss = make_user("root", admin=True)
    mine, others = save(ann, job).json(), save(boss, job, rank=1).json()
    image_saves.apply_reports(node.pk, [said(mine, "done"), said(others, "failed", message="x")])
    assert notified(ann) == [f"Image {MINE} was saved"]
    assert notified(boss) == [f"Image {MINE} was not saved"]  # though it is the job of ann
    mails = Delivery.objects.filter(channel="email").values_list("user__username", "event")
    assert list(mails) == [("ann", "job.image_saved")]
    (item,) = Api(ann).get("/notifications").json()["results"][0]["items"]
    assert item["message"] == f"worker-0 was saved as the image {MINE}."
    assert item["url"] == f"/jobs/{job.pk}"


def test_only_who_may_look_into_the_containers_may_save_them(ann, job, vc):
    colleague, vc_admin = make_user("bob"), make_user("eve")
    vc.memberships.create(user=colleague, role="member")
    vc.memberships.create(user=vc_admin, role="admin")
    credentials.store(vc, "registry.example.org", "robot", "of-the-vc")
    assert refusal(save(colleague, job)) == (404, "not_found")
    assert refusal(save(vc_admin, job)) == (403, "may_not_save")
    assert refusal(Api(vc_admin).get(f"/jobs/{job.pk}/image-saves")) == (403, "may_not_save")
    assert save(make_user("root", admin=True), job).status_code == 201


def test_a_virtual_cluster_allows_none_unless_it_says_so(ann, job, vc):
    limits.reset_limit(None, vc, "save_image_mb")
    assert refusal(save(ann, job)) == (403, "saving_not_allowed")
    assert not ImageSave.objects.exists()


def test_a_limit_that_is_withdrawn_and_a_credential_that_is_removed_reach_the_node(
    ann, job, node, vc
):
    save(ann, job)
    limits.reset_limit(None, vc, "save_image_mb")
    credentials.remove(ann, "registry.example.org")
    (spec,) = frame(node).saves
    assert (spec.max_bytes, spec.image.username) == (0, "")  # the agent refuses both


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("registry.example.org/ann/env", "reference_invalid"),  # no tag
        ("registry.example.org:5000/ann/env", "reference_invalid"),
        ("registry.example.org/ann/env@sha256:" + "a" * 64, "reference_invalid"),
        ("registry.example.org/Ann/ENV:1", "reference_invalid"),
        ("10.0.0.1/ann/env:1", "registry_not_allowed"),
        ("other.example.org/ann/env:1", "credential_missing"),
        ("ann/env:1", "credential_missing"),  # of Docker Hub
    ],
)
def test_a_name_that_cannot_be_pushed_is_refused_with_what_to_do(ann, job, reference, code):
    assert refusal(save(ann, job, reference)) == (400, code)


def test_the_rules_for_images_hold_for_the_new_name(ann, job, vc):
    rules.replace(vc, ["vision/*"])
    assert refusal(save(ann, job)) == (400, "image_not_allowed")


def test_a_task_that_does_not_run_or_does_not_exist_is_not_saved(ann, job):
    attempts = attempts_of(job)
    report(attempts[0], "exited", exit_code=0)
    assert refusal(save(ann, job)) == (409, "not_running")
    assert refusal(save(ann, job, rank=7)) == (404, "not_found")


@pytest.mark.django_db(transaction=True)
def test_two_who_ask_at_once_get_one_save_and_one_conflict(ann, job, vc):
    """The second one does not see the first one yet, and waits for its end."""
    boss = make_user("root", admin=True)
    credentials.store(vc, "registry.example.org", "robot", "of-the-vc")
    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = image_saves.request(ann, job.pk, 0, MINE)
            second = pool.submit(in_thread, boss, job)
            wait_until(lambda: second.done() or is_waiting(), "the second one waits")
        assert refusal(second.result()) == (409, "save_under_way")
    assert [one["id"] for one in listed(ann, job)] == [str(first.pk)]


def in_thread(user, job):
    try:
        return save(user, job)
    finally:
        connection.close()


def is_waiting() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_locks"  # pg_stat_activity keeps to a first look
            " WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid)))"
        )
        return cursor.fetchone()[0]


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_superuser": False}])
def test_who_may_not_save_any_more_is_left_out_and_the_save_ends(ann, job, node, vc, change):
    credentials.store(vc, "registry.example.org", "robot", "of-the-vc")
    boss = make_user("root", admin=True)
    made = save(boss, job).json()
    assert save(ann, job, rank=1).status_code == 201
    assert len(frame(node).saves) == 2
    User.objects.filter(pk=boss.pk).update(**change)
    assert [one.image.username for one in frame(node).saves] == ["ann"]
    image_saves.tidy()
    rows = {row["id"]: (row["state"], row["code"]) for row in listed(ann, job)}
    assert rows.pop(made["id"]) == ("FAILED", "may_not_save")
    assert list(rows.values()) == [("WAITING", "")]


def test_the_save_of_an_owner_who_was_deactivated_ends_and_one_without_a_job(ann, job, node):
    for rank in (0, 1):
        assert save(ann, job, rank=rank).status_code == 201
    image_saves.tidy()
    assert ImageSave.objects.filter(state="WAITING").count() == 2
    ImageSave.objects.filter(task="worker-1").update(job=None)
    image_saves.tidy()
    assert ImageSave.objects.get(state="FAILED").task == "worker-1"
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert frame(node).saves == []
    image_saves.tidy()
    assert ImageSave.objects.filter(state="FAILED", code="may_not_save").count() == 2


def test_a_save_whose_job_was_deleted_meanwhile_ends_without_an_event(ann, job, node):
    made = save(ann, job).json()
    ImageSave.objects.update(job=None)  # as the deletion of a job leaves it
    before = Event.objects.filter(subject_type="job").count()
    image_saves.apply_reports(node.pk, [said(made, "failed", message="gone")])
    assert ImageSave.objects.get().state == "FAILED"
    assert Event.objects.filter(subject_type="job").count() == before


def test_there_are_only_so_many_at_a_time_and_a_day(ann, job, monkeypatch):
    monkeypatch.setattr(image_saves, "MAX_OPEN", 1)
    assert save(ann, job).status_code == 201
    assert refusal(save(ann, job, rank=1)) == (409, "too_many_saves")
    ImageSave.objects.update(state="DONE")
    monkeypatch.setattr(image_saves, "MAX_A_DAY", 1)
    assert refusal(save(ann, job, rank=1)) == (409, "too_many_saves")
    ImageSave.objects.update(created_at=timezone.now() - timedelta(days=2))
    assert save(ann, job, rank=1).status_code == 201


def test_one_that_its_node_forgot_ends_and_old_ones_are_deleted(ann, job, node):
    made = save(ann, job).json()
    ImageSave.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert frame(node).saves == []
    image_saves.tidy()
    (row,) = listed(ann, job)
    assert (row["id"], row["state"], row["code"]) == (made["id"], "FAILED", "save_timeout")
    ImageSave.objects.update(created_at=timezone.now() - image_saves.KEPT - timedelta(days=1))
    image_saves.tidy()
    assert not ImageSave.objects.exists()


def test_the_frame_of_a_node_takes_the_same_queries_for_one_save_and_for_two(
    ann, job, node, django_assert_num_queries
):
    for rank in (0, 1):
        assert save(ann, job, rank=rank).status_code == 201
        image_saves.nodes_with_work.forget()
        assert node.pk in image_saves.nodes_with_work()
        with django_assert_num_queries(4):
            image_saves.frame(node.pk)
