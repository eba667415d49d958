"""What becomes of running jobs when the box goes down: their containers go on, unless told."""

from __future__ import annotations

import time

from skep_client.client import Skep
from skep_client.models import JobSummary
from skep_platform.onebox.home import Home

STOPPED_WITHIN_S = 60.0  # longer than the grace that a task gets


def active_jobs(home: Home, *, stop: bool) -> list[JobSummary]:
    """Jobs that run now; with `stop` those left after all were asked to. Raises SkepError."""
    url, token = home.read_status()["url"], home.operator_token.read_text()
    with Skep(url, token, retry_delays_s=()) as skep:
        found = _active(skep)
        if not stop:
            return [job for job in found if job.state != "WAITING"]
        for job in found:
            skep.stop(job.id)
        deadline = time.monotonic() + STOPPED_WITHIN_S
        while found and time.monotonic() < deadline:
            time.sleep(0.2)
            found = _active(skep)
        return found


def _active(skep: Skep) -> list[JobSummary]:
    return list(skep.jobs(state=["WAITING", "RUNNING", "STOPPING"], limit=500))
