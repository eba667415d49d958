"""From what happens to a job to what its owner gets."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.clocks import every_clock_at
from tests.support.jobs_world import attempts_of, explain, job_file, placed, report, submit, tick
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.accounts.models import User
from skep_platform.cluster import announcements
from skep_platform.core.events import notify
from skep_platform.core.models import Event
from skep_platform.jobs import services as jobs
from skep_platform.jobs.lifecycle import preempting
from skep_platform.notifications import collecting, preferences, services
from skep_platform.notifications.models import Delivery, Notification
from skep_platform.usage import budgets
from skep_platform.usage.models import Budget

pytestmark = pytest.mark.django_db

OOM_LOG = b"step 1\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB\n"


@pytest.fixture(autouse=True)
def mail_is_set_up(settings):
    settings.EMAIL_HOST = "127.0.0.1"


@pytest.fixture
def alice():
    return make_user("alice", email="alice@example.org")


def titles(user: User) -> list[str]:
    rows = Api(user).get("/notifications").json()["results"]
    return [row["title"] for row in reversed(rows)]


def mails(user: User) -> list[tuple[str, int]]:
    return list(Delivery.objects.filter(user=user, channel="email").values_list("event", "count"))


def choose(user: User, event: str, **channels: bool) -> None:
    preferences.update(user, {event: channels})
    user.refresh_from_db()


def silence(user: User) -> None:
    """Switch everything off that can be."""
    preferences.update(
        user,
        {
            one.name: {c: False for c in one.channels if c not in one.always}
            for one in preferences.USER_EVENTS
        },
    )


def finish(job, exit_code: int = 0) -> None:
    report(attempts_of(job), "running", "exited", exit_code=exit_code)
    report(attempts_of(job), "released")


class TestJobs:
    def test_a_failed_job_is_reported_with_its_diagnosis_and_the_line_of_its_log(
        self, alice, vc, node
    ):
        job = placed(alice, vc, name="train")
        finish(job, exit_code=1)
        assert explain(job, OOM_LOG)
        assert collecting.collect() == 1
        (row,) = Api(alice).get("/notifications").json()["results"]
        assert row["title"] == "Job train failed"
        (item,) = row["items"]
        assert "memory" in item["message"]
        assert item["log_line"].startswith("RuntimeError: CUDA out of memory")
        assert item["url"] == f"/jobs/{job.pk}"
        assert mails(alice) == [("job.failed", 1)]

    def test_an_event_is_reported_once_however_often_the_task_runs(self, alice, vc, node):
        finish(placed(alice, vc))
        assert [collecting.collect() for _ in range(3)] == [1, 0, 0]
        assert Notification.objects.get().count == 1

    def test_what_is_reported_without_a_choice(self, alice, vc, node):
        finish(placed(alice, vc, name="good"))
        preempted = placed(alice, vc, name="moved")
        report(attempts_of(preempted), "running")
        preempting.evict([preempted.pk], "Node gpu-1 is being drained.", timezone.now())
        collecting.collect()
        assert titles(alice) == ["Job good succeeded", "Job moved was preempted"]
        assert mails(alice) == []

    def test_a_job_that_its_owner_stopped_is_no_news_and_one_that_another_stopped_is(
        self, alice, vc, admin
    ):
        own, others = submit(alice, vc, name="own"), submit(alice, vc, name="others")
        jobs.stop(alice, own.pk)
        jobs.stop(admin.user, others.pk)
        collecting.collect()
        assert titles(alice) == ["Job others was stopped"]

    def test_five_hundred_failures_are_one_notification_and_one_mail(self, alice, vc):
        made = [make_job(vc, alice, name=f"sweep-{n}", state="FAILED") for n in range(500)]
        for job in made[:300]:
            notify("job.failed", "job", job.pk, "Failed.")
        collecting.collect()
        for job in made[300:]:
            notify("job.failed", "job", job.pk, "Failed.")
        collecting.collect()
        assert titles(alice) == ["500 jobs failed"]
        assert mails(alice) == [("job.failed", 500)]
        assert len(Notification.objects.get().items) == 50

    def test_the_number_of_queries_does_not_depend_on_that_of_events(self, alice, vc):
        def collected(number: int) -> int:
            for _ in range(number):
                notify("job.failed", "job", make_job(vc, alice).pk, "Failed.")
            with CaptureQueriesContext(connection) as captured:
                assert collecting.collect() == number
            return len(captured)

        collected(1)
        assert collected(2) == collected(100)


class TestNoCost:
    def lifecycle(self, user: User, vc) -> list[str]:
        """The statements of a job from its submit to its end, but for the scheduler's."""
        with CaptureQueriesContext(connection) as submitted:
            job = submit(user, vc)
        tick()
        with CaptureQueriesContext(connection) as ended:
            finish(job)
        return [q["sql"] for q in (*submitted, *ended)]

    def shortest(self, user: User, vc) -> list[str]:
        """Of two jobs, because a cache may run out in between."""
        return min((self.lifecycle(user, vc) for _ in range(2)), key=len)

    def test_a_job_costs_no_statement_more_whether_its_owner_wants_everything_or_nothing(
        self, alice, vc, node
    ):
        self.lifecycle(alice, vc)  # fills caches
        by_default = self.shortest(alice, vc)
        silence(alice)
        collecting.collect()
        wanting_nothing = self.shortest(alice, vc)
        assert not Event.objects.filter(notify=True).exists()
        for one in preferences.USER_EVENTS:
            choose(alice, one.name, **dict.fromkeys(one.channels, True))
        wanting_all = self.shortest(alice, vc)
        assert Event.objects.filter(notify=True).count() == 4  # started, succeeded
        assert len(by_default) == len(wanting_nothing) == len(wanting_all)
        assert not [sql for sql in wanting_all if "notifications_" in sql]


class TestJobFiles:
    def test_job_status_change_notification_of_openpai_is_honoured(self, alice, vc, node):
        silence(alice)
        file = job_file(vc, name="asked")
        file["extras"]["jobStatusChangeNotification"] = {"running": True, "succeeded": True}
        job = jobs.submit(alice, json.dumps(file))
        tick()
        finish(job)
        finish(placed(alice, vc, name="not-asked"))
        collecting.collect()
        assert titles(alice) == ["Job asked started", "Job asked succeeded"]
        assert sorted(mails(alice)) == [("job.started", 1), ("job.succeeded", 1)]


class TestOthers:
    def test_vc_admins_are_notified_of_a_budget_and_members_are_not(self, alice):
        boss = make_user("boss", email="boss@example.org")
        vc = make_vc("red", members=[alice], vc_admins=[boss])
        Budget.objects.create(vc=vc, gpu_hours=0, month=budgets.month_of(timezone.now()))
        budgets.refresh()
        budgets.refresh()
        collecting.collect()
        assert titles(boss) == ["The GPU-hour budget of red is used up"]
        assert mails(boss) == [("budget.used_up", 1)]
        assert titles(alice) == []

    def test_announcements_go_by_mail_to_those_who_asked_for_it(self, alice, admin):
        make_user("bob", email="bob@example.org")
        choose(alice, "announcement.created", email=True)
        announcements.create(admin.user, "Maintenance on Monday.")
        collecting.collect()
        row = Delivery.objects.get()
        assert (row.user, row.items[0]["message"]) == (alice, "Maintenance on Monday.")
        assert not Notification.objects.exists()

    def test_an_announcement_is_dismissed_by_each_user_alone(self, alice, admin):
        made = announcements.create(admin.user, "Maintenance on Monday.")
        api = Api(alice)
        for _ in range(2):
            assert api.put(f"/announcements/{made.pk}/dismissal").status_code == 204
        shown = [a.get("/announcements").json()["results"][0]["dismissed"] for a in (api, admin)]
        assert shown == [True, False]

    def test_a_job_that_waits_for_long_is_reported_once(self, alice, vc):
        job = make_job(vc, alice, name="patient")
        make_job(vc, alice, name="running", state="RUNNING", placed_at=timezone.now())
        assert services.remind_of_waiting() == 0
        with time_machine.travel(timezone.now() + timedelta(hours=7)):
            assert [services.remind_of_waiting() for _ in range(2)] == [1, 0]
            collecting.collect()
        assert titles(alice) == ["Job patient still waits"]
        choose(alice, "job.waiting_long", in_page=False)
        Event.objects.filter(subject_id=str(job.pk)).delete()
        with time_machine.travel(timezone.now() + timedelta(hours=7)):
            assert services.remind_of_waiting() == 0

    def test_a_key_records_an_event_once(self, alice, vc):
        job = make_job(vc, alice)
        done = [notify("job.idle", "job", job.pk, "Idle.", key="1:warned") for _ in range(2)]
        done.append(notify("job.idle", "job", job.pk, "Idle.", key="2:warned"))
        assert done == [True, False, True]

    def test_who_is_deactivated_gets_nothing(self, alice, vc):
        notify("job.failed", "job", make_job(vc, alice).pk, "Failed.")
        User.objects.filter(pk=alice.pk).update(is_active=False)
        assert collecting.collect() == 1
        assert not Notification.objects.exists()
        assert not Delivery.objects.exists()

    def test_very_many_mails_become_one_an_hour(self, alice, vc, settings):
        settings.SKEP_MAILS_PER_HOUR = 3
        for _ in range(3):
            Delivery.objects.create(
                user=alice,
                channel="email",
                event="job.failed",
                items=[],
                state="sent",
                due_at=timezone.now(),
            )
        notify("job.failed", "job", make_job(vc, alice).pk, "Failed.")
        collecting.collect()
        due = Delivery.objects.get(state="pending").due_at
        assert due > timezone.now() + timedelta(minutes=55)

    def test_what_is_old_is_deleted(self, alice, vc):
        notify("job.failed", "job", make_job(vc, alice).pk, "Failed.")
        collecting.collect()
        assert services.delete_old() == 0
        with every_clock_at(timezone.now() + timedelta(days=31)):
            assert services.delete_old() == 2
        assert not Notification.objects.exists()


def test_an_event_that_cannot_be_read_keeps_no_other_one_from_being_notified(alice, vc):
    Event.objects.create(
        subject_type="vc", subject_id="no id", kind="budget.warning", message="?", notify=True
    )
    notify("job.failed", "job", make_job(vc, alice, name="train").pk, "Failed.")
    assert collecting.collect() == 2
    assert Notification.objects.get(user=alice).count == 1
    assert collecting.collect() == 0
