"""The table of the audit log: what an entry holds, that none changes, and how old ones go."""

from __future__ import annotations

import asyncio
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from asgiref.sync import sync_to_async
from django.db import ProgrammingError, connection, transaction
from django.utils import timezone
from tests.support.at_once import at_once, just_before
from tests.support.clocks import every_clock_at
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts.services import create_token
from skep_platform.audit import services, tasks
from skep_platform.audit.actions import ACTIONS, named
from skep_platform.audit.models import AuditEntry, first_id_at, time_of
from skep_platform.core import caller
from skep_platform.core.database import months
from skep_platform.core.models import uuid7

pytestmark = pytest.mark.django_db


def last() -> AuditEntry:
    return AuditEntry.objects.order_by("-id")[0]


@transaction.atomic
def execute(statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements.split("; "):
            cursor.execute(statement)


def partitions() -> set[str]:
    return {part.name for part in months.parts("audit_entry")}


def test_an_entry_says_who_did_what_to_whom_from_where_and_by_which_token():
    user, vc = make_user("eve"), make_vc("vision")
    token, _ = create_token(user, "laptop", scope="submit")
    with caller.calling("192.0.2.7", "skep/1.0", "req-1"):
        caller.identify(user, token)
        services.record(
            "vc.quota.update",
            "vc",
            vc.pk,
            vc.name,
            before={"A100": 8, "H100": 1},
            after={"A100": 4, "H100": 1},
            vc=vc,
            reason="shared",
        )
    entry = last()
    assert (entry.actor_kind, entry.actor_id, entry.actor_name) == ("user", user.pk, "eve")
    assert (entry.token_id, entry.token_name, entry.token_scope) == (
        token.public_id,
        "laptop",
        "submit",
    )
    assert (entry.address, entry.user_agent, entry.request_id) == ("192.0.2.7", "skep/1.0", "req-1")
    assert (entry.action, entry.outcome) == ("vc.quota.update", "done")
    assert (entry.target_type, entry.target_id, entry.target_name) == ("vc", str(vc.pk), "vision")
    assert (entry.vc_id, entry.vc_name) == (vc.pk, "vision")
    assert (entry.before, entry.after) == ({"A100": 8}, {"A100": 4})
    assert entry.facts == {"reason": "shared"}
    assert abs(entry.at - timezone.now()) < timedelta(minutes=1)


def test_outside_of_requests_the_system_is_the_caller():
    services.record("node.cordon", "node", "n", "gpu-1")
    assert (last().actor_kind, last().actor_name, last().address) == ("system", "", "")
    caller.identify(make_user())
    assert caller.current() is caller.SYSTEM


def test_an_unknown_action_or_value_is_refused_at_once():
    with pytest.raises(KeyError):
        services.record("user.crate", "user")
    with pytest.raises(TypeError):
        services.record("user.create", "user", value=object())


@pytest.mark.parametrize(
    "fields",
    [
        {"password": "hunter2-secret"},
        {"api_token": "hunter2-secret"},
        {"ssh_key": "hunter2-secret", "privateKey": "hunter2-secret"},
        {"nested": {"secrets": {"db": ["hunter2-secret"]}}},
        {"credentials": [{"user": "hunter2-secret"}]},
        {"url": "https://u:hunter2-secret@registry.example.org/x"},
        {"note": "use skt_hunter2-secret please"},
        {"Authorization": "Bearer hunter2-secret"},
    ],
)
def test_secrets_are_masked_wherever_they_stand(fields):
    services.record("user.update", "user", before={}, after=fields, **fields)
    stored = str([last().before, last().after, last().facts])
    assert "hunter2" not in stored
    assert "***" in stored


def test_names_like_those_of_secrets_keep_numbers_and_other_words():
    services.record("user.update", "user", keep_tokens=True, tokens=3, monkey="a", keyboard="b")
    assert last().facts == {"keep_tokens": True, "tokens": 3, "monkey": "a", "keyboard": "b"}


def test_a_huge_value_is_cut_and_says_how_large_it_was():
    services.record("job.submit", "job", after={"name": "train", "text": "x" * 100_000})
    assert set(last().after) == {"name", "truncated_bytes"}
    assert last().after["truncated_bytes"] > 100_000


def test_control_characters_are_marked():
    services.record("job.submit", "job", "", "a\x1b[2Jb", note="c\x00d\u202ee")
    assert "\x1b" not in last().target_name
    assert last().facts == {"note": "c\ufffdd\ufffde"}


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_entry SET actor_name = 'nobody'",
        "UPDATE audit_entry SET id = id",
        "DELETE FROM audit_entry",
        "TRUNCATE audit_entry",
        "TRUNCATE audit_entry_default",
        "TRUNCATE {month}",
        "DELETE FROM {month}",
        "UPDATE {month} SET facts = '{{}}'",
        "INSERT INTO audit_entry SELECT * FROM audit_entry ON CONFLICT (id) "
        "DO UPDATE SET action = 'x'",
        "SET LOCAL skep.audit = 'off'; DELETE FROM audit_entry",
    ],
)
def test_no_statement_changes_or_deletes_an_entry(statement):
    """Neither for the owner of the table, which the tests connect as."""
    services.record("node.cordon", "node", "n", "gpu-1")
    month = f"audit_entry_{timezone.now():%Y_%m}"
    with pytest.raises(ProgrammingError, match="append-only"):
        execute(statement.format(month=month))
    assert last().target_name == "gpu-1"
    with pytest.raises(ProgrammingError), transaction.atomic():
        last().delete()


def test_an_entry_is_stored_with_the_change_or_not_at_all():
    with transaction.atomic():
        services.record("node.cordon", "node", "n", "rolled-back")
        transaction.set_rollback(True)
    assert not AuditEntry.objects.filter(target_name="rolled-back").exists()


def test_ids_and_times_agree():
    entry_id = uuid7()
    at = time_of(entry_id)
    assert first_id_at(at) <= entry_id < first_id_at(at + timedelta(milliseconds=1))
    with connection.cursor() as cursor:
        cursor.execute("SELECT audit_first_id(%s)", [at])
        assert cursor.fetchone()[0] == first_id_at(at)


def test_retention_drops_whole_months_and_makes_new_ones(settings):
    settings.SKEP_AUDIT_RETENTION_DAYS = 730
    start = datetime(2031, 3, 15, tzinfo=UTC)
    with time_machine.travel(start, tick=False):
        tasks.tidy()
        services.record("node.cordon", "node", "n", "of-march")
        assert {"audit_entry_2031_03", "audit_entry_2031_04", "audit_entry_2031_05"} <= partitions()
    with every_clock_at(start + timedelta(days=732), tick=False):
        tasks.tidy()  # the month of March is not over for long enough
        assert AuditEntry.objects.filter(target_name="of-march").exists()
    with every_clock_at(start + timedelta(days=730 + 17), tick=False):
        tasks.tidy()
        assert not AuditEntry.objects.filter(target_name="of-march").exists()
        assert "audit_entry_2031_03" not in partitions()
        assert "audit_entry_2031_04" in partitions()
        assert last().action == "audit.drop"
        with pytest.raises(ProgrammingError, match="append-only"), transaction.atomic():
            AuditEntry.objects.filter(id=last().id).delete()


def test_entries_outside_of_all_months_are_stored_and_kept_as_long(settings):
    """As after a year without the task."""
    settings.SKEP_AUDIT_RETENTION_DAYS = 30
    far = datetime(2040, 1, 2, tzinfo=UTC)
    with every_clock_at(far, tick=False):
        services.drop_old_months()
        services.record("node.cordon", "node", "n", "early")
    with every_clock_at(far + timedelta(days=29), tick=False):
        services.drop_old_months()
        assert AuditEntry.objects.filter(target_name="early").exists()
    with every_clock_at(far + timedelta(days=31), tick=False):
        services.drop_old_months()
        assert not AuditEntry.objects.filter(target_name="early").exists()
        services.record("node.cordon", "node", "n", "later")
        assert AuditEntry.objects.filter(target_name="later").exists()


def test_a_month_that_began_outside_of_all_months_does_not_stop_the_next_ones():
    start = datetime(2050, 1, 20, tzinfo=UTC)
    with time_machine.travel(start, tick=False):
        services.record("node.cordon", "node", "n", "early")
        assert services.add_months() == 2
        assert {"audit_entry_2050_02", "audit_entry_2050_03"} <= partitions()
        assert services.add_months() == 0


@pytest.mark.django_db(transaction=True)
class TestTwoWorkersAtOnce:
    """Months that a test commits stay in the database of all tests."""

    @pytest.fixture(autouse=True)
    def _without_the_months(self):
        yield
        for part in months.parts("audit_entry"):
            if part.until.year > 2060:
                months.drop("audit_entry", part.name)

    def test_make_the_months_once(self):
        with time_machine.travel(datetime(2070, 1, 20, tzinfo=UTC), tick=False):
            made = at_once(*[services.add_months] * 2)
        assert sorted(made) == [0, 3]

    def test_drop_a_month_once(self, settings):
        settings.SKEP_AUDIT_RETENTION_DAYS = 30
        at = datetime(2070, 1, 20, tzinfo=UTC)
        months.add("audit_entry", at, sql=services.ADD_MONTH)
        with every_clock_at(at + timedelta(days=90), tick=False):
            dropped = at_once(*[services.drop_old_months] * 2)
        assert sum(found.count("audit_entry_2070_01") for found in dropped) == 1

    def test_keep_what_came_after_one_of_them_made_the_default_partition_anew(self, settings):
        settings.SKEP_AUDIT_RETENTION_DAYS = 30
        at = datetime(2080, 1, 2, tzinfo=UTC)
        with every_clock_at(at, tick=False):
            services.record("node.cordon", "node", "n", "early")

        def other_worker() -> None:
            services.drop_old_months()
            services.record("node.cordon", "node", "n", "later")

        with every_clock_at(at + timedelta(days=31), tick=False):
            with just_before("LOCK TABLE ONLY audit_entry", lambda: at_once(other_worker)):
                services.drop_old_months()
            assert not AuditEntry.objects.filter(target_name="early").exists()
            assert AuditEntry.objects.filter(target_name="later").exists()


def test_without_a_limit_all_is_kept(settings):
    settings.SKEP_AUDIT_RETENTION_DAYS = 0
    with time_machine.travel(datetime(2090, 1, 1, tzinfo=UTC)):
        assert services.drop_old_months() == []


def test_a_prefix_names_the_actions_below_it():
    assert named("job.exec") == ["job.exec", "job.exec.end"]
    assert named("job.*") == named("job.") == named("job")
    assert named("jo") == []
    assert all(name in named(name) for name in ACTIONS)


class TestCaller:
    def test_threads_of_a_pool_never_see_each_others_caller(self):
        seen: dict[int, list[str]] = {}
        gate = threading.Barrier(4)

        def request(number: int) -> None:
            for turn in range(50):
                with caller.calling(f"10.0.0.{number}", "", f"{number}-{turn}"):
                    gate.wait(60)
                    seen.setdefault(number, []).append(caller.current().request_id)
                assert caller.current() is caller.SYSTEM

        threads = [threading.Thread(target=request, args=(number,)) for number in range(4)]
        [thread.start() for thread in threads]
        [thread.join(120) for thread in threads]
        assert seen == {n: [f"{n}-{turn}" for turn in range(50)] for n in range(4)}

    def test_tasks_of_one_event_loop_never_see_each_others_caller(self):
        async def request(number: int) -> bool:
            with caller.calling(f"10.0.0.{number}"):
                await asyncio.sleep(0)
                inside = await sync_to_async(caller.current, thread_sensitive=True)()
                await asyncio.sleep(0)
                return inside.address == caller.current().address == f"10.0.0.{number}"

        async def all_of_them() -> list[bool]:
            return await asyncio.gather(*map(request, range(100)))

        assert all(asyncio.run(all_of_them()))
        assert caller.current() is caller.SYSTEM

    def test_an_error_ends_the_caller_too(self):
        with pytest.raises(RuntimeError), caller.calling("10.0.0.1"):
            raise RuntimeError
        assert caller.current() is caller.SYSTEM

    def test_a_long_user_agent_is_cut(self):
        with caller.calling("10.0.0.1", "x" * 10_000, str(uuid.uuid4())):
            services.record("logout", "user")
        assert len(last().user_agent) == 200
