"""How many bytes of log are stored for one job: limit `log_bytes_per_job` of its virtual cluster.

Each process reads what a job has stored when it first stores for it, and counts on from there. With
several gateways a job may therefore exceed its limit by what the others stored meanwhile.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from skep_platform.core.events import record
from skep_platform.core.models import Event
from skep_platform.tenancy.limits import LIMITS

NAME = "log_bytes_per_job"
KIND = "job.log_limit"
MOST_REMEMBERED = 20_000  # jobs
READ = """
SELECT j.id, coalesce(l.value, %s),
       coalesce((SELECT sum(c.size) FROM telemetry_logchunk c WHERE c.job_id = j.id), 0)::bigint
  FROM jobs_job j LEFT JOIN tenancy_vclimit l ON l.vc_id = j.vc_id AND l.name = %s
 WHERE j.id = ANY(%s)
"""


@dataclass(slots=True)
class _Job:
    most: int
    stored: int
    told: bool = False


class LogAllowance:
    """Of this process. Safe for the threads of the gateway: a lost update costs some bytes."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[UUID, _Job] = OrderedDict()

    def spent(self, jobs: Iterable[UUID]) -> set[UUID]:
        """Those that may store nothing more. One query for jobs that are not known yet."""
        asked = set(jobs)
        missing = [job for job in asked if job not in self._jobs]
        if missing:
            with connection.cursor() as cursor:
                cursor.execute(READ, [LIMITS[NAME].default, NAME, missing])
                for job, most, stored in cursor.fetchall():
                    self._jobs[job] = _Job(most, stored)
            while len(self._jobs) > MOST_REMEMBERED:
                self._jobs.popitem(last=False)
        known = {job: self._jobs[job] for job in asked if job in self._jobs}
        over = {job: one for job, one in known.items() if one.stored >= one.most}
        for job, one in over.items():
            if not one.told:
                one.told = True
                _tell(job, one.most)
        return set(over)

    def add(self, stored: Mapping[UUID, int]) -> None:
        """Count bytes that were stored, by job."""
        for job, size in stored.items():
            if job in self._jobs:
                self._jobs[job].stored += size

    def forget(self) -> None:
        self._jobs.clear()


def _tell(job: UUID, most: int) -> None:
    """Once for each job."""
    if Event.objects.filter(subject_type="job", subject_id=str(job), kind=KIND).exists():
        return
    message = (
        f"Its log has reached {most} bytes, the limit of its virtual cluster: what it prints from "
        "now on is not stored. The job goes on."
    )
    record("job", job, KIND, message, most_bytes=most)
