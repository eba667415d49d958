"""All reads of usage: who may see what of it, and sums along any dimensions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet, Sum
from django.db.models.functions import TruncMonth
from django.utils import timezone

from skep_platform.core.bulk import fetch
from skep_platform.core.errors import Forbidden
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Membership, Role, VirtualCluster
from skep_platform.usage.budgets import next_month
from skep_platform.usage.models import UsageDay, UsageRollup

AnyUser = Any  # User or AnonymousUser, as `request.user` is
SECOND = 1_000_000  # microseconds
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Dimension:
    """What usage may be summed by. `columns` are what the sums are grouped by, in the names of the
    ORM; `show` makes the value that is shown of them."""

    columns: tuple[str, ...]
    show: Callable[..., Any]
    annotations: Mapping[str, Any] = field(default_factory=dict)


# To sum by something else, add it here, and a field to the row of the API.
DIMENSIONS: dict[str, Dimension] = {
    "day": Dimension(("day",), lambda day: day),
    "month": Dimension(("month",), lambda month: f"{month:%Y-%m}", {"month": TruncMonth("day")}),
    "vc": Dimension(("vc__name",), str),
    "user": Dimension(("user__username",), str),
    # A user counts in each of its groups.
    "group": Dimension(("user__group_members__group__name",), lambda name: name or ""),
    "job": Dimension(("job_id",), lambda pk: pk),  # with its name: see `_with_names`
    "gpu_model": Dimension(("gpu_model",), str),
    "class": Dimension(("guaranteed",), lambda own: "guaranteed" if own else "borrowed"),
}
SUMS = {
    "allocated": Sum("allocated_us", default=0),
    "guaranteed_us": Sum("allocated_us", filter=Q(guaranteed=True), default=0),
    "used": Sum("used_us", default=0),
    "known": Sum("known_us", default=0),
}
# Where the names stand that rows may be filtered by, of a dimension.
NAMED = {
    "vc": "vc__name",
    "user": "user__username",
    "group": "user__group_members__group__name",
    "job": "job__name",
    "gpu_model": "gpu_model",
}
# Groups are known to platform admins only.
FOR_ADMINS = frozenset({"group"})
# What rows may be ordered by, besides their dimensions.
MEASURES = {"allocated": "allocated", "used": "used", "idle": "known - used"}


@dataclass(frozen=True, slots=True)
class _Name:
    key: str  # of the rows
    table: str
    name: str


NAMES = {
    "user__username": _Name("user_id", "accounts_user", "username"),
    "vc__name": _Name("vc_id", "tenancy_virtualcluster", "name"),
}


@dataclass(frozen=True, slots=True)
class Question:
    """Which usage is summed up, of days from `since` to `until`, the last one included."""

    since: date
    until: date
    by: tuple[str, ...] = ()
    vc: str = ""
    username: str = ""
    gpu_model: str = ""
    job: UUID | None = None
    name: str = ""  # a part of the names of the first dimension
    order: str = ""  # a dimension or a measure, with "-" before it from the most to the least

    @property
    def for_jobs(self) -> bool:
        """Return whether rows by job and day are read; their sums answer everything else."""
        return self.job is not None or "job" in self.by


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose usage is read: that of the user, and of all in these virtual clusters; of everyone
    whom the question is about, with `everyone`."""

    user: int | None = None
    vcs: tuple[UUID, ...] = ()
    everyone: bool = False


def scope(user: AnyUser, vc: VirtualCluster | None) -> Scope:
    """Return what a user may see: the own usage, that of virtual clusters whose admin it is, and
    all for a platform admin. `vc`: the only one that is asked for. One query."""
    if tenancy.is_admin(user):
        return Scope(everyone=True)
    # Asked first: of an OR with a subquery no index is used.
    managed = Membership.objects.filter(user_id=user.pk, role=Role.ADMIN)
    vcs = tuple(managed.values_list("vc", flat=True))
    return Scope(user.pk, vcs, everyone=vc is not None and vc.pk in vcs)


def select(user: AnyUser, asked: Question) -> QuerySet[Any]:
    """Return the rows that are asked for, of those that the user may see: of `UsageDay` by job, or
    the fewest of `UsageRollup`.

    Raises NotFound for a virtual cluster that does not exist for the user, and Forbidden for a
    dimension that only admins may use."""
    vc = check(user, asked)
    seen = scope(user, vc)
    rows = _days(asked) if asked.for_jobs else _rollups(asked, seen)
    if not seen.everyone:
        mine = Q(user_id=seen.user)
        rows = rows.filter(mine | Q(vc__in=seen.vcs) if seen.vcs else mine)
    if vc is not None:
        rows = rows.filter(vc=vc)
    if asked.username:
        rows = rows.filter(user__username=asked.username)
    if asked.gpu_model:
        rows = rows.filter(gpu_model=asked.gpu_model)
    if asked.name and asked.by:
        rows = rows.filter(**{f"{NAMED[asked.by[0]]}__icontains": asked.name})
    return rows


def check(user: AnyUser, asked: Question) -> VirtualCluster | None:
    """Return the virtual cluster that is asked for. Raises NotFound and Forbidden."""
    if FOR_ADMINS.intersection(asked.by) and not tenancy.is_admin(user):
        raise Forbidden("Only an admin may sum up usage by groups.")
    return tenancy.find(user, asked.vc) if asked.vc else None


def _days(asked: Question) -> QuerySet[Any]:
    rows = UsageDay.objects.filter(day__gte=asked.since, day__lte=asked.until)
    return rows.filter(job=asked.job) if asked.job else rows


def _rollups(asked: Question, seen: Scope) -> QuerySet[Any]:
    """Return the sums of whole months, and of the days before and after them, of users only where
    users are asked for."""
    rows = UsageRollup.objects.filter(_spans(asked), allocated_us__gt=0)
    if asked.username or not seen.everyone or {"user", "group"}.intersection(asked.by):
        return rows.filter(user__isnull=False)
    rows = rows.filter(user=None)
    return rows.filter(vc__isnull=not (asked.vc or "vc" in asked.by))


def _spans(asked: Question) -> Q:
    days = Q(monthly=False, day__gte=asked.since, day__lte=asked.until)
    if "day" in asked.by or asked.until.year == date.max.year:
        return days
    end = asked.until + timedelta(days=1)
    if asked.until == timezone.now().date():  # no day has usage after today: the month is whole
        end = next_month(asked.until.replace(day=1))
    month = asked.since.replace(day=1)
    first, last = month if month == asked.since else next_month(month), end.replace(day=1)
    if first >= last:
        return days
    spans = Q(monthly=True, day__gte=first, day__lt=last)
    for begin, over in ((asked.since, first), (last, end)):
        if begin < over:
            spans |= Q(monthly=False, day__gte=begin, day__lt=over)
    return spans


def sums(rows: QuerySet[Any], asked: Question, offset: int, most: int) -> list[Row]:
    """Return the sums of a part of the groups. One query, or two where the groups are many, and one
    for the names of jobs."""
    first = _first_groups(rows, asked)
    if first is not None:
        found = _sums(first, asked, offset, most)
        if len(found) == most:
            return found
    return _sums(rows, asked, offset, most)


def _first_groups(rows: QuerySet[Any], asked: Question) -> QuerySet[Any] | None:
    """Return the rows of the groups that come first, where the order shows without summing up which
    these are: of the first month, or without the rows of the many jobs that were over before. None
    where it does not. A page that lies within them is the same as one of all rows."""
    if asked.order or len(asked.by) < 2:
        return None
    if asked.by[0] == "month":
        month = next_month(asked.since.replace(day=1))
        return rows.filter(day__lt=month) if month <= asked.until else None
    if asked.by[0] == "job" and asked.job is None:
        bound = fetch(FIRST_JOB, {"since": asked.since, "until": asked.until})[0][0]
        return rows.filter(job__gte=bound) if bound else None
    return None


# The first job, in the order of their ids, that may have used GPUs in a span: one that also did so
# before it, or the first of those that began in it, of each month by its index.
FIRST_JOB = """
SELECT min(job_id::text)::uuid FROM (
    SELECT job_id FROM usage_jobusage
     WHERE daterange(first_day, last_day, '[]') @> daterange(%(since)s::date - 1, %(since)s, '[]')
    UNION ALL
    SELECT j.job_id
      FROM generate_series(date_trunc('month', %(since)s::date), %(until)s::date, '1 month') AS m
     CROSS JOIN LATERAL (SELECT job_id FROM usage_jobusage
                          WHERE month = m::date ORDER BY job_id LIMIT 1) j
) AS candidates
"""


def _sums(rows: QuerySet[Any], asked: Question, offset: int, most: int) -> list[Row]:
    dimensions = [DIMENSIONS[name] for name in asked.by]
    columns = [column for dimension in dimensions for column in dimension.columns]
    for dimension in dimensions:
        rows = rows.annotate(**dimension.annotations)
    ids = [NAMES[column].key if column in NAMES else column for column in columns]
    grouped = rows.order_by().values(*ids).annotate(**SUMS)
    if ids == columns and asked.order.removeprefix("-") not in MEASURES:
        # An index may have this order; then only a part of the groups is summed up.
        found: Iterable[Row] = grouped.order_by(*_order_of_index(asked, columns))[
            offset : offset + most
        ]
    else:
        found = _named(grouped, columns, _order(asked, columns), offset, most)
    shown = [_shown(row, asked.by) for row in found]
    return _with_names(shown) if "job" in asked.by else shown


def _named(
    grouped: QuerySet[Any], columns: Sequence[str], order: Sequence[str], offset: int, most: int
) -> list[Row]:
    """Return a part of the groups with the names that they are shown and ordered by. The names are
    joined to the sums: joined to the rows, there are many more of them, and a part of the groups in
    the order of a name makes the database join all of them name by name."""
    inner, values = grouped.query.sql_with_params()
    named = [(column, NAMES[column]) for column in columns if column in NAMES]
    shown = "".join(f', "{one.table}"."{one.name}" AS "{column}"' for column, one in named)
    joins = "".join(
        f' JOIN "{one.table}" ON "{one.table}"."id" = sums."{one.key}"' for _, one in named
    )
    statement = (
        f"SELECT sums.*{shown} FROM ({inner}) sums{joins}"  # noqa: S608 no values
        f" ORDER BY {', '.join(order)} LIMIT %s OFFSET %s"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, [*values, most, offset])
        titles = [one[0] for one in cursor.description]
        return [dict(zip(titles, row, strict=True)) for row in cursor.fetchall()]


def _with_names(rows: list[Row]) -> list[Row]:
    """Return the rows with the names of their jobs. To group by them would join every row."""
    ids = {row["job"] for row in rows if row["job"]}
    names = dict(fetch("SELECT id, name FROM jobs_job WHERE id = ANY(%s)", [list(ids)]))
    return [row | {"job": {"id": row["job"], "name": names.get(row["job"], "")}} for row in rows]


def total(rows: QuerySet[Any]) -> Row:
    """Return the sums of all rows. One query."""
    return shown_sums(rows.aggregate(**SUMS))


def _order_of_index(asked: Question, columns: Sequence[str]) -> list[str]:
    name, sign = asked.order.removeprefix("-"), "-" if asked.order[:1] == "-" else ""
    asked_for = DIMENSIONS[name].columns if name in asked.by else ()
    return [*(sign + column for column in asked_for), *(c for c in columns if c not in asked_for)]


def _order(asked: Question, columns: Sequence[str]) -> list[str]:
    """Return what rows are ordered by, in SQL: what is asked for, then all dimensions."""
    name, direction = asked.order.removeprefix("-"), "DESC" if asked.order[:1] == "-" else "ASC"
    keys = [MEASURES[name]] if name in MEASURES else []
    if name in asked.by:
        keys = [f'"{column}"' for column in DIMENSIONS[name].columns]
    return [*(f"{key} {direction}" for key in keys), *(f'"{column}"' for column in columns)]


def _shown(row: Row, by: Sequence[str]) -> Row:
    values = {
        name: DIMENSIONS[name].show(*(row[column] for column in DIMENSIONS[name].columns))
        for name in by
    }
    return values | shown_sums(row)


def shown_sums(row: Mapping[str, int]) -> Row:
    """Return the sums of microseconds as they are shown: whole GPU-seconds, and the share of the
    measured time that was used, in percent."""
    allocated, used, known = row["allocated"], row["used"], row["known"]
    return {
        "allocated_s": _seconds(allocated),
        "guaranteed_s": _seconds(row["guaranteed_us"]),
        "borrowed_s": _seconds(allocated - row["guaranteed_us"]),
        "used_s": _seconds(used),
        "idle_s": _seconds(max(known - used, 0)),
        "unknown_s": _seconds(max(allocated - known, 0)),
        "utilization": round(100 * used / known, 1) if known else None,
    }


def _seconds(microseconds: int) -> int:
    return round(int(microseconds) / SECOND)
