"""How well the durations of jobs were predicted: how many intervals held, and by how much medians
were off; and how many intervals of their starts held.

A job counts once, with its use. By day and source there is one row, so that thirty days are read as
a few rows, however many jobs there were.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, timedelta

from django.db import connection
from django.utils import timezone

from skep_platform.core.bulk import deletion_time
from skep_platform.jobs.models import Job
from skep_platform.jobs.states import JobState
from skep_platform.telemetry.models import PredictionDay

DAYS = 30
START = "start"  # the source of rows about starts
KEPT = timedelta(days=400)
# Upper bounds of |predicted - actual| / actual. The last class has all above.
BOUNDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class Score:
    """Predictions of one source. `within` of `intervals` held the duration; `errors` are jobs by
    class of `BOUNDS`."""

    source: str
    jobs: int = 0
    intervals: int = 0
    within: int = 0
    errors: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def add(self, job: Job, seconds: float) -> None:
        self.jobs += 1
        found = job.prediction
        if found is None:
            return
        off = abs(found["median_s"] - seconds) / max(seconds, 1.0)
        self.errors[bisect.bisect_left(BOUNDS, off)] += 1
        if found["low_s"] is not None:
            self.intervals += 1
            self.within += found["low_s"] <= seconds <= found["high_s"]

    def merge(self, other: PredictionDay) -> None:
        self.jobs += other.jobs
        self.intervals += other.intervals
        self.within += other.within
        self.errors = [a + b for a, b in zip(self.errors, other.errors, strict=True)]

    @property
    def coverage(self) -> float | None:
        """Return the share of intervals that held the duration."""
        return self.within / self.intervals if self.intervals else None

    @property
    def median_error(self) -> float | None:
        """Return by what part of the duration half of the predictions were off at most,
        interpolated within its class."""
        half, seen = sum(self.errors) / 2, 0
        if not half:
            return None
        for number, count in enumerate(self.errors):
            if seen + count >= half:
                low = BOUNDS[number - 1] if number else 0.0
                high = BOUNDS[min(number, len(BOUNDS) - 1)]
                return low + (high - low) * (half - seen) / count
            seen += count
        return BOUNDS[-1]


def count(jobs: Iterable[Job]) -> None:
    """Count finished jobs. The caller sees to it that each is counted once, in its transaction. A
    statement for each day and source."""
    found: dict[tuple[date, str], Score] = {}
    for job in jobs:
        if job.state != JobState.SUCCEEDED or not job.started_at or not job.finished_at:
            continue
        source = job.prediction["source"] if job.prediction else ""
        key = (job.finished_at.astimezone(UTC).date(), source)
        seconds = (job.finished_at - job.started_at).total_seconds()
        found.setdefault(key, Score(source)).add(job, seconds)
    with connection.cursor() as cursor:
        for (day, source), score in sorted(found.items()):
            row = (day, source, score.jobs, score.intervals, score.within, score.errors)
            cursor.execute(ADD, row)


def count_starts(by_day: Mapping[date, tuple[int, int]]) -> None:
    """Count jobs that started, by day: how many, and how many of them within their interval. The
    caller sees to it that each is counted once, in its transaction."""
    none = [0] * (len(BOUNDS) + 1)
    with connection.cursor() as cursor:
        for day, (jobs, within) in sorted(by_day.items()):
            cursor.execute(ADD, (day, START, jobs, jobs, within, none))


def last_days(days: int = DAYS) -> Mapping[str, Score]:
    """Return the score of each source over the last days, those without a prediction under "", and
    that of starts under `START`."""
    since = timezone.now().date() - timedelta(days=days)
    found: dict[str, Score] = {}
    for row in PredictionDay.objects.filter(day__gte=since).order_by("source"):
        found.setdefault(row.source, Score(row.source)).merge(row)
    return found


def delete_old() -> int:
    """Delete days that are older than any answer. Returns how many rows."""
    return PredictionDay.objects.filter(day__lt=deletion_time().date() - KEPT).delete()[0]


ADD = """
INSERT INTO telemetry_predictionday AS d (day, source, jobs, intervals, within, errors)
VALUES (%s, %s, %s, %s, %s, %s)
ON CONFLICT (day, source) DO UPDATE
   SET jobs = d.jobs + excluded.jobs,
       intervals = d.intervals + excluded.intervals,
       within = d.within + excluded.within,
       errors = (SELECT array_agg(a + b ORDER BY i)
                   FROM unnest(d.errors, excluded.errors) WITH ORDINALITY AS both_(a, b, i))
"""
