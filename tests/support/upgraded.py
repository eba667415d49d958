"""Servers of this release on a database of the one before: what pages and the scheduler see.

Run as `python -m tests.support.upgraded` in a process of its own.
"""

from __future__ import annotations

import django

django.setup()

from tests.support.jobs_world import report, submit  # noqa: E402
from tests.support.platform_api import Api  # noqa: E402

from skep_platform.accounts.models import User  # noqa: E402
from skep_platform.jobs.models import TaskAttempt  # noqa: E402
from skep_platform.scheduling.tick import Scheduler, run_once  # noqa: E402
from skep_platform.tenancy.models import VirtualCluster  # noqa: E402


def main() -> None:
    api = Api(User.objects.get(username="admin"))
    api.client.defaults["SERVER_NAME"] = "127.0.0.1"
    for resource in ("jobs", "nodes"):
        answer = api.get(f"/{resource}")
        print(resource, answer.status_code, len(answer.json()["results"]))
    scheduler = Scheduler()
    run_once(scheduler)
    print("of the scheduler:", len(scheduler.source.state.waiting), "waits")
    for attempt in TaskAttempt.objects.filter(job__name="gang-0", state="ASSIGNED"):
        report(attempt, "ready")
        report(attempt, "running", "exited", "released")
    owner, team = User.objects.get(username="owner"), VirtualCluster.objects.get(name="team")
    job = submit(owner, team, name="after", priority="oppo")
    placed = run_once(scheduler)
    print("placed", len(placed & {str(job.pk)}))


if __name__ == "__main__":
    main()
