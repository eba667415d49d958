"""`pages`: what the pages and clients of OpenPAI ask for, over HTTP, of a platform with 1,000,000
jobs, 5,000 users, 200 virtual clusters, 10,000 nodes and 1,000,000 audit entries.

SKEP_BENCH_JOBS=100000 makes a smaller one. The reference of the times is the goal, 100 ms, and 150
for OpenPAI's API; OpenPAI takes 10 s for its list at 30,000 jobs. "queries" counts those of the
database. SKEP_BENCH_PAGES=openpai asks only for pages with this in their name.

SKEP_BENCH_KEEP=1 keeps the database, and uses one that was kept: filling takes minutes. It needs a
server that outlives the benchmark, by SKEP_DATABASE_URL.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from tests.support import engines

engines.prepare_environment()
os.environ["DJANGO_SETTINGS_MODULE"] = "skep_platform.settings"
os.environ["SKEP_OPENPAI_API"] = "1"

import django  # noqa: E402

django.setup()

import httpx  # noqa: E402
from benchmarks.pages_fill import Size, fill  # noqa: E402
from benchmarks.report import percentile, report  # noqa: E402
from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import (  # noqa: E402
    CaptureQueriesContext,
    setup_databases,
    teardown_databases,
)
from django.utils import timezone  # noqa: E402
from tests.support.gateway_server import ProcessServer  # noqa: E402
from tests.support.platform_api import ROOT, Api  # noqa: E402
from tests.support.platform_factories import make_user  # noqa: E402

from skep_platform.accounts.models import User  # noqa: E402
from skep_platform.core.notifications import valkey  # noqa: E402
from skep_platform.jobs.models import Job  # noqa: E402
from skep_platform.tenancy import memberships  # noqa: E402
from skep_platform.tenancy.models import VirtualCluster  # noqa: E402

BENCH = "pages"
GOAL_MS, GOAL_OPENPAI_MS = 100.0, 150.0
OPENPAI = "/rest-server/api/v2"
REPEATS, WARM = 20, 2


@dataclass(frozen=True, slots=True)
class Page:
    """One request: its name, who sends it, its path, and the parameters."""

    name: str
    caller: str
    path: str
    query: dict[str, Any] = field(default_factory=dict)


def main() -> None:
    jobs = int(os.environ.get("SKEP_BENCH_JOBS", "1000000"))
    share = jobs / 1_000_000
    size = Size(
        jobs=jobs,
        audit=jobs,
        nodes=max(int(10_000 * share), 500),
        users=max(int(5000 * share), 500),
    )
    settings.ALLOWED_HOSTS.append("testserver")
    keep = bool(os.environ.get("SKEP_BENCH_KEEP"))
    databases = setup_databases(
        verbosity=0, interactive=False, keepdb=keep, serialized_aliases=set()
    )
    try:
        if not Job.objects.exists():
            began = time.perf_counter()
            fill(size)
            report(BENCH, "fill", time.perf_counter() - began, "s")
        callers = _callers()
        connection.close()
        with ProcessServer(SKEP_LOG_LEVEL="WARNING") as server:
            address = f"http://127.0.0.1:{server.port}"
            with httpx.Client(base_url=address, timeout=120) as http:
                report(BENCH, "load_at_the_start", os.getloadavg()[0], "processes")
                for page in _pages(http, callers):
                    _measure(http, callers, page)
                report(BENCH, "load_at_the_end", os.getloadavg()[0], "processes")
    finally:
        connection.close_pool()  # type: ignore[attr-defined]
        teardown_databases(databases, verbosity=0, keepdb=keep)


def _callers() -> dict[str, Api]:
    """Return an admin, a member who has jobs, and an admin of a virtual cluster."""
    manager = User.objects.filter(username="manager").first() or make_user("manager")
    memberships.set_member(None, VirtualCluster.objects.get(name="vc-1"), "manager", "admin")
    root = User.objects.filter(username="root").first() or make_user("root", admin=True)
    return {
        "admin": Api(root),
        "member": Api(User.objects.get(username="user-2")),
        "vc_admin": Api(manager),
    }


def _pages(http: httpx.Client, callers: dict[str, Api]) -> list[Page]:
    newest = Job.objects.order_by("-created_at").first()
    large = Job.objects.get(name="large")
    assert newest is not None
    today = timezone.now().date()
    since = today - timedelta(days=89)
    span = {"since": since.isoformat(), "until": today.isoformat()}
    week = {"since": (today - timedelta(days=6)).isoformat()}
    most, model = {"order": "-allocated"}, {"gpu_model": "H100"}
    month = (today.replace(day=1) - timedelta(days=1)).strftime("%Y-%m")
    deep = _deep(http, callers["admin"], newest)
    pages = [
        Page("jobs_deep", "admin", "/jobs", {"cursor": deep}),
        Page("job", "admin", f"/jobs/{newest.pk}"),
        Page("job_events", "admin", f"/jobs/{newest.pk}/events"),
        Page("job_of_2000_tasks", "admin", f"/jobs/{large.pk}"),
        Page("tasks_of_2000", "admin", f"/jobs/{large.pk}/tasks", {"limit": 500}),
        Page("cluster", "admin", "/cluster"),
        Page("cluster_grid", "admin", "/cluster/grid"),
        Page("nodes", "admin", "/nodes"),
        Page("virtual_clusters", "admin", "/virtual-clusters"),
        Page("users", "admin", "/users"),
        Page("usage_by_vc", "admin", "/usage", {"by": "vc", **span}),
        Page("usage_by_user", "admin", "/usage", {"by": "user", **span}),
        Page("usage_by_day", "admin", "/usage", {"by": "day", **span}),
        Page("usage_by_job", "admin", "/usage", {"by": "job", "order": "-idle", **span}),
        Page("usage_by_job_1000", "admin", "/usage", {"by": "job", "limit": 1000, **most, **span}),
        Page("usage_by_job_of_7_days", "admin", "/usage", {"by": "job", **most, **week}),
        Page("usage_by_job_of_model", "admin", "/usage", {"by": "job", **model, **most, **span}),
        Page("usage_by_job", "vc_admin", "/usage", {"by": "job", **most, **span}),
        Page("usage_by_job_and_day", "admin", "/usage", {"by": "job,day", **span}),
        Page("usage_by_job_and_class", "admin", "/usage", {"by": "job,class", **span}),
        Page("usage_by_job_and_month", "vc_admin", "/usage", {"by": "job,month", **most, **span}),
        Page("usage_by_model", "admin", "/usage", {"by": "gpu_model,class", **span}),
        Page("usage_by_month_and_user", "admin", "/usage", {"by": "month,user", **span}),
        Page("usage_of_own_vc", "vc_admin", "/usage", {"by": "user", **span}),
        Page("usage_of_own", "member", "/usage", {"by": "day", **span}),
        Page("report", "vc_admin", "/virtual-clusters/vc-1/report", {"month": month}),
    ]
    for caller in ("admin", "member", "vc_admin"):
        for name, query in {
            "": {},
            "_by_state": {"state": "FAILED"},
            "_active": {"state": "WAITING,RUNNING,STOPPING"},
            "_by_vc": {"virtual_cluster": "vc-1"},
            "_by_user": {"owner": "user-202"},
            "_by_tag": {"tag": "a"},
            "_by_rare_tag": {"tag": "rare"},
            "_search_frequent": {"search": "Resnet"},
            "_search_rare": {"search": "NEEDLE"},
            "_search_none": {"search": "no such job"},
            "_search_short": {"search": "le"},
            "_by_name": {"ordering": "name"},
            "_by_gpus": {"ordering": "-gpus"},
            "_by_priority": {"ordering": "-priority"},
        }.items():
            pages.append(Page(f"jobs{name}", caller, "/jobs", query))
        pages.append(Page("jobs_count", caller, "/jobs/count"))
        pages.append(Page("jobs_count_search", caller, "/jobs/count", {"search": "resnet"}))
        for name, query in {
            "": {},
            "_by_actor": {"actor": "user-7"},
            "_by_action": {"action": "job.stop"},
            "_refused": {"outcome": "refused"},
            "_search_rare": {"target": "needle"},
            "_search_frequent": {"target": "resnet"},
            "_search_none": {"target": "no such job"},
        }.items():
            pages.append(Page(f"audit{name}", caller, "/audit", query))
    pages = [replace(page, path=ROOT + page.path) for page in pages]
    pages += _openpai_pages()
    chosen = os.environ.get("SKEP_BENCH_PAGES", "")
    return [page for page in pages if chosen in page.name]


def _openpai_pages() -> list[Page]:
    """OpenPAI's list of jobs with each filter, order and page that it has. Its own page asks for 20
    jobs and their number; scripts ask for nothing, and get 5,000."""
    orders = (
        *("jobName", "submissionTime", "username", "vc", "retries", "totalTaskNumber"),
        *("totalGpuNumber", "state", "completionTime", "jobPriority"),
    )
    queries: dict[str, dict[str, Any]] = {
        "": {},
        "_counted": {"withTotalCount": "true"},
        "_deep": {"offset": 90_000},
        "_by_state": {"state": "FAILED"},
        "_active": {"state": "WAITING,RUNNING"},
        "_by_vc": {"vc": "vc-1", "withTotalCount": "true"},
        "_by_user": {"username": "user-202", "withTotalCount": "true"},
        "_by_tag": {"tagsContain": "a"},
        "_by_rare_tag": {"tagsContain": "rare"},
        "_without_tag": {"tagsNotContain": "a,b", "withTotalCount": "true"},
        "_by_priority": {"jobPriority": "default"},
        "_by_rare_priority": {"jobPriority": "prod"},
        "_keyword_frequent": {"keyword": "resnet", "withTotalCount": "true"},
        "_keyword_rare": {"keyword": "needle"},
        "_keyword_user": {"keyword": "user-20"},
        "_keyword_vc": {"keyword": "vc-1"},
        "_keyword_none": {"keyword": "no such job"},
        "_keyword_short": {"keyword": "le"},
    }
    for order in orders:
        queries |= {f"_{order}_{way}": {"order": f"{order},{way}"} for way in ("ASC", "DESC")}
    found = [
        Page(f"openpai_jobs{name}", caller, f"{OPENPAI}/jobs", {"limit": 20, **query})
        for caller in ("admin", "member", "vc_admin")
        for name, query in queries.items()
    ]
    return [*found, Page("openpai_jobs_5000", "admin", f"{OPENPAI}/jobs")]


def _deep(http: httpx.Client, admin: Api, newest: Job) -> str:
    """Return the cursor of a page in the middle of the list of jobs."""
    from skep_platform.core.paging import Cursor

    middle = Job.objects.order_by("created_at").filter(name__endswith="00").first() or newest
    half = middle.created_at + (newest.created_at - middle.created_at) / 2
    return Cursor((half, newest.pk)).encode()


def _forget_limits() -> None:
    """Let the callers ask again: a user may search so many times a minute."""
    for key in valkey().scan_iter("skep:rate:*"):
        valkey().delete(key)


def _measure(http: httpx.Client, callers: dict[str, Api], page: Page) -> None:
    api = callers[page.caller]
    headers = {"Authorization": f"Bearer {api.token}"}
    took = []
    _forget_limits()
    for number in range(WARM + REPEATS):
        began = time.perf_counter()
        answer = http.get(page.path, params=page.query, headers=headers)
        elapsed = time.perf_counter() - began
        answer.raise_for_status()
        if number >= WARM:
            took.append(1000 * elapsed)
        if number == WARM and elapsed > 5:
            break
    with CaptureQueriesContext(connection) as captured:
        api.client.get(page.path, page.query)
    name = f"{page.name}_as_{page.caller}"
    goal = GOAL_OPENPAI_MS if page.path.startswith(OPENPAI) else GOAL_MS
    report(BENCH, f"{name}_p50", percentile(took, 50), "ms")
    report(BENCH, f"{name}_p95", percentile(took, 95), "ms", goal)
    report(BENCH, f"{name}_bytes", answer.num_bytes_downloaded, "B")
    report(BENCH, f"{name}_queries", len(captured), "queries")
    if os.environ.get("SKEP_BENCH_SQL") and percentile(took, 50) > 60:
        for query in captured.captured_queries:
            if float(query["time"]) > 0.02:
                print(f"# {query['time']} {query['sql'][:1500]}", flush=True)


if __name__ == "__main__":
    main()
