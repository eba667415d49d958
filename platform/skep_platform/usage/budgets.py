"""Budgets: how many guaranteed GPU-hours a virtual cluster may use in a month, and what follows.

The count stores in the row of a budget what is used and whether that is all of it. The scheduler
reads the row: a guaranteed job that waits in a virtual cluster whose budget is used up counts as
opportunistic. What runs goes on. With the next month, or a larger budget, jobs that wait are
guaranteed again; an attempt that was started without its guarantee stays what it is.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import notifications
from skep_platform.core.bulk import insert_rows
from skep_platform.core.compiled import Among, Compiled
from skep_platform.core.errors import SkepError
from skep_platform.core.events import event, record
from skep_platform.core.models import Event
from skep_platform.jobs.lifecycle.messages import Reason, reason
from skep_platform.tenancy.models import VirtualCluster
from skep_platform.usage.models import Budget, UsageRollup

WARN_PERCENT = 80
MAX_HOURS = 100_000_000
HOUR_US = 3600 * 1_000_000
COUNTED = ("month", "used_us", "warned", "used_up")


@dataclass(frozen=True, slots=True)
class Status:
    """What is used of a budget. `state`: "none" without a budget, "ok", "warning" or "used_up"."""

    state: str
    month: date
    next_month: date
    gpu_hours: int | None = None
    used_us: int = 0
    message: str = ""

    @property
    def percent(self) -> float | None:
        if self.gpu_hours is None:
            return None
        return round(100 * self.used_us / (self.gpu_hours * HOUR_US), 1) if self.gpu_hours else 100


def month_of(day: date | datetime) -> date:
    """Return the first day of the month (UTC)."""
    if isinstance(day, datetime):
        day = day.astimezone(UTC).date()
    return day.replace(day=1)


def next_month(month: date) -> date:
    """Return the first day of the month after it."""
    return month.replace(year=month.year + month.month // 12, month=month.month % 12 + 1)


def status(vc: VirtualCluster, now: datetime | None = None) -> Status:
    """Return what is used of the budget of a virtual cluster this month. One query."""
    month = month_of(now or timezone.now())
    budget = Budget.objects.filter(vc_id=vc.pk).first()
    if budget is None:
        return Status("none", month, next_month(month))
    used = budget.used_us if budget.month == month else 0
    if used >= budget.gpu_hours * HOUR_US:
        state, message = "used_up", _exceeded(vc.name, budget.gpu_hours, used, month)
    elif _is_much(budget, used):
        state, message = "warning", _warning(vc.name, budget.gpu_hours, used, month)
    else:
        state, message = "ok", ""
    return Status(state, month, next_month(month), budget.gpu_hours, used, message)


@transaction.atomic
def set_budget(user: User | None, vc: VirtualCluster, gpu_hours: int | None) -> Status:
    """Set how many guaranteed GPU-hours a virtual cluster may use in a month; None: without a
    limit. It holds from now on, for this month, too.

    Raises SkepError `budget_out_of_range`."""
    if gpu_hours is not None and not 0 <= gpu_hours <= MAX_HOURS:
        raise SkepError(
            f"A budget is a whole number of GPU-hours from 0 to {MAX_HOURS}.",
            code="budget_out_of_range",
            value=gpu_hours,
            minimum=0,
            maximum=MAX_HOURS,
        )
    VirtualCluster.objects.select_for_update().get(pk=vc.pk)
    known = Budget.objects.filter(vc_id=vc.pk).first()
    before = known.gpu_hours if known is not None else None
    if gpu_hours == before:
        return status(vc)
    if gpu_hours is None:
        Budget.objects.filter(vc_id=vc.pk).delete()
        message = f"{vc.name} has no GPU-hour budget any more."
    else:
        values = {"gpu_hours": gpu_hours, "month": month_of(timezone.now()), "warned": False}
        Budget.objects.update_or_create(vc=vc, defaults=values)
        message = f"{vc.name} may use {gpu_hours:,} guaranteed GPU-hours a month."
    actor = user.get_username() if user else ""
    record("vc", vc.pk, "budget.changed", message, actor=actor, before=before, after=gpu_hours)
    audit.record(
        "vc.budget.update",
        "vc",
        vc.pk,
        vc.name,
        before={"gpu_hours": before},
        after={"gpu_hours": gpu_hours},
        vc=vc,
    )
    refresh()
    notifications.notify_scheduler()
    notifications.notify_topic("cluster")
    return status(vc)


@transaction.atomic
def refresh(now: datetime | None = None) -> int:
    """Count what is used of all budgets this month, and record events for those of which most or
    all is; return how many were used up or became free. A constant number of queries."""
    month = month_of(now or timezone.now())
    budgets = list(
        Budget.objects.select_for_update(of=("self",)).select_related("vc").order_by("pk")
    )
    if not budgets:
        return 0
    used = _used([budget.vc_id for budget in budgets], month)
    events: list[Event] = []
    changed: list[Budget] = []
    flips = 0
    for budget in budgets:
        before = _values(budget)
        flips += _update(budget, used.get(budget.vc_id, 0), month, events)
        if _values(budget) != before:
            changed.append(budget)
    Budget.objects.bulk_update(changed, COUNTED)
    insert_rows(events)
    if flips:
        notifications.notify_scheduler()
    if flips or events:
        notifications.notify_topic("cluster")
    return flips


def used_up(vcs: Collection[UUID]) -> dict[UUID, Reason]:
    """Return why guaranteed jobs of these virtual clusters start as opportunistic ones: of those
    whose budget is used up. One query."""
    return {
        pk: reason(
            "budget_used_up",
            used_up_sentence(name, hours, month),
            vc=name,
            gpu_hours=hours,
            month=f"{month:%Y-%m}",
        )
        for pk, name, hours, month in _USED_UP.rows(vcs=list(vcs))
    }


_USED_UP = Compiled(
    lambda: Budget.objects.filter(Among("vc", "vcs"), used_up=True),
    *("vc_id", "vc__name", "gpu_hours", "month"),
)


def demotion(vc: VirtualCluster) -> str:
    """Return why its guaranteed jobs start as opportunistic ones; "": they do not. One query."""
    why = used_up([vc.pk]).get(vc.pk)
    return why["message"] if why else ""


def used_up_sentence(vc: str, gpu_hours: int, month: date) -> str:
    """Return the sentence of a job that waits or runs without its guarantee."""
    end = next_month(month)
    return (
        f"The GPU-hour budget of {vc} for {month:%B} is used up "
        f"({gpu_hours:,} of {gpu_hours:,} h); the job runs only as opportunistic until "
        f"{end.day} {end:%B}."
    )


def _exceeded(vc: str, gpu_hours: int, used_us: int, month: date) -> str:
    end = next_month(month)
    return (
        f"The GPU-hour budget of {vc} for {month:%B} is used up ({used_us // HOUR_US:,} of "
        f"{gpu_hours:,} h): its jobs start only as opportunistic until {end.day} {end:%B}."
    )


def _warning(vc: str, gpu_hours: int, used_us: int, month: date) -> str:
    hours, percent = used_us // HOUR_US, 100 * used_us // (gpu_hours * HOUR_US)
    end = next_month(month)
    return (
        f"{percent} % of the GPU-hour budget of {vc} for {month:%B} is used "
        f"({hours:,} of {gpu_hours:,} h). When all of it is, its jobs start only as opportunistic "
        f"until {end.day} {end:%B}."
    )


def _is_much(budget: Budget, used_us: int) -> bool:
    return used_us * 100 >= budget.gpu_hours * HOUR_US * WARN_PERCENT


def _used(vcs: Collection[UUID], month: date) -> dict[UUID, int]:
    rows = UsageRollup.objects.filter(
        vc__in=vcs, user=None, guaranteed=True, monthly=True, day=month
    )
    return dict(rows.order_by().values_list("vc").annotate(used=Sum("allocated_us")))


def _values(budget: Budget) -> list[Any]:
    return [getattr(budget, name) for name in COUNTED]


def _update(budget: Budget, used_us: int, month: date, events: list[Event]) -> bool:
    """Set what is used; return whether the budget was used up or became free by it."""
    if budget.month != month:
        budget.month, budget.warned = month, False
    budget.used_us, before = used_us, budget.used_up
    budget.used_up = used_us >= budget.gpu_hours * HOUR_US
    name, hours = budget.vc.name, budget.gpu_hours
    if budget.used_up:
        budget.warned = True
    if budget.used_up and not before:
        message = (
            f"The GPU-hour budget of {name} for {month:%B} is used up ({hours:,} h): its jobs "
            "start only as opportunistic."
        )
        events.append(_event(budget, "budget.used_up", message, notify=True))
    elif _is_much(budget, used_us) and not budget.warned:
        budget.warned = True
        message = _warning(name, hours, used_us, month)
        events.append(_event(budget, "budget.warning", message, notify=True))
    elif before and not budget.used_up:
        message = f"{name} has GPU-hours of its budget again: its jobs are guaranteed."
        events.append(_event(budget, "budget.available", message))
    return before != budget.used_up


def _event(budget: Budget, kind: str, message: str, *, notify: bool = False) -> Event:
    return event("vc", budget.vc_id, kind, message, notify=notify, gpu_hours=budget.gpu_hours)
