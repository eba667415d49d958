"""What the doctor finds, on real engines."""

from __future__ import annotations

import datetime
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
import redis
import time_machine
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user
from tests.support.streaming_server import streaming

from skep_platform import __version__
from skep_platform.cluster import checks
from skep_platform.cluster.models import Device, Node
from skep_platform.core import notifications, processes
from skep_platform.core.metrics import SENT
from skep_platform.core.notifications import valkey
from skep_platform.operations import doctor
from skep_platform.operations.doctor import network, server, stores
from skep_platform.operations.models import Backup

pytestmark = pytest.mark.django_db


def found(check: str) -> dict[str, doctor.Finding]:
    """Return the findings of a check by code."""
    (examined,) = doctor.run(frozenset({check}))
    return {one.code: one for one in examined.findings}


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    keys = (processes.KEY, processes.CLOCKS, notifications.LAST_TICK, "skep:default")
    valkey().delete(*keys)
    yield
    valkey().delete(*keys)


@pytest.fixture
def _stopped_clock() -> Iterator[None]:
    """What is said in seconds would depend on how long the test takes."""
    with time_machine.travel(timezone.now(), tick=False):
        yield


def report(kind: str, **changes: object) -> None:
    processes.report_once(kind, time.time())
    (key,) = (k for k in valkey().hkeys(processes.KEY) if k.decode().endswith(f"/{kind}"))
    stored = json.loads(valkey().hget(processes.KEY, key))
    valkey().hset(processes.KEY, key, json.dumps(stored | changes))


def report_all() -> None:
    for kind in ("web", "gateway", "beat", "worker (scheduler)", "worker (default)"):
        report(kind)


class TestProcesses:
    def test_all_of_one_version_are_fine(self):
        report_all()
        assert set(found("processes")) == {"ok"}

    def test_a_missing_one_is_named_with_what_it_does(self):
        for kind in ("web", "beat", "worker (scheduler)"):
            report(kind)
        problems = found("processes")
        assert "gateway" in problems["process_missing"].message
        assert problems["worker_missing"].details == {"queue": "default"}

    def test_one_that_no_longer_reports_counts_as_gone(self):
        report_all()
        report("gateway", reported_at=time.time() - 2 * processes.GONE_S)
        assert "gateway" in found("processes")["process_missing"].message

    def test_another_version_is_a_warning(self):
        report_all()
        report("web", version="0.0.9")
        assert "0.0.9" in found("processes")["versions_differ"].message

    def test_settings_that_differ_are_named_and_never_shown(self, monkeypatch):
        report_all()
        monkeypatch.setenv("SKEP_SECRETS_KEYS", "hunter2")
        report("worker (default)")
        finding = found("processes")["settings_differ"]
        assert "SKEP_SECRETS_KEYS" in finding.message
        assert "worker (default)" in finding.message
        assert "hunter2" not in str(valkey().hgetall(processes.KEY))


class TestClocks:
    def test_clocks_that_agree_are_fine(self):
        report("web")
        assert set(found("clocks")) == {"ok"}

    @pytest.mark.usefixtures("_stopped_clock")
    def test_a_machine_and_a_node_that_are_wrong_are_named(self):
        node = make_node("late")
        clocks = processes.NodeClocks()
        clocks.saw(node.pk, time.time() - 100)
        clocks.flush()
        report("web", clock_ahead_s=5.0, host="box")
        finding = found("clocks")["clock_wrong"]
        assert finding.severity == "error"
        assert "node late by -100.0 s, box (web) by +5.0 s" in finding.message


class TestSettings:
    def test_a_misspelt_setting_is_named_with_the_one_that_was_meant(self):
        misspelt = server.misspelt({"SKEP_LOG_RETENTION_DAY": "7", "SKEP_HOME": "/x", "PATH": ""})
        assert misspelt == {"SKEP_LOG_RETENTION_DAY": "SKEP_LOG_RETENTION_DAYS"}

    def test_http_beyond_the_loopback_is_a_warning(self, settings):
        assert "no_tls" not in found("settings")
        settings.SKEP_PUBLIC_URL = "http://skep.lan:8470"
        assert {"no_tls", "mfa_optional"} <= set(found("settings"))

    def test_an_archive_that_waits_for_logs_which_are_never_deleted_is_a_warning(self, settings):
        settings.SKEP_JOB_ARCHIVE_DAYS, settings.SKEP_LOG_RETENTION_DAYS = 60, 30
        assert "archive_waits_for_logs" not in found("settings")
        settings.SKEP_LOG_RETENTION_DAYS = 0
        finding = found("settings")["archive_waits_for_logs"]
        assert (finding.severity, "SKEP_LOG_RETENTION_DAYS" in finding.action) == ("warning", True)
        settings.SKEP_JOB_ARCHIVE_DAYS, settings.SKEP_JOB_ARCHIVE_KEEP_DAYS = 0, 365
        assert {"archive_off"} <= set(found("settings")) - {"archive_waits_for_logs"}


class TestDatabase:
    def test_real_engines_are_fine(self):
        assert set(found("database")) == {"ok"}
        assert set(found("migrations")) == {"ok"}
        assert set(found("redis")) == {"ok"}
        assert set(found("stores")) <= {"ok", "store_nearly_full"}

    def test_a_migration_that_was_not_applied_is_named(self):
        with connection.cursor() as cursor:
            cursor.execute(
                "DELETE FROM django_migrations WHERE app = 'operations' AND name LIKE '0003%'"
            )
        assert found("migrations")["migrations_missing"].details["migrations"] == [
            "operations.0003_evaluated_at"
        ]

    def test_an_index_that_no_query_uses_is_named(self):
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE pg_index SET indisvalid = false"
                " WHERE indexrelid = 'backup_by_age'::regclass"
            )
        finding = found("tables")["index_invalid"]
        assert finding.action == "REINDEX INDEX CONCURRENTLY backup_by_age;"

    def test_a_large_index_that_no_query_has_read_is_a_note(self, monkeypatch):
        with connection.cursor() as cursor:
            cursor.execute("CREATE INDEX never_read ON operations_backup (bytes)")
        assert "index_unused" not in found("tables"), "small ones are not worth a word"
        monkeypatch.setattr(stores, "UNUSED_BYTES", 1)
        assert "index_unused" not in found("tables"), "it was not watched for long enough"
        monkeypatch.setattr(stores, "UNUSED_FOR", datetime.timedelta(0))
        finding = found("tables")["index_unused"]
        assert finding.severity == "note"
        assert "never_read" in finding.details["indexes"]
        assert "operations_backup_pkey" not in finding.details["indexes"]

    def test_an_index_that_is_mostly_empty_is_found_and_not_one_that_is_full(self, monkeypatch):
        monkeypatch.setattr(stores, "BLOATED_BYTES", 64 * 1024)
        known = connection.settings_dict
        login = {"user": known["USER"], "password": known["PASSWORD"], "dbname": known["NAME"]}
        # Vacuum takes a connection without a transaction.
        with psycopg.connect(host=known["HOST"], autocommit=True, **login) as plain:
            plain.execute("CREATE TABLE emptied (id uuid PRIMARY KEY, word text)")
            try:
                plain.execute(
                    "INSERT INTO emptied SELECT gen_random_uuid(), md5(n::text)"
                    " FROM generate_series(1, 60000) n"
                )
                plain.execute("CREATE INDEX emptied_by_word ON emptied (word)")
                plain.execute("DELETE FROM emptied WHERE word > '1'")
                plain.execute("CREATE TABLE full_one AS SELECT * FROM emptied")
                plain.execute("CREATE INDEX full_by_word ON full_one (word)")
                plain.execute("VACUUM ANALYZE emptied, full_one")
                finding = found("tables")["index_bloated"]
            finally:
                plain.execute("DROP TABLE IF EXISTS emptied, full_one")
        assert {"emptied_by_word", "emptied_pkey"} <= set(finding.details["indexes"])
        assert "full_by_word" not in finding.details["indexes"]
        assert "empty)" in finding.message

    def test_a_store_that_cannot_be_written_is_an_error(self, monkeypatch, settings):
        def refuse(*_: object) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr("skep_platform.telemetry.store.ChunkFiles.save_many", refuse)
        finding = found("stores")["store_away"]
        assert "logs does not work: No space left" in finding.message


class TestQueues:
    def test_a_scheduler_that_plans_and_empty_queues_are_fine(self):
        notifications.note_tick()
        assert set(found("queues")) == {"ok"}

    @pytest.mark.usefixtures("_stopped_clock")
    def test_the_oldest_message_shows_how_late_a_queue_is(self):
        notifications.note_tick()
        for sent in (time.time() - 300, time.time()):  # pushed as Celery does
            valkey().lpush("skep:default", json.dumps({"headers": {SENT: sent}}))
        finding = found("queues")["queue_late"]
        assert "2 tasks wait in the queue default, the oldest for 300 s" in finding.message

    @pytest.mark.usefixtures("_stopped_clock")
    def test_a_scheduler_that_stopped_is_an_error(self):
        assert found("queues")["scheduler_stopped"].severity == "error"
        valkey().set(notifications.LAST_TICK, time.time() - 90)
        assert "for 90 s" in found("queues")["scheduler_stopped"].message


class TestBackup:
    def test_none_is_a_warning_and_a_fresh_one_is_fine(self):
        assert found("backup")["backup_none"].severity == "warning"
        now = timezone.now()
        Backup.objects.create(at=now - datetime.timedelta(days=2), place="/mnt/a")
        assert "48 h old (/mnt/a)" in found("backup")["backup_old"].message
        Backup.objects.create(at=now, place="/mnt/b")
        assert set(found("backup")) == {"ok"}


class TestNodes:
    def test_agents_by_their_version(self):
        major, minor = server_version()
        for name, version in (
            ("same", __version__),
            ("newer", f"{major}.{minor + 1}.0"),
            ("ancient", f"{major}.{minor - 2}.0" if minor > 1 else "0.0.1-x"),
        ):
            Node.objects.filter(pk=make_node(name).pk).update(agent_version=version)
        problems = found("agents")
        assert "newer (" in problems["agent_newer"].message
        assert "same" not in str(problems.values())

    def test_nodes_that_do_not_pass_their_checks(self):
        for name, reason in (("slow", "Failed its checks: disk: 3 MB/s."), ("new", checks.WAITS)):
            node = make_node(name, gpus=1)
            Node.objects.filter(pk=node.pk).update(checks_needed=1, cordon_reason=reason)
        message = found("agents")["node_check_failed"].message
        assert message.startswith("1 nodes are not used")
        assert "slow (Failed its checks: disk: 3 MB/s)" in message

    def test_what_agents_warn_of_is_passed_on_with_what_to_do(self):
        off = {"code": "live_restore_off", "message": "A restart ends all.", "action": "Set it."}
        for name, warnings in (("a", [off]), ("b", [off]), ("fine", [])):
            node = make_node(name, gpus=1)
            Node.objects.filter(pk=node.pk).update(warnings=warnings)
        finding = found("agents")["node_live_restore_off"]
        assert (finding.severity, finding.action) == ("warning", "Set it.")
        assert finding.message == "a, b: A restart ends all."

    def test_drivers_that_differ_or_are_unsafe(self):
        for name, driver in (("a", "550.127.05"), ("b", "580.65.06"), ("c", "535.1.1")):
            node = make_node(name, gpus=1)
            Node.objects.filter(pk=node.pk).update(driver_version=driver, runtime="docker")
        problems = found("drivers")
        assert "c (driver 535.1.1, CVE-2024-0126)" in problems["component_unsafe"].message
        assert "different drivers" in problems["drivers_differ"].message

    def test_bad_gpus_and_full_disks(self):
        node = make_node("sick", gpus=1)
        assert set(found("gpus")) == {"ok"}
        Device.objects.filter(node=node).update(health="BAD", problem="XID 79")
        Node.objects.filter(pk=node.pk).update(disk_free_mb=10, disk_total_mb=100_000)
        assert "sick GPU 0 (XID 79)" in found("gpus")["gpu_bad"].message
        assert "sick (10 of 100,000 MiB free)" in found("disks")["node_disk_low"].message


def server_version() -> tuple[int, int]:
    found = doctor.nodes.minor(__version__)
    assert found is not None
    return found


# --- the network


@pytest.fixture
def tls(tmp_path):
    """Return a function that serves TLS with a certificate of its own authority, valid for so many
    days; returns port and file of the certificate."""
    listeners = []

    def serve(days: float) -> tuple[int, str]:
        chain = _certificate(tmp_path, days)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain)
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        threading.Thread(target=_accept, args=(listener, context), daemon=True).start()
        return listener.getsockname()[1], chain

    yield serve
    for listener in listeners:
        listener.close()


def _accept(listener: socket.socket, context: ssl.SSLContext) -> None:
    while True:
        try:
            plain, _ = listener.accept()
        except OSError:
            return
        try:
            context.wrap_socket(plain, server_side=True).close()
        except OSError:
            plain.close()


def _certificate(folder, days: float) -> str:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=90))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    file = folder / f"{days}.pem"
    file.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return str(file)


class TestNetwork:
    @pytest.mark.parametrize(
        ("days", "code", "severity"),
        [
            (90, "ok", "ok"),
            (10, "certificate_expires", "warning"),
            (2, "certificate_expires", "error"),
        ],
        ids=["long", "soon", "now"],
    )
    def test_a_certificate_by_its_days_left(self, tls, settings, days, code, severity):
        port, file = tls(days)
        settings.SKEP_LDAP_URI, settings.SKEP_LDAP_CA_FILE = f"ldaps://localhost:{port}", file
        findings = found("certificates")
        assert findings[code].severity == severity

    @pytest.mark.parametrize("days", [-1, 90], ids=["expired", "of an unknown authority"])
    def test_a_certificate_that_no_client_takes_is_an_error(self, tls, settings, days):
        port, file = tls(days)
        settings.SKEP_LDAP_URI = f"ldaps://localhost:{port}"
        settings.SKEP_LDAP_CA_FILE = file if days < 0 else ""
        message = found("certificates")["certificate_bad"].message
        assert ("expired" if days < 0 else "self-signed certificate") in message

    def test_a_certificate_that_cannot_be_read_from_here_is_no_bad_one(self, settings):
        settings.SKEP_LDAP_URI = "ldaps://127.0.0.1:1"
        findings = found("certificates")
        assert findings.keys() == {"certificate_unread"}
        assert findings["certificate_unread"].severity == "warning"

    def test_ports_that_do_not_answer(self, settings):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            settings.EMAIL_HOST, settings.EMAIL_PORT = listener.getsockname()
            settings.SKEP_GATEWAY_BACKEND = settings.SKEP_PUBLIC_URL = "http://127.0.0.1:1"
            findings = found("ports")
        assert set(findings) == {"gateway_unreachable", "public_url_unreachable"}
        settings.EMAIL_PORT = 1
        assert found("ports")["server_unreachable"].details == {"server": "mail server"}

    def test_an_answer_is_not_read_to_its_end(self, settings):
        """It may have none, where the reverse proxy leads to something else."""
        left: list[bool] = []
        with streaming(2, left) as url:
            settings.SKEP_GATEWAY_BACKEND = settings.SKEP_PUBLIC_URL = url
            assert found("ports").keys() == {"ok"}
        assert left == [True, True]

    def test_a_registry_that_does_not_answer(self, settings):
        settings.SKEP_REGISTRIES = "public, 127.0.0.1:1, *.example.org, 10.0.0.0/8"
        assert network._registries() == ["127.0.0.1:1"]
        assert found("registries")["registry_unreachable"].details == {"registry": "127.0.0.1:1"}


class TestPlatform:
    def test_an_admin_sees_the_state_of_all_parts(self, admin):
        make_node("n1", gpus=1)
        report_all()
        notifications.note_tick()
        valkey().lpush("skep:default", json.dumps({"headers": {SENT: time.time() - 7}}))
        Backup.objects.create(at=timezone.now(), place="/mnt/b", bytes=5)
        found = admin.get("/health/platform").json()
        assert {p["kind"] for p in found["processes"]} >= {"web", "gateway", "beat"}
        queues = {q["name"]: q for q in found["queues"]}
        assert queues["default"]["messages"] == 1
        assert queues["default"]["lag_s"] >= 7
        assert queues["scheduler"]["lag_s"] is None
        assert (found["agents"], found["nodes"]) == ({"test": 1}, {"ONLINE": 1})
        assert found["last_backup"]["place"] == "/mnt/b"
        assert found["database"]["bytes"] > 0
        assert len(found["tables"]) == 10
        assert found["planned_at"] is not None

    @pytest.mark.parametrize("message", ["", "{}", "[1]", '{"headers": null}', "no JSON"])
    def test_a_message_of_another_program_has_no_age(self, admin, message):
        valkey().lpush("skep:default", message)
        queues = {q["name"]: q for q in admin.get("/health/platform").json()["queues"]}
        assert (queues["default"]["messages"], queues["default"]["lag_s"]) == (1, None)

    def test_without_redis_the_rest_is_shown(self, admin, monkeypatch):
        def away() -> object:
            raise redis.ConnectionError("refused")

        monkeypatch.setattr("skep_platform.operations.readings.valkey", away)
        found = admin.get("/health/platform").json()
        assert (found["redis"], found["queues"]) == (None, [])
        assert found["database"]["version"]

    def test_a_backup_that_something_else_made_is_recorded(self, admin):
        made = admin.post("/backups", {"place": "s3://backups/skep", "bytes": 10})
        assert made.status_code == 201
        (listed,) = admin.get("/backups").json()["results"]
        assert (listed["place"], listed["version"]) == ("s3://backups/skep", __version__)


class TestAsked:
    def test_admins_run_it_and_may_choose_checks(self, admin):
        answer = admin.get("/health/doctor", checks="gpus,redis")
        assert answer.json()["healthy"]
        assert [c["check"] for c in answer.json()["checks"]] == ["redis", "gpus"]
        unknown = admin.get("/health/doctor", checks="moon")
        assert (unknown.status_code, unknown.json()["code"]) == (400, "check_unknown")
        assert Api(make_user()).get("/health/doctor").status_code == 403

    def test_the_command_ends_with_1_on_an_error(self, capsys):
        call_command("skep_doctor", "gpus")
        assert "0 GPUs" in capsys.readouterr().out
        with pytest.raises(SystemExit) as ended:
            call_command("skep_doctor", "queues", "--json")
        assert ended.value.code == 1
        assert not json.loads(capsys.readouterr().out)["healthy"]

    def test_the_command_ends_with_1_on_a_warning_where_it_is_asked_to(self, capsys):
        call_command("skep_doctor", "backup")
        with pytest.raises(SystemExit) as ended:
            call_command("skep_doctor", "backup", "--strict")
        assert ended.value.code == 1
        assert "No backup was ever recorded" in capsys.readouterr().out

    def test_the_command_refuses_a_check_that_it_does_not_know(self):
        """A script that misspells one must not pass for ever."""
        with pytest.raises(CommandError, match="no check databse; there are: settings, "):
            call_command("skep_doctor", "databse")

    def test_a_check_that_fails_is_a_finding(self, monkeypatch):
        def away() -> object:
            raise ConnectionError("no route")

        monkeypatch.setattr("skep_platform.operations.readings.redis_server", away)
        assert "no route" in found("redis")["check_failed"].message

    @pytest.mark.django_db(transaction=True)
    def test_a_check_whose_connection_ends_fails_alone(self, monkeypatch):
        def end() -> list[doctor.Finding]:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
            return []

        monkeypatch.setitem(doctor.CHECKS, "database", end)
        database, tables = doctor.run(frozenset({"database", "migrations"}))
        assert [one.code for one in database.findings] == ["check_failed"]
        assert [one.code for one in tables.findings] == ["ok"]
