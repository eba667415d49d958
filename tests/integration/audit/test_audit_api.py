"""REST: who reads which entries of the audit log, filters, pages, export, and refused requests."""

from __future__ import annotations

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts.models import User
from skep_platform.accounts.services import create_token
from skep_platform.audit import refusals, services
from skep_platform.audit.actions import ACTIONS
from skep_platform.audit.models import AuditEntry
from skep_platform.core import caller

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _keep_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """An export gives its connection back between two pieces; here it holds the test's rows."""
    monkeypatch.setattr("skep_platform.core.serving.close_old_connections", lambda: None)


def by(user: User | None, action: str, *args: Any, address: str = "192.0.2.1", **kw: Any) -> None:
    with caller.calling(address, "test", "r"):
        if user is not None:
            caller.identify(user)
        services.record(action, *args, **kw)


def listed(api: Api, **query: Any) -> list[Any]:
    answer = api.get("/audit", **query)
    assert answer.status_code == 200, answer.content
    return answer.json()["results"]


def content(answer: Any) -> str:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    assert answer.status_code == 200
    return async_to_sync(read)().decode()


def names(api: Api, **query: Any) -> list[str]:
    return [row["target"]["name"] for row in listed(api, **query)]


@pytest.fixture
def people(admin: Api) -> dict[str, User]:
    users = {name: make_user(name) for name in ("mia", "bob", "zoe")}
    team = make_vc("team", members=[users["bob"]], vc_admins=[users["mia"]])
    other = make_vc("other", vc_admins=[users["zoe"]])
    by(users["bob"], "job.stop", "job", "1", "bobs-of-team", vc=team)
    by(users["bob"], "token.create", "token", "2", "laptop")
    by(admin.user, "vc.quota.update", "vc", team.pk, "team", vc=team, before={}, after={"A": 1})
    by(admin.user, "vc.quota.update", "vc", other.pk, "other", vc=other, address="192.0.2.9")
    by(None, "login.failed", "user", "", "bob", outcome="refused")
    return users


class TestWhoReads:
    def test_an_admin_reads_all(self, admin, people):
        assert names(admin) == ["bob", "other", "team", "laptop", "bobs-of-team"]

    def test_a_vc_admin_reads_what_concerns_the_own_virtual_cluster(self, people):
        assert names(Api(people["mia"])) == ["team", "bobs-of-team"]
        assert names(Api(people["zoe"])) == ["other"]
        assert names(Api(people["zoe"]), virtual_cluster="team") == []

    def test_a_user_reads_what_the_user_did(self, people):
        assert names(Api(people["bob"])) == ["laptop", "bobs-of-team"]
        assert names(Api(people["bob"]), actor="root") == []

    def test_a_new_user_of_an_old_name_reads_nothing_of_the_old_one(self, people):
        people["bob"].delete()
        assert names(Api(make_user("bob"))) == []

    def test_no_one_reads_without_a_login(self):
        assert refusal(Api().get("/audit")) == (401, "not_authenticated")
        assert refusal(Api().get("/audit/export")) == (401, "not_authenticated")

    def test_the_export_has_what_the_list_has(self, people):
        for user in people.values():
            api = Api(user)
            answer = api.get("/audit/export", format="jsonl")
            lines = [json.loads(line) for line in content(answer).splitlines()]
            exported = [row["target"]["name"] for row in lines if row["action"] != "audit.export"]
            listing = [row for row in listed(api) if row["action"] != "audit.export"]
            assert exported == [row["target"]["name"] for row in listing]


class TestFilters:
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            ({"actor": "bob"}, ["laptop", "bobs-of-team"]),
            ({"action": "vc.quota.update"}, ["other", "team"]),
            ({"action": "vc"}, ["other", "team"]),
            ({"action": "token,job.*"}, ["laptop", "bobs-of-team"]),
            ({"outcome": "refused"}, ["bob"]),
            ({"target_type": "token"}, ["laptop"]),
            ({"target": "OBS-OF"}, ["bobs-of-team"]),
            ({"target": "te"}, []),
            ({"target": "Team"}, ["team", "bobs-of-team"]),
            ({"virtual_cluster": "team"}, ["team", "bobs-of-team"]),
            ({"address": "192.0.2.9"}, ["other"]),
            ({"actor": "bob", "action": "job"}, ["bobs-of-team"]),
            ({"virtual_cluster": "nowhere"}, []),
        ],
    )
    def test_each_filter_and_two_together(self, admin, people, query, expected):
        assert names(admin, **query) == expected
        assert names(admin, **query, ordering="at") == expected[::-1]

    def test_a_range_of_time(self, admin, people):
        entries = list(AuditEntry.objects.order_by("id"))
        since, until = entries[1].at.isoformat(), entries[3].at.isoformat()
        inside = [e.target_name for e in entries if entries[1].at <= e.at < entries[3].at]
        assert names(admin, since=since, until=until, ordering="at") == inside
        ahead = timezone.now() + timedelta(days=1)
        assert names(admin, since=ahead.isoformat()) == []

    @pytest.mark.parametrize(
        ("query", "code"),
        [
            ({"action": "user.crate"}, "unknown_action"),
            ({"outcome": "maybe"}, "invalid"),
            ({"since": "yesterday"}, "invalid"),
            ({"ordering": "actor"}, "invalid"),
        ],
    )
    def test_a_wrong_filter_is_refused_by_name(self, admin, query, code):
        assert refusal(admin.get("/audit", **query)) == (400, code)
        if "ordering" not in query:
            assert refusal(admin.get("/audit/export", **query)) == (400, code)

    def test_entries_of_a_deleted_virtual_cluster_are_found_by_its_name(self, admin):
        vc = make_vc("gone")
        by(admin.user, "vc.update", "vc", vc.pk, "gone", vc=vc)
        by(admin.user, "vc.delete", "vc", vc.pk, "gone", vc=vc)
        vc.delete()
        assert len(listed(admin, virtual_cluster="gone")) == 2


class TestPages:
    def test_pages_meet_without_a_gap_in_both_directions(self, admin):
        for number in range(25):
            by(admin.user, "node.cordon", "node", str(number), f"n{number}")
        page = admin.get("/audit", limit=10, action="node").json()
        seen = [row["target"]["name"] for row in page["results"]]
        while page["next"]:
            page = admin.client.get(page["next"]).json()
            seen += [row["target"]["name"] for row in page["results"]]
        assert seen == [f"n{number}" for number in reversed(range(25))]

    @pytest.mark.parametrize("who", ["root", "mia", "bob"])
    def test_a_page_takes_the_same_queries_whatever_its_size(self, admin, people, who):
        api = admin if who == "root" else Api(people[who])

        def queries(limit: int) -> int:
            with CaptureQueriesContext(
                connection,
            ) as captured:
                listed(api, limit=limit, action="job,token,vc")
            return len(captured)

        few = queries(1)
        for number in range(30):
            by(people["bob"], "job.stop", "job", str(number), f"j{number}")
        assert queries(50) == few <= 4


class TestExport:
    def test_32_cells_that_would_be_formulas_are_neutralised(self, admin):
        for name in ("=1+1", "+SUM(A1)", "-2", "@x", "\t=1", "  =1"):
            by(admin.user, "image.create", "image", "", name, reason=name)
        text = content(admin.get("/audit/export", action="image"))
        rows = list(csv.DictReader(io.StringIO(text)))
        assert len(rows) == 6
        assert all(row["target_name"].startswith("'") for row in rows)
        assert not any(
            cell.lstrip(" ").startswith(("=", "+", "-", "@")) for cell in rows[0].values()
        )

    def test_an_export_is_recorded_with_its_filter(self, admin):
        answer = admin.get("/audit/export", format="csv", actor="root")
        assert answer["Content-Disposition"].startswith('attachment; filename="audit-')
        entry = AuditEntry.objects.get(action="audit.export")
        assert entry.facts == {"format": "csv", "filter": {"actor": "root"}}
        assert entry.actor_name == "root"

    def test_more_than_one_piece_is_complete(self, admin, monkeypatch):
        monkeypatch.setattr("skep_platform.audit.queries.EXPORTED_AT_ONCE", 7)
        for number in range(20):
            by(admin.user, "node.cordon", "node", str(number), f"n{number}")
        answer = admin.get("/audit/export", format="jsonl", action="node.cordon,node.drain")
        found = [json.loads(line)["target"]["name"] for line in content(answer).splitlines()]
        assert found == [f"n{number}" for number in reversed(range(20))]

    def test_an_empty_export_has_its_columns(self, admin):
        text = content(admin.get("/audit/export", actor="no-such-user"))
        assert text.startswith("at,id,action,outcome,")
        assert text.count("\n") == 1


class TestRefused:
    def last(self) -> AuditEntry:
        return AuditEntry.objects.filter(outcome="refused").order_by("-id")[0]

    def test_a_forbidden_write_is_recorded_under_the_action_that_it_tried(self):
        user = make_user("eve")
        Api(user).delete("/users/root")
        entry = self.last()
        assert (entry.action, entry.outcome) == ("user.delete", "refused")
        assert (entry.actor_id, entry.target_type, entry.target_name) == (user.pk, "user", "root")
        assert entry.facts == {
            "code": "forbidden",
            "status": 403,
            "route": "DELETE users/<username>",
        }
        assert entry.address == "127.0.0.1"

    def test_what_a_caller_may_not_see_is_recorded_for_the_vc_admins(self, people):
        Api(people["zoe"]).put("/virtual-clusters/team/members/zoe", {"role": "admin"})
        entry = self.last()
        assert (entry.action, entry.facts["code"]) == ("vc.member.set", "not_found")
        assert entry.facts["parameters"] == {"name": "team", "username": "zoe"}
        mine = listed(Api(people["mia"]), outcome="refused")
        assert [row["target"]["name"] for row in mine] == ["zoe"]

    def test_a_token_of_too_small_a_scope_is_recorded_with_the_token(self):
        user = make_user("eve", admin=True)
        token, secret = create_token(user, "ci", scope="read")
        api = Api()
        api.client.credentials(HTTP_AUTHORIZATION=f"Bearer {secret}")
        api.post("/users", {"username": "x", "password": "y"})
        entry = self.last()
        assert (entry.action, entry.facts["code"]) == ("user.create", "scope_too_small")
        assert (entry.token_id, entry.token_name, entry.token_scope) == (
            token.public_id,
            "ci",
            "read",
        )

    def test_reads_and_requests_without_a_credential_are_not_recorded(self):
        before = AuditEntry.objects.count()
        Api(make_user()).get("/users")
        Api().post("/users", {})
        assert AuditEntry.objects.count() == before

    def test_a_flood_of_refusals_fills_nothing(self):
        api = Api(make_user("eve"))
        for _ in range(refusals.PER_MINUTE + 20):
            api.delete("/users/root")
        recorded = AuditEntry.objects.filter(actor_name="eve").order_by("id")
        assert recorded.count() == refusals.PER_MINUTE
        assert recorded.last().facts["further_ones_not_recorded_s"] == 60

    def test_the_caller_of_one_request_is_not_that_of_the_next(self):
        Api(make_user("eve")).delete("/users/root")
        assert caller.current() is caller.SYSTEM
        services.record("node.cordon", "node")
        assert AuditEntry.objects.order_by("-id")[0].actor_kind == "system"


def test_the_actions_are_listed(admin):
    rows = admin.get("/audit/actions").json()["actions"]
    assert [row["name"] for row in rows] == list(ACTIONS)
    assert all(row["description"].endswith(".") for row in rows)
