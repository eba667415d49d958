"""Usage by job, in the order of what the jobs used: pages that an index has in this order.

`JobUsage` has the sums of each whole job. They are those of the span that is asked for, unless the
job also used GPUs before or after it: the jobs that go over an end of the span are found by an
index of their days, and only theirs are summed up. The others are read from one list for each
month in which jobs began, from the place on where the page begins.

Days that are no longer kept by job are a row without a job.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from uuid import UUID

from rest_framework.request import Request

from skep_platform.core.bulk import fetch
from skep_platform.core.paging import Cursor, link, read_cursor
from skep_platform.usage.queries import Question, Row, Scope, check, scope, shown_sums

SUPPORTED = frozenset({"job", "user", "vc"})
NO_JOB = UUID(int=0)
ORDERS = {"allocated": "allocated_us", "used": "used_us", "idle": "idle_us", "job": ""}


def serves(asked: Question) -> bool:
    """Return whether a question is answered here: by job, also with its user and its virtual
    cluster, in the order of a measure or of the jobs."""
    name = asked.order.removeprefix("-") or asked.by[0]
    return SUPPORTED.issuperset(asked.by) and "job" in asked.by and name in ORDERS and not asked.job


def page(user: Any, asked: Question, request: Request, limit: int) -> Row:
    """Return a page of rows. Raises NotFound for a cursor that no page has given out."""
    cursor = read_cursor(request, int, UUID)
    backwards = cursor is not None and cursor.backwards
    found = rows(user, asked, limit + 1, cursor)
    more, found = len(found) > limit, found[:limit]
    if backwards:
        found.reverse()
    ends = [Cursor(row.pop("key")) for row in found]
    if not ends:
        return {"results": [], "next": None, "previous": link(request, None) if cursor else None}
    before, after = (more, True) if backwards else (cursor is not None, more)
    first = Cursor(ends[0].values, backwards=True)
    return {
        "results": found,
        "next": link(request, ends[-1].encode()) if after else None,
        "previous": link(request, first.encode()) if before else None,
    }


def rows(user: Any, asked: Question, most: int, cursor: Cursor | None = None) -> list[Row]:
    """Return the rows next to a cursor, each with its `key`, the values of a cursor to it. One
    query for the rows and one for the names of each dimension."""
    statement = _Statement(asked, scope(user, check(user, asked)), cursor)
    found = fetch(statement.sql(), statement.values | {"most": most})
    shown = [_shown(row, asked.by) for row in found]
    for name in asked.by:
        _set_names(shown, name)
    return shown


@dataclass(frozen=True, slots=True)
class _Statement:
    """The statement of a page. The order is one of both columns of the key, so that an index has it
    in both directions."""

    asked: Question
    seen: Scope
    cursor: Cursor | None

    def sql(self) -> str:
        parts = [self._within(), self._over_an_end(), self._merged()]
        return f"{' UNION ALL '.join(parts)} {self._order('measure', 'key')}"

    @property
    def values(self) -> dict[str, Any]:
        asked = self.asked
        values: dict[str, Any] = {
            "since": asked.since,
            "until": asked.until,
            "months": _months(asked.since, asked.until),
            "me": self.seen.user,
            "vcs": list(self.seen.vcs),
            "vc": asked.vc,
            "username": asked.username,
            "gpu_model": asked.gpu_model,
            "name": f"%{LIKE.sub(ESCAPED, asked.name)}%",
        }
        if self.cursor is not None:
            values |= dict(zip(("measure", "key"), self.cursor.values, strict=True))
        return values

    def _within(self) -> str:
        """Jobs that used GPUs only within the span: some of each month, by its index."""
        column = self._measure
        conditions = [
            "month = m.month AND first_day >= %(since)s AND last_day <= %(until)s",
            *self._of(""),
            *(["gpu_model = %(gpu_model)s"] if self.asked.gpu_model else []),
            *self._beyond(column, "job_id"),
        ]
        return f"""
(SELECT w.* FROM unnest(%(months)s::date[]) AS m(month) CROSS JOIN LATERAL (
     SELECT job_id AS key, job_id, user_id, vc_id, allocated_us, guaranteed_us, used_us, known_us,
            {column or 0}::bigint AS measure
       FROM usage_jobusage WHERE {" AND ".join(conditions)}
     {self._order(column, "job_id")}) w)"""  # noqa: S608 no values

    def _over_an_end(self) -> str:
        """Jobs that also used GPUs before or after the span, or GPUs of several models."""
        ends = f"{DAYS} @> {BEGIN} OR {DAYS} @> {END}"
        if self.asked.gpu_model:
            ends += " OR (j.gpu_model IS NULL AND j.last_day >= %(since)s)"
        conditions = [f"({ends})", WITHIN, *self._of("j."), *self._of_model()]
        return f"""
(SELECT u.job_id, u.job_id, max(u.user_id), (array_agg(u.vc_id))[1], {self._sums}
   FROM usage_jobusage j JOIN usage_usageday u ON u.job_id = j.job_id
  WHERE {" AND ".join(conditions)}
  GROUP BY u.job_id {self._having("u.job_id")})"""  # noqa: S608 no values

    def _merged(self) -> str:
        """Days that are no longer kept by job."""
        columns = [f"u.{name}_id" for name in ("user", "vc") if name in self.asked.by]
        key = f"md5(concat_ws(' ', {', '.join(columns)}))::uuid" if columns else f"'{NO_JOB}'::uuid"
        user, vc = (f"u.{name}_id" if name in self.asked.by else "NULL" for name in ("user", "vc"))
        conditions = ["u.job_id IS NULL", WITHIN, *self._of("u."), *self._of_model()]
        return f"""
(SELECT {key}, NULL::uuid, {user}::bigint, {vc}::uuid, {self._sums}
   FROM usage_usageday u
  WHERE {" AND ".join(conditions)}
  {f"GROUP BY {', '.join(columns)}" if columns else ""} {self._having(key)})"""  # noqa: S608 no values

    def _of(self, table: str) -> list[str]:
        """Return the conditions on whose usage it is."""
        found = []
        if not self.seen.everyone:
            found.append(f"({table}user_id = %(me)s OR {table}vc_id = ANY(%(vcs)s::uuid[]))")
        if self.asked.vc:
            named = "SELECT id FROM tenancy_virtualcluster WHERE name = %(vc)s"
            found.append(f"{table}vc_id = ({named})")
        if self.asked.username:
            named = "SELECT id FROM accounts_user WHERE username = %(username)s"
            found.append(f"{table}user_id = ({named})")
        if self.asked.name:
            found.append(NAMES_OF[self.asked.by[0]].format(table))
        return found

    def _of_model(self) -> list[str]:
        return ["u.gpu_model = %(gpu_model)s"] if self.asked.gpu_model else []

    @property
    def _measure(self) -> str:
        """The column that the order names; "" for the order of the jobs."""
        return ORDERS[self.asked.order.removeprefix("-") or "job"]

    @property
    def _sums(self) -> str:
        return f"{SUMS}, {MEASURES[self._measure]}"

    @property
    def _descending(self) -> bool:
        backwards = self.cursor is not None and self.cursor.backwards
        return self.asked.order.startswith("-") ^ backwards

    def _order(self, *columns: str) -> str:
        way = " DESC" if self._descending else ""
        keys = ", ".join(f"{column}{way}" for column in columns if column)
        return f"ORDER BY {keys} LIMIT %(most)s"

    def _beyond(self, measure: str, key: str) -> list[str]:
        """Return the condition that a row lies beyond the cursor."""
        if self.cursor is None:
            return []
        side = "<" if self._descending else ">"
        if not measure:
            return [f"{key} {side} %(key)s"]
        return [f"({measure}, {key}) {side} (%(measure)s, %(key)s)"]

    def _having(self, key: str) -> str:
        measure = MEASURES[self._measure] if self._measure else ""
        return f"HAVING {' AND '.join(['count(*) > 0', *self._beyond(measure, key)])}"


DAYS = "daterange(j.first_day, j.last_day, '[]')"
BEGIN = "daterange(%(since)s::date - 1, %(since)s, '[]')"
END = "daterange(%(until)s, %(until)s::date + 1, '[]')"
WITHIN = "u.day >= %(since)s AND u.day <= %(until)s"
SUMS = (
    "sum(u.allocated_us)::bigint, "
    "coalesce(sum(u.allocated_us) FILTER (WHERE u.guaranteed), 0)::bigint, "
    "sum(u.used_us)::bigint, sum(u.known_us)::bigint"
)
MEASURES = {
    "allocated_us": "sum(u.allocated_us)::bigint",
    "used_us": "sum(u.used_us)::bigint",
    "idle_us": "sum(u.known_us - u.used_us)::bigint",
    "": "0::bigint",
}


def _months(since: date, until: date) -> list[date]:
    """Return the first day of each month that has days of the span."""
    first, last = (12 * day.year + day.month - 1 for day in (since, until))
    return [date(month // 12, month % 12 + 1, 1) for month in range(first, last + 1)]


def _shown(row: Sequence[Any], by: Sequence[str]) -> Row:
    key, job, user, vc, allocated, guaranteed, used, known, measure = row
    ids = {"job": job, "user": user, "vc": vc}
    sums = {
        "allocated": allocated,
        "guaranteed_us": guaranteed,
        "used": used,
        "known": known,
    }
    return {"key": (measure, key)} | {name: ids[name] for name in by} | shown_sums(sums)


def _set_names(shown: list[Row], dimension: str) -> None:
    ids = list({row[dimension] for row in shown if row[dimension] is not None})
    names = dict(fetch(NAMES[dimension], [ids]))
    for row in shown:
        pk = row[dimension]
        name = names.get(pk, "")
        row[dimension] = {"id": pk, "name": name} if dimension == "job" else name


# The trigram indexes of names serve these.
NAMES_OF = {
    "job": "{}job_id IN (SELECT id FROM jobs_job WHERE name ILIKE %(name)s)",
    "user": "{}user_id IN (SELECT id FROM accounts_user WHERE username ILIKE %(name)s)",
    "vc": "{}vc_id IN (SELECT id FROM tenancy_virtualcluster WHERE name ILIKE %(name)s)",
}
LIKE, ESCAPED = re.compile(r"([\\%_])"), r"\\\1"

NAMES = {
    "job": "SELECT id, name FROM jobs_job WHERE id = ANY(%s::uuid[])",
    "user": "SELECT id, username FROM accounts_user WHERE id = ANY(%s)",
    "vc": "SELECT id, name FROM tenancy_virtualcluster WHERE id = ANY(%s::uuid[])",
}
