"""The monthly report of a virtual cluster: what it used, who used it well, how long jobs waited."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.db.models import Count, FloatField, Q, Sum
from django.db.models.functions import Cast
from django.utils import timezone

from skep_platform.core import ports
from skep_platform.core.bulk import fetch
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.usage import budgets
from skep_platform.usage.models import UsageDay
from skep_platform.usage.queries import SECOND, SUMS, shown_sums

MAX_USERS = 500
MAX_JOBS = 10


def report(vc: VirtualCluster, month: date, now: datetime | None = None) -> dict[str, Any]:
    """Return the report of a month, by its first day; of the present one up to now. A constant
    number of queries. Times are GPU-seconds, but for those of waiting, in seconds."""
    now = now or timezone.now()
    end = budgets.next_month(month)
    rows = UsageDay.objects.filter(vc_id=vc.pk, day__gte=month, day__lt=end)
    sums = rows.aggregate(**SUMS)
    total = shown_sums(sums)
    until = min(_midnight(end), max(now, _midnight(month)))
    owned, lent = ports.vc_capacity.call(vc.pk, _midnight(month), until) or (None, None)
    share = round(100 * total["guaranteed_s"] / owned, 1) if owned else None
    return {
        "vc": vc.name,
        "month": f"{month:%Y-%m}",
        "since": month,
        "until": min(end - timedelta(days=1), now.astimezone(UTC).date()),
        "total": total,
        "owned_s": owned,
        "lent_s": lent,
        "quota_share": share,
        "users": _users(rows),
        "idle_jobs": _idle_jobs(rows),
        "waiting": _waiting(vc, month, end),
        "budget": budgets.status(vc, now) if month == budgets.month_of(now) else None,
    }


def _users(rows: Any) -> list[dict[str, Any]]:
    """Return each user's sums, the one with the most first. `gpus`: how many its jobs asked for,
    on average over the time allocated to those that are still known."""
    weight = Cast("allocated_us", FloatField())
    grouped = (
        rows.order_by()
        .values("user__username")
        .annotate(
            **SUMS,
            jobs=Count("job", distinct=True),
            asked=Sum(weight * Cast("job__gpus", FloatField())),
            asked_over=Sum(weight, filter=Q(job__isnull=False)),
        )
        .order_by("-allocated", "user__username")
    )
    return [
        {
            "user": row["user__username"],
            "jobs": row["jobs"],
            "gpus": round(row["asked"] / row["asked_over"], 1) if row["asked"] else None,
            **shown_sums(row),
        }
        for row in grouped[:MAX_USERS]
    ]


def _idle_jobs(rows: Any) -> list[dict[str, Any]]:
    """Return the jobs that left most GPU time idle."""
    grouped = (
        rows.filter(job__isnull=False)
        .order_by()
        .values("job_id", "job__name", "job__gpus", "user__username")
        .annotate(**SUMS, idle=Sum("known_us") - Sum("used_us"))
        .filter(idle__gte=SECOND)
        .order_by("-idle", "job_id")
    )
    return [
        {
            "job": {"id": row["job_id"], "name": row["job__name"]},
            "user": row["user__username"],
            "gpus": row["job__gpus"],
            **shown_sums(row),
        }
        for row in grouped[:MAX_JOBS]
    ]


def _waiting(vc: VirtualCluster, month: date, end: date) -> dict[str, Any]:
    [(jobs, half, most)] = fetch(WAITING, [vc.pk, _midnight(month), _midnight(end)])
    return {"jobs": jobs, "p50_s": _rounded(half), "p95_s": _rounded(most)}


def _rounded(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


# Jobs that were submitted in the month and placed since, from their submission to their first
# placement; one that must not begin before a moment or waits for others counts from its submission.
WAITING = """
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY waited),
       percentile_cont(0.95) WITHIN GROUP (ORDER BY waited)
  FROM (SELECT greatest(extract(epoch FROM placed.at - j.created_at), 0)::float8 AS waited
          FROM jobs_job j
          JOIN LATERAL (SELECT min(a.created_at) AS at FROM jobs_taskattempt a
                         WHERE a.job_id = j.id AND a.index = 1) placed ON placed.at IS NOT NULL
         WHERE j.vc_id = %s AND j.created_at >= %s AND j.created_at < %s AND j.attempt > 0) waits
"""
