"""Rules of administrators: what they look for, what they do, and who is notified."""

from __future__ import annotations

import ipaddress
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
import time_machine
from django.core.cache import cache
from django.utils import timezone
from tests.support.alert_rules import idle_job, rule, running_job, sent, sicken
from tests.support.jobs_world import attempts_of
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user
from tests.support.receivers import http_receiver

from skep_platform.cluster.models import Device, Node
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job
from skep_platform.notifications import collecting, delivering
from skep_platform.notifications.models import Delivery
from skep_platform.operations import conditions, doctor, rules
from skep_platform.operations.doctor.findings import Finding, error, ok, warning
from skep_platform.operations.doctor.network import Certificate
from skep_platform.operations.models import Alert, AlertRule, RuleKind
from skep_platform.telemetry.models import GpuRollup

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_other_rules() -> None:
    AlertRule.objects.all().delete()
    cache.delete_many(
        [conditions.CERTIFICATES_KEY, conditions.LAST_CERTIFICATES_KEY, conditions.DOCTOR_KEY]
    )


def test_a_cache_that_fails_keeps_no_rule_from_being_evaluated(monkeypatch):
    def fail(*_: Any, **__: Any) -> Any:
        raise redis.ConnectionError("MISCONF")

    monkeypatch.setattr(conditions.cache, "get", fail)
    monkeypatch.setattr(conditions.cache, "set", fail)
    found = Certificate("public address", "skep.example.org", 443, None, "expired.")
    monkeypatch.setattr(conditions.network, "certificates", lambda: [found])
    rule("certificate")
    rule("bad_node")
    sicken(make_node("sick"))
    rules.evaluate()
    assert Alert.objects.count() == 2


def test_a_rule_that_fails_keeps_no_other_one_from_being_evaluated(monkeypatch):
    def fail() -> Any:
        raise OSError("no file of certificates")

    monkeypatch.setattr(conditions.network, "certificates", fail)
    rule("certificate")
    rule("bad_node")
    sicken(make_node("sick"))
    with pytest.raises(OSError, match="no file of certificates"):
        rules.evaluate()
    assert [alert.rule.kind for alert in Alert.objects.all()] == ["bad_node"]


class TestAlerts:
    def test_a_worker_with_an_older_reading_changes_nothing_after_one_with_a_newer(
        self, monkeypatch
    ):
        boss, node = make_user("boss", admin=True), make_node("sick")
        rule("bad_node")
        read, others = conditions.find, []

        def slow(of: AlertRule) -> Any:
            """Return what was read before another worker evaluated the rule."""
            met = read(of)
            if not others:
                others.append(True)
                sicken(node)
                rules.evaluate()
            return met

        monkeypatch.setattr(conditions, "find", slow)
        rules.evaluate()
        assert Alert.objects.get().ended_at is None
        assert sent(boss) == ["1 GPUs of node sick are bad."]

    def test_is_raised_by_a_database_whose_clock_is_behind_that_of_the_one_before(self):
        sicken(make_node("sick"))
        made = rule("bad_node")
        later = timezone.now() + timedelta(hours=1)
        AlertRule.objects.filter(pk=made.pk).update(evaluated_at=later)
        rules.evaluate()
        assert Alert.objects.get().rule_id == made.pk

    def test_fires_notifies_once_and_says_when_it_is_over(self):
        boss, other = make_user("boss", admin=True), make_user("other")
        node = make_node("sick")
        rule("bad_node", recipients=["boss"])
        sicken(node)
        for _ in range(3):
            rules.evaluate()
        assert sent(boss) == ["1 GPUs of node sick are bad."]
        assert sent(other) == []
        Device.objects.update(health="HEALTHY")
        rules.evaluate()
        assert sent(boss)[-1] == "Over: 1 GPUs of node sick are bad."
        (alert,) = Alert.objects.all()
        assert alert.ended_at is not None
        sicken(node)
        rules.evaluate()
        assert Alert.objects.filter(ended_at=None).count() == 1

    def test_without_recipients_all_admins_are_notified(self):
        boss = make_user("boss", admin=True)
        rule("bad_node")
        sicken(make_node("sick"))
        rules.evaluate()
        assert sent(boss) == ["1 GPUs of node sick are bad."]

    def test_goes_by_mail_to_who_has_an_address(self, settings):
        settings.EMAIL_HOST = "mail.example.org"
        boss = make_user("boss", admin=True, email="boss@example.org")
        rule("bad_node")
        sicken(make_node("sick"))
        rules.evaluate()
        collecting.collect()
        (mail,) = Delivery.objects.filter(user=boss)
        assert (mail.channel, mail.event) == ("email", "platform.alert")

    def test_goes_to_the_webhook_of_who_has_one(self, settings):
        settings.SKEP_WEBHOOK_NETWORKS = [ipaddress.ip_network("127.0.0.0/8")]
        boss = make_user("boss", admin=True)
        with http_receiver() as pager:
            made = Api(boss).post("/webhooks", {"name": "pager", "url": pager.url("/hook")})
            assert made.status_code == 201
            rule("bad_node")
            sicken(make_node("sick"))
            rules.evaluate()
            collecting.collect()
            with time_machine.travel(timezone.now() + timedelta(minutes=2)):
                assert delivering.deliver("webhook") == 1
        (request,) = pager.requests
        said = json.loads(request.body)
        assert (said["event"], said["count"]) == ("platform.alert", 1)
        assert "1 GPUs of node sick are bad." in request.body.decode()

    def test_waits_for_its_minutes_and_forgets_what_passed_before(self):
        rule("bad_node", for_minutes=5)
        sicken(make_node("sick"))
        rules.evaluate()
        assert Alert.objects.get().fired_at is None
        Alert.objects.update(created_at=timezone.now() - timedelta(minutes=6))
        rules.evaluate()
        assert Alert.objects.get().fired_at is not None
        Alert.objects.update(fired_at=None)
        Device.objects.update(health="HEALTHY")
        rules.evaluate()
        assert not Alert.objects.exists()
        assert not Event.objects.filter(kind="platform.alert_over").exists()

    def test_a_disabled_rule_does_nothing(self):
        rule("bad_node", enabled=False)
        sicken(make_node("sick"))
        rules.evaluate()
        assert not Alert.objects.exists()

    def test_any_number_of_nodes_costs_the_same(self, django_assert_max_num_queries):
        boss = make_user("boss", admin=True)
        rule("bad_node", recipients=[boss.username])
        for number in range(20):
            sicken(make_node(f"n{number}", gpus=1))
        with django_assert_max_num_queries(16):
            rules.evaluate()
        assert Alert.objects.filter(fired_at__isnull=False).count() == 20


class TestActions:
    def test_a_bad_node_is_cordoned_and_the_last_one_stays(self):
        for name in ("a", "b"):
            sicken(make_node(name), 2)
        rule("bad_node", threshold=2, action="cordon")
        rules.evaluate()
        acted = {a.subject: a.acted for a in Alert.objects.all()}
        assert acted == {
            "a": "The node was cordoned.",
            "b": "It was not cordoned, as no other node could take work.",
        }
        node = Node.objects.get(name="a")
        assert (node.cordoned, node.cordon_reason) == (
            True,
            "Rule bad_node: 2 GPUs of node a are bad.",
        )

    def test_an_idle_job_is_stopped(self, alice, vc):
        job = idle_job(alice, vc)
        rule("idle_gpus", for_minutes=10, action="stop")
        rules.evaluate()
        job.refresh_from_db()
        assert job.exit_reason["code"] == "idle"
        assert Alert.objects.get().acted == "The job was stopped."

    def test_an_exempt_job_is_left_alone(self, alice, vc):
        job = idle_job(alice, vc)
        Job.objects.filter(pk=job.pk).update(idle_exempt=True)
        rule("idle_gpus", for_minutes=10, action="stop")
        rules.evaluate()
        assert not Alert.objects.exists()


class TestConditions:
    @pytest.mark.parametrize(
        ("percent", "minutes", "found"),
        [(1.0, 12, True), (50.0, 12, False), (1.0, 5, False)],
        ids=["idle", "busy", "too young"],
    )
    def test_idle_gpus(self, alice, vc, percent, minutes, found):
        job = idle_job(alice, vc, percent, minutes)
        expected = {str(job.pk)} if found else set()
        assert conditions.find(rule("idle_gpus", for_minutes=10)).keys() == expected

    def test_idle_gpus_needs_samples(self, alice, vc):
        job = idle_job(alice, vc)
        GpuRollup.objects.filter(device_id=attempts_of(job)[0].gpu_uuids[0]).delete()
        assert conditions.find(rule("idle_gpus", for_minutes=10)) == {}

    def test_a_node_that_is_away(self):
        node = make_node("gone")
        long_ago = timezone.now() - timedelta(minutes=11)
        Node.objects.filter(pk=node.pk).update(state="UNREACHABLE", last_heartbeat_at=long_ago)
        make_node("here")
        assert conditions.find(rule("node_away")).keys() == {"gone"}

    @pytest.mark.parametrize(("until_h", "found"), [(1, set()), (-1, {"gone"})])
    def test_a_node_is_not_missed_during_its_maintenance(self, until_h, found):
        node, now = make_node("gone"), timezone.now()
        sicken(node)
        Node.objects.filter(pk=node.pk).update(
            maintenance_from=now - timedelta(hours=2),
            maintenance_until=now + timedelta(hours=until_h),
        )
        assert conditions.find(rule("bad_node")).keys() == found
        Node.objects.filter(pk=node.pk).update(disk_free_mb=1, disk_total_mb=100_000)
        assert conditions.find(rule("full_disk")).keys() == found
        Node.objects.filter(pk=node.pk).update(
            state="UNREACHABLE", last_heartbeat_at=now - timedelta(hours=2)
        )
        assert conditions.find(rule("node_away")).keys() == found

    def test_jobs_that_do_not_begin_or_do_not_end(self, alice, vc):
        job = running_job(alice, vc, 1)
        stuck = rule("stuck_job")
        assert conditions.find(stuck) == {}
        long_ago = timezone.now() - timedelta(hours=2)
        Job.objects.filter(pk=job.pk).update(placed_at=long_ago, begun_at=None)
        assert "has not begun" in conditions.find(stuck)[str(job.pk)].message
        Job.objects.filter(pk=job.pk).update(begun_at=long_ago)
        assert conditions.find(stuck) == {}
        asked = timezone.now() - timedelta(hours=1, minutes=1)
        Job.objects.filter(pk=job.pk).update(
            state="STOPPING", stop_requested_at=asked, updated_at=timezone.now()
        )
        message = conditions.find(stuck)[str(job.pk)].message
        assert message.endswith(f"does not end since {asked.astimezone(UTC):%d %b %H:%M} UTC.")

    def test_full_disks(self, monkeypatch):
        node = make_node("full")
        Node.objects.filter(pk=node.pk).update(disk_free_mb=1_000, disk_total_mb=100_000)
        store = conditions.readings.Store("local", 1, 100)
        monkeypatch.setattr(conditions.readings, "store", lambda: store)
        found = conditions.find(rule("full_disk", threshold=98))
        assert {s: m.details["used_percent"] for s, m in found.items()} == {
            "log store": 99.0,
            "full": 99.0,
        }

    def test_certificates_by_address_are_read_once_an_hour(self, monkeypatch):
        soon = datetime.now(UTC) + timedelta(days=3)
        read = []

        def certificates() -> list[Certificate]:
            read.append(1)
            return [
                Certificate("gateway", "skep.example.org", 8443, soon, ""),
                Certificate("public address", "skep.example.org", 443, None, "expired."),
                Certificate("apps", "x.example.net", 443, soon + timedelta(days=90), ""),
                Certificate("directory", "ldap.example.org", 636, None, "", "timed out"),
            ]

        monkeypatch.setattr(conditions.network, "certificates", certificates)
        made = rule("certificate", threshold=14)
        for _ in range(2):
            found = conditions.find(made)
        assert found.keys() == {"skep.example.org:8443", "skep.example.org"}
        assert len(read) == 1

    def test_a_certificate_that_cannot_be_read_for_a_while_stays_as_it_was(self, monkeypatch):
        soon = datetime.now(UTC) + timedelta(days=3)
        made = rule("certificate", threshold=14)
        for expires, unread in ((soon, ""), (None, "timed out")):
            found = [Certificate("gateway", "skep.example.org", 443, expires, "", unread)]
            monkeypatch.setattr(conditions.network, "certificates", lambda found=found: found)
            cache.delete(conditions.CERTIFICATES_KEY)  # an hour is over
            assert conditions.find(made).keys() == {"skep.example.org"}

    def test_the_doctor_by_the_checks_that_found_something(self, monkeypatch):
        """As with a table that vacuum does not keep up with, and a store that takes nothing."""

        def late() -> list[Finding]:
            return [warning("vacuum_late", "Many dead rows: jobs.", "VACUUM them."), ok("3 tables")]

        def away() -> list[Finding]:
            return [error("store_away", "The store of logs does not work.", "Check its space.")]

        checks = dict.fromkeys(doctor.CHECKS, list) | {"tables": late, "stores": away}
        monkeypatch.setattr(doctor, "CHECKS", checks | {"settings": away})
        found = conditions.find(rule("doctor"))
        assert {subject: met.message for subject, met in found.items()} == {
            "tables": "Many dead rows: jobs. VACUUM them.",
            "stores": "The store of logs does not work. Check its space.",
        }
        only_errors = rule("doctor", name="errors", threshold=1)
        assert conditions.find(only_errors).keys() == {"stores"}

    def test_a_backup_that_was_never_made_is_found_with_what_to_do(self):
        met = conditions.find(rule("doctor"))["backup"]
        assert met.message.startswith("No backup was ever recorded. One box: `skep backup create")


@pytest.mark.parametrize("kind", [kind.value for kind in RuleKind])
def test_each_kind_is_in_the_docs_with_a_run_book(kind):
    docs = Path(__file__).resolve().parents[3] / "docs"
    assert f"| `{kind}` |" in (docs / "observability.md").read_text()
    _, _, rest = (docs / "run-books.md").read_text().partition(f"\n### {kind}\n")
    assert "**Do:**" in rest.partition("\n##")[0]


class TestApi:
    def test_a_rule_from_its_creation_to_its_end(self, admin):
        make_user("boss", admin=True)
        body = {"name": "disks", "kind": "full_disk", "recipients": ["boss"], "action": "cordon"}
        made = admin.post("/alert-rules", body).json()
        assert (made["threshold"], made["recipients"]) == (90, ["boss"])
        url = f"/alert-rules/{made['id']}"
        assert admin.patch(url, {"threshold": 80}).json()["threshold"] == 80
        assert [r["name"] for r in admin.get("/alert-rules").json()["results"]] == ["disks"]
        assert admin.delete(url).status_code == 204
        assert admin.patch(url, {"threshold": 80}).json()["code"] == "rule_not_found"

    @pytest.mark.parametrize(
        ("changes", "code"),
        [
            ({"action": "stop"}, "action_not_possible"),
            ({"threshold": 101}, "threshold_invalid"),
            ({"recipients": ["ghost"]}, "user_unknown"),
            ({"kind": "moon"}, "invalid"),
        ],
    )
    def test_what_a_rule_cannot_be_is_refused(self, admin, changes, code):
        body = {"name": "disks", "kind": "full_disk"} | changes
        answer = admin.post("/alert-rules", body)
        assert (answer.status_code, answer.json()["code"]) == (400, code)
        assert not AlertRule.objects.exists()

    def test_a_name_is_taken_once(self, admin):
        body = {"name": "disks", "kind": "full_disk"}
        assert admin.post("/alert-rules", body).status_code == 201
        assert admin.post("/alert-rules", body).json()["code"] == "name_taken"

    def test_alerts_are_listed_and_filtered(self, admin):
        rule("bad_node")
        sicken(make_node("sick"))
        rules.evaluate()
        (listed,) = admin.get("/alerts", active="true").json()["results"]
        assert (listed["rule"], listed["subject"]) == ("bad_node", "sick")
        Device.objects.update(health="HEALTHY")
        rules.evaluate()
        assert admin.get("/alerts", active="true").json()["results"] == []
        assert len(admin.get("/alerts").json()["results"]) == 1
