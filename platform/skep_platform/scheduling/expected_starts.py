"""How often the intervals of starts hold.

Each minute the jobs that wait and have an interval get it stored, the first one of each; when a job
has started, it counts as within its interval or not, once, in the scores of predictions. One that
ends without a start does not count.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, date, datetime

from django.db import transaction

from skep_platform.core.bulk import fetch
from skep_platform.scheduling import start_intervals
from skep_platform.scheduling.models import ExpectedStart
from skep_platform.telemetry import calibration
from skep_platform.tenancy.models import VirtualCluster

MOST_VCS = 20  # of which intervals are computed in one round; others come in the next ones
MOST_STARTS = 5000  # scored in one round


def store() -> int:
    """Store the intervals of waiting jobs that have none yet. Returns how many jobs there were.
    Two rounds at once do no harm."""
    made = 0
    ids = [pk for (pk,) in fetch(VCS, [MOST_VCS])]
    for vc in VirtualCluster.objects.filter(pk__in=ids):
        found = start_intervals.of_virtual_cluster(vc)
        rows = [
            ExpectedStart(
                job_id=pk,
                low=datetime.fromtimestamp(low, UTC),
                high=datetime.fromtimestamp(high, UTC),
            )
            for pk, (low, high) in found.items()
        ]
        waiting = {pk for (pk,) in fetch(STILL_WAITING, [[row.job_id for row in rows]])}
        rows = [row for row in rows if row.job_id in waiting]
        ExpectedStart.objects.bulk_create(rows, ignore_conflicts=True)
        made += len(rows)
    return made


@transaction.atomic
def score() -> int:
    """Count the jobs that have started since the last round, and forget them and those that ended.
    Returns how many started."""
    found: dict[date, list[bool]] = defaultdict(list)
    for low, high, started in fetch(OVER, [MOST_STARTS]):
        if started is not None:
            found[started.astimezone(UTC).date()].append(low <= started <= high)
    calibration.count_starts({day: (len(held), sum(held)) for day, held in found.items()})
    return sum(len(held) for held in found.values())


# In any order, so that each virtual cluster has its turn however many there are.
VCS = """
SELECT vc_id FROM (
  SELECT DISTINCT j.vc_id FROM jobs_job j
   WHERE j.state = 'WAITING' AND j.placed_at IS NULL AND j.priority >= 0 AND j.gpus > 0
     AND j.started_at IS NULL
     AND NOT EXISTS (SELECT FROM scheduling_expectedstart p WHERE p.job_id = j.id)
) waiting ORDER BY random() LIMIT %s
"""

STILL_WAITING = """
SELECT id::text FROM jobs_job
 WHERE id = ANY(%s::uuid[]) AND state = 'WAITING' AND placed_at IS NULL AND started_at IS NULL
"""

# Materialized: PostgreSQL may run a subquery once for each row, with a limit of its own each time.
OVER = """
WITH ended AS MATERIALIZED (
   SELECT o.job_id FROM scheduling_expectedstart o JOIN jobs_job k ON k.id = o.job_id
    WHERE k.placed_at IS NOT NULL OR k.started_at IS NOT NULL OR k.finished_at IS NOT NULL
    LIMIT %s FOR UPDATE OF o SKIP LOCKED)
DELETE FROM scheduling_expectedstart p USING ended, jobs_job j
 WHERE p.job_id = ended.job_id AND j.id = p.job_id
RETURNING p.low, p.high, least(j.placed_at, j.started_at)
"""
