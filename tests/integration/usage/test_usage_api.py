"""GET usage: sums along dimensions, who sees what of them, and the same as CSV."""

from __future__ import annotations

import csv
from base64 import urlsafe_b64encode
from datetime import UTC, date, datetime, timedelta
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
import time_machine
from django.db import connection
from django.db.models import Q, Sum
from django.test.utils import CaptureQueriesContext
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_job, make_user, make_vc

from skep_platform.accounts.models import Group, GroupMember
from skep_platform.jobs.models import Job
from skep_platform.usage import counting
from skep_platform.usage.models import UsageDay

pytestmark = pytest.mark.django_db

DAY = date(2026, 11, 5)
HOUR = 3600
SPAN = {"since": "2026-11-01", "until": "2026-11-30"}
INFINITE = urlsafe_b64encode(f'[1e999,"{UUID(int=0)}",false]'.encode()).decode().rstrip("=")


def use(
    job: Job, hours: float, *, used: float = 0.0, day: date = DAY, own: bool = True, model="A100"
) -> UsageDay:
    """A row of GPU-hours, all of them measured."""
    us = int(hours * HOUR * 1_000_000)
    return UsageDay.objects.create(
        day=day,
        job=job,
        user=job.owner,
        vc=job.vc,
        gpu_model=model,
        guaranteed=own,
        allocated_us=us,
        used_us=int(us * used),
        known_us=us,
    )


@pytest.fixture
def team():
    """Two virtual clusters of two users, with a manager of the first one."""
    ann, bob, boss = make_user("ann"), make_user("bob"), make_user("boss")
    red = make_vc("red", members=[ann, bob], vc_admins=[boss])
    blue = make_vc("blue", members=[bob])
    use(make_job(red, ann, name="train"), 8, used=0.5)
    use(make_job(red, bob, name="tune"), 2, used=0.11, own=False, day=DAY + timedelta(days=1))
    use(make_job(blue, bob, name="secret"), 4, model="H100")
    return {"ann": ann, "bob": bob, "boss": boss, "stranger": make_user("eve")}


def asked(caller, by: str, **query: str):
    answer = Api(caller).get("/usage", by=by, **{**SPAN, **query})
    assert answer.status_code == 200, answer.json()
    return answer.json()


def hours(body, *keys: str) -> dict[object, float]:
    return {
        tuple(row[key] for key in keys) if len(keys) > 1 else row[keys[0]]: row["allocated_s"]
        / HOUR
        for row in body["results"]
    }


def test_an_admin_sees_all_of_it_by_any_dimensions(team):
    root = make_user(admin=True)
    assert hours(asked(root, "vc"), "vc") == {"red": 10, "blue": 4}
    assert hours(asked(root, "user"), "user") == {"ann": 8, "bob": 6}
    assert hours(asked(root, "gpu_model"), "gpu_model") == {"A100": 10, "H100": 4}
    assert hours(asked(root, "class"), "class") == {"guaranteed": 12, "borrowed": 2}
    assert hours(asked(root, "month"), "month") == {"2026-11": 14}
    assert hours(asked(root, "vc,day"), "vc", "day") == {
        ("red", "2026-11-05"): 8,
        ("red", "2026-11-06"): 2,
        ("blue", "2026-11-05"): 4,
    }
    jobs = {row["job"]["name"]: row["used_s"] / HOUR for row in asked(root, "job")["results"]}
    assert jobs == {"train": 4, "tune": 0.22, "secret": 0}


def test_a_row_says_what_was_used_idle_guaranteed_and_borrowed(team):
    [row] = asked(team["ann"], "user")["results"]
    assert row == {
        "user": "ann",
        "allocated_s": 8 * HOUR,
        "guaranteed_s": 8 * HOUR,
        "borrowed_s": 0,
        "used_s": 4 * HOUR,
        "idle_s": 4 * HOUR,
        "unknown_s": 0,
        "utilization": 50.0,
    }


def test_users_see_their_own_and_vc_admins_that_of_their_virtual_cluster(team):
    assert hours(asked(team["ann"], "user"), "user") == {"ann": 8}
    assert hours(asked(team["bob"], "vc"), "vc") == {"red": 2, "blue": 4}
    assert hours(asked(team["boss"], "user"), "user") == {"ann": 8, "bob": 2}
    nothing = asked(team["stranger"], "vc,user")
    assert (nothing["results"], nothing["total"]["allocated_s"]) == ([], 0)


@pytest.mark.parametrize("who", ["ann", "boss", "stranger"])
def test_no_name_of_another_tenant_leaks(team, who):
    for by in ("vc", "user", "job", "vc,user,job", "gpu_model", "day"):
        text = str(asked(team[who], by)).replace("'by'", "")
        assert "blue" not in text
        assert "secret" not in text
        assert "H100" not in text
    query = {"by": "vc", **SPAN}
    there = refusal(Api(team[who]).get("/usage", vc="blue", **query))
    assert there == refusal(Api(team[who]).get("/usage", vc="nowhere", **query))
    assert asked(team[who], "job", user="bob", gpu_model="H100")["results"] == []


def test_an_admin_sums_up_by_groups_and_a_user_counts_in_each_of_them(team):
    for name in ("vision", "speech"):
        group = Group.objects.create(name=name)
        GroupMember.objects.create(group=group, user=team["ann"])
    by_group = hours(asked(make_user(admin=True), "group"), "group")
    assert by_group == {"vision": 8, "speech": 8, "": 6}
    answer = Api(team["boss"]).get("/usage", by="group")
    assert refusal(answer) == (403, "forbidden")


def test_filters_order_and_pages(team):
    boss = team["boss"]
    assert hours(asked(boss, "user", user="bob"), "user") == {"bob": 2}
    assert hours(asked(boss, "day", until="2026-11-05"), "day") == {"2026-11-05": 8}
    most = asked(boss, "user", order="-idle")["results"]
    assert [row["user"] for row in most] == ["ann", "bob"]
    assert hours(asked(boss, "user", name="BO"), "user") == {"bob": 2}
    least = asked(boss, "user", order="allocated")["results"]
    assert [row["user"] for row in least] == ["bob", "ann"]
    first = asked(boss, "user", limit="1")
    assert [row["user"] for row in first["results"]] == ["ann"]
    assert first["total"]["allocated_s"] == 10 * HOUR
    second = asked(boss, "user", limit="1", cursor="1")
    assert [row["user"] for row in second["results"]] == ["bob"]
    assert (second["next"], first["next"] is None) == (None, False)


class TestByJob:
    """Lists by job are the sums of the days, in whatever order and however they are paged."""

    @pytest.fixture
    def jobs(self, team):
        """Jobs that lie within November, go over an end of it, or used GPUs of two models."""
        red = Job.objects.get(name="train").vc
        for number in range(12):
            job = make_job(red, team["bob" if number % 3 else "ann"], name=f"job-{number}")
            first = date(2026, 10, 28) + timedelta(days=3 * number)
            for day in range(1 + number % 4):
                own, model = (number + day) % 2 == 0, "H100" if number == 7 and day else "A100"
                use(
                    job,
                    1 + number % 5,
                    used=0.1 * day,
                    day=first + timedelta(days=day),
                    own=own,
                    model=model,
                )
        return team

    @staticmethod
    def naive(query, *scope: Q) -> list[tuple[str, int, int]]:
        rows = UsageDay.objects.filter(*scope, day__gte=query["since"], day__lte=query["until"])
        sums = rows.values("job__name").annotate(
            all=Sum("allocated_us"), idle=Sum("known_us") - Sum("used_us")
        )
        return [(r["job__name"], r["all"] // 10**6, round(r["idle"] / 10**6)) for r in sums]

    @staticmethod
    def paged(caller, size: int, **query):
        found, answer = [], asked(caller, "job,user", limit=size, **query)
        pages = [answer]
        while answer["next"]:
            cursor = parse_qs(urlsplit(answer["next"]).query)["cursor"][0]
            answer = asked(caller, "job,user", limit=size, cursor=cursor, **query)
            pages.append(answer)
        for page in reversed(pages[:-1]):
            cursor = parse_qs(urlsplit(answer["previous"]).query)["cursor"][0]
            answer = asked(caller, "job,user", limit=size, cursor=cursor, **query)
            assert answer["results"] == page["results"]
        assert answer["previous"] is None
        for page in pages:
            found += page["results"]
        return [(row["job"]["name"], row["allocated_s"], row["idle_s"]) for row in found]

    @pytest.mark.parametrize("order", ["allocated", "-allocated", "-used", "idle", "-idle", "job"])
    @pytest.mark.parametrize("span", [SPAN, {"since": "2026-10-29", "until": "2026-11-13"}])
    def test_pages_have_each_job_once_with_the_sums_of_the_span(self, jobs, order, span):
        found = self.paged(make_user(admin=True), 4, order=order, **span)
        assert sorted(found) == sorted(self.naive(span))
        keys = {"allocated": 1, "idle": 2}
        if measure := keys.get(order.removeprefix("-")):
            ordered = [row[measure] for row in found]
            assert ordered == sorted(ordered, reverse=order.startswith("-"))

    def test_filters_and_scopes_apply_to_jobs_over_an_end_too(self, jobs):
        of_bob = self.paged(jobs["boss"], 3, user="bob", order="-allocated")
        assert sorted(of_bob) == sorted(self.naive(SPAN, Q(user=jobs["bob"], vc__name="red")))
        own = self.paged(jobs["ann"], 3, order="-idle")
        assert sorted(own) == sorted(self.naive(SPAN, Q(user=jobs["ann"])))
        in_vc = self.paged(jobs["boss"], 3, vc="red", order="-used")
        assert sorted(in_vc) == sorted(self.naive(SPAN, Q(vc__name="red")))
        for model in ("A100", "H100"):
            of_model = self.paged(make_user(admin=True), 3, gpu_model=model, order="-used")
            assert sorted(of_model) == sorted(self.naive(SPAN, Q(gpu_model=model)))

    def test_days_that_are_not_kept_by_job_are_a_row_without_one(self, jobs, settings):
        settings.SKEP_USAGE_JOB_RETENTION_DAYS = 1
        before = asked(make_user(admin=True), "user", since="2026-10-01")["total"]
        counting.merge_old_days(date(2026, 11, 12))
        root = make_user(admin=True)
        answer = asked(root, "job", since="2026-10-01", order="-allocated")
        [merged] = [row for row in answer["results"] if row["job"]["id"] is None]
        assert merged["job"]["name"] == ""
        assert merged["allocated_s"] == sum(
            row.allocated_us // 10**6 for row in UsageDay.objects.filter(job=None)
        )
        assert sum(row["allocated_s"] for row in answer["results"]) == before["allocated_s"]
        query = {"since": "2026-10-01", "order": "allocated"}
        users = [
            row["user"]
            for row in asked(root, "user,job", **query)["results"]
            if row["job"]["id"] is None
        ]
        assert sorted(users) == ["ann", "bob"]

    @pytest.mark.parametrize("cursor", ["x", "WzFd", "bnVsbA", "W251bGwsIngiLGZhbHNlXQ", INFINITE])
    def test_a_cursor_that_no_page_gave_out_is_refused(self, jobs, cursor):
        answer = Api(jobs["ann"]).get("/usage", by="job", cursor=cursor, **SPAN)
        assert answer.status_code == 404


@time_machine.travel(datetime(2026, 12, 20, 12, tzinfo=UTC))
def test_sums_over_months_and_their_ends_are_those_of_the_days(team):
    red = Job.objects.get(name="train").vc
    for day in range(0, 200, 3):
        user = team["ann" if day % 2 else "bob"]
        job = Job.objects.filter(owner=user, vc=red).first()
        use(job, 1 + day % 4, used=0.3, day=date(2026, 6, 1) + timedelta(days=day))
    for since, until in [
        ("2026-06-01", "2026-06-30"),
        ("2026-06-02", "2026-06-29"),
        ("2026-06-30", "2026-08-01"),
        ("2026-06-15", "2026-11-15"),
        ("2026-07-31", "2026-07-31"),
        ("2026-06-15", "2026-12-19"),
        ("2026-06-15", "2026-12-20"),  # today
        ("2026-12-20", "2026-12-20"),
        ("2026-05-01", "9999-01-01"),
    ]:
        span = {"since": since, "until": until}
        if until == "9999-01-01":
            span["since"] = "9990-01-01"
        rows = UsageDay.objects.filter(day__gte=span["since"], day__lte=until)
        for caller in ("boss", "ann"):
            seen = rows.filter(vc=red) if caller == "boss" else rows.filter(user=team["ann"])
            expected = dict(seen.values_list("user__username").annotate(all=Sum("allocated_us")))
            body = asked(team[caller], "user", **span)
            assert {row["user"]: row["allocated_s"] for row in body["results"]} == {
                user: us // 10**6 for user, us in expected.items()
            }
            assert body["total"]["allocated_s"] == sum(expected.values()) // 10**6
            months = asked(team[caller], "month,class", **span)["results"]
            assert sum(row["allocated_s"] for row in months) == body["total"]["allocated_s"]


@pytest.mark.parametrize(
    "query",
    [
        {"by": "weather"},
        {"by": ","},
        {"by": "day,vc,user,job"},
        {"since": "yesterday"},
        {"since": "2026-12-01", "until": "2026-11-01"},
        {"since": "0001-01-01"},
        {"order": "vc"},
        {"job": "x"},
    ],
)
def test_a_bad_question_is_refused_by_field(team, query):
    answer = Api(team["ann"]).get("/usage", **query)
    assert refusal(answer) == (400, "invalid")
    assert answer.json()["details"]["fields"]


def test_the_number_of_queries_does_not_depend_on_the_rows(team):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert api.get("/usage", by="user,job", **SPAN).status_code == 200
        return len(captured)

    api = Api(team["boss"])
    before = queries()
    for _ in range(5):
        member = make_user()
        use(make_job(Job.objects.get(name="train").vc, member), 1)
    assert queries() == before


@pytest.mark.parametrize("order", ["-allocated", "job"])
def test_rows_are_filtered_by_a_part_of_their_names_in_lists_and_files(team, order):
    for name in ("train_v2", "trainXv2", "100%"):
        use(make_job(Job.objects.get(name="train").vc, team["ann"], name=name), 1)
    by_job = {"by": "job", "order": order, **SPAN}

    def names(by: str = "job", **filters: str) -> set[str]:
        answer = Api(team["boss"]).get("/usage/export", **by_job | {"by": by} | filters)
        return {row["job"] for row in csv.DictReader(answer.content.decode().splitlines())}

    assert names(name="TRAIN") == {"train", "train_v2", "trainXv2"}
    assert names(name="n_v") == {"train_v2"}  # no pattern of SQL
    assert names(name="%") == {"100%"}
    assert names("job,day", name="n_v") == {"train_v2"}
    assert names("vc,job", name="blu") == set()
    listed = asked(team["boss"], "job", order=order, name="n_v")
    assert [row["job"]["name"] for row in listed["results"]] == ["train_v2"]
    refused = Api(team["boss"]).get("/usage", by="day", name="2026")
    assert refusal(refused) == (400, "invalid")


def test_32_csv_has_the_same_rows_and_no_formulas(team):
    for name in ("=cmd|'/c calc'!A0", "+1", "-1", "@SUM(A1)", " =1"):
        use(make_job(Job.objects.get(name="train").vc, team["ann"], name=name), 1)
    answer = Api(team["ann"]).get("/usage/export", by="job,day", **SPAN)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("text/csv")
    assert "attachment" in answer["Content-Disposition"]
    rows = list(csv.DictReader(answer.content.decode().splitlines()))
    assert {row["job"]: row["allocated_s"] for row in rows}["train"] == str(8 * HOUR)
    assert len(rows) == 6
    assert not any(row["job"].lstrip().startswith(("=", "+", "-", "@")) for row in rows)
    assert rows[0].keys() >= {"job_id", "job", "day", "used_s", "idle_s"}
