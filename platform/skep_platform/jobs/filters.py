"""The filters of the list of jobs, as they stand in an address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from skep_diagnosis.table import table
from skep_platform.core.errors import SkepError
from skep_platform.jobs import queries, visibility
from skep_platform.jobs.models import ACTIVE_JOB_STATES, Job
from skep_platform.jobs.states import JobState

TRUE = ("true", "1")
MOST_CAUSES = 20
AGO = re.compile(r"([0-9]{1,4})([hdw])")
UNITS = {"h": 1, "d": 24, "w": 168}  # hours
FILTERS = [
    OpenApiParameter("state", str, description="Comma list."),
    OpenApiParameter("virtual_cluster", str, description="Comma list of names."),
    OpenApiParameter("owner", str, description="Comma list of usernames."),
    OpenApiParameter("tag", str, description="Comma list, or repeated: all of them."),
    OpenApiParameter(
        "search",
        str,
        description="Part of the name, in any case; its beginning below 3 characters.",
    ),
    OpenApiParameter("name", str, description="The whole name, as it is written."),
    OpenApiParameter("shared", bool, description="Only jobs that others shared with you."),
    OpenApiParameter(
        "cause",
        str,
        description="Why the newest failed attempt failed: comma list of codes, names or "
        f"categories of diagnoses, at most {MOST_CAUSES}.",
    ),
    OpenApiParameter(
        "since",
        str,
        description="Submitted at this time or later: RFC 3339, a date in UTC, or a span before "
        "now such as 7d or 12h.",
    ),
    OpenApiParameter(
        "until",
        str,
        description="Submitted before this time, written like `since`; a date is included.",
    ),
]


def filtered(request: Request, jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return the jobs that pass the filters of a request. Raises SkepError `invalid_filter`."""
    if request.query_params.get("shared", "").lower() in TRUE:
        jobs = jobs.filter(pk__in=visibility.shared_with(request.user))
    return queries.search(
        jobs,
        states=choices(request, "state", JobState.values),
        virtual_clusters=listed(request, "virtual_cluster"),
        owners=listed(request, "owner"),
        tags=listed(request, "tag"),
        name=request.query_params.get("name", "")[:255],
        text=request.query_params.get("search", "")[:255],
        cause=_cause(listed(request, "cause")),
        since=time_of(request, "since"),
        until=time_of(request, "until"),
    )


def check(values: Mapping[str, Any]) -> None:
    """Check the values of filters that are kept for later. Raises SkepError `invalid_filter`."""
    for state in _parts(values.get("state", "")):
        one_of("state", state, JobState.values)
    _cause(_parts(values.get("cause", "")))
    for name in ("since", "until"):
        _time(name, values.get(name, ""))


def selective(request: Request) -> bool:
    """Return whether the filters of the list leave few of all jobs."""
    states = set(listed(request, "state"))
    named = ("virtual_cluster", "owner", "tag", "name", "search", "cause")
    return any(request.query_params.get(name) for name in named) or bool(
        states and states <= set(ACTIVE_JOB_STATES)
    )


def listed(request: Request, name: str) -> list[str]:
    return _parts(",".join(request.query_params.getlist(name)))


def _parts(asked: str) -> list[str]:
    return [part for part in asked.split(",") if part][:100]


def choices(request: Request, name: str, known: list[str]) -> list[str]:
    return [one_of(name, part, known) for part in listed(request, name)]


def one_of(name: str, value: str, known: Any) -> str:
    """Return the value if it is known. Raises SkepError `invalid_filter`."""
    if value not in known:
        raise _refused(name, value, f"{name} is one of {', '.join(known)}.")
    return value


def _refused(name: str, value: str, message: str) -> SkepError:
    return SkepError(message, code="invalid_filter", parameter=name, value=value[:100])


def causes() -> dict[str, Any]:
    """Return what `cause` may be: categories, and failures with a code and a name."""
    failures = [
        {"code": c.code, "name": c.name, "title": c.heading, "category": c.category}
        for c in table().codes.values()
        if c.code
    ]
    return {"categories": _categories(), "failures": failures}


def _categories() -> list[str]:
    known = table()
    rules = (*known.fact_rules, *known.late_fact_rules, *known.kill_fact_rules, *known.text_rules)
    found = {code.category for code in known.codes.values() if code.code}
    return sorted(found | {rule.category for rule in rules if rule.category})


@cache
def _causes() -> dict[str, Q]:
    """Return how a diagnosis is found by each code, name and category, in lower case."""
    found: dict[str, Q] = {}
    for category in _categories():
        found[category.lower()] = Q(diagnosis__contains={"category": category})
    for code in table().codes.values():
        found[str(code.code)] = found[code.name.lower()] = Q(
            diagnosis__contains={"code": code.code}
        )
    return found


def _cause(causes: list[str]) -> Q | None:
    if len(causes) > MOST_CAUSES:
        raise _refused("cause", ",".join(causes), f"cause has at most {MOST_CAUSES} values.")
    found: Q | None = None
    for asked in causes:
        matches = _causes().get(asked.strip().lower())
        if matches is None:
            message = (
                f"There is no cause of failure named {asked[:100]}: give a code, name or category "
                "of the table of diagnoses."
            )
            raise _refused("cause", asked, message)
        found = matches if found is None else found | matches
    return found


def time_of(request: Request, name: str) -> datetime | None:
    """Return `since` or `until` of a request. Raises SkepError `invalid_filter`."""
    return _time(name, request.query_params.get(name, ""))


def _time(name: str, text: str) -> datetime | None:
    """Return a bound of the time of submission. A date is a whole day in UTC: `until` its end."""
    if not text:
        return None
    if span := AGO.fullmatch(text):
        return timezone.now() - timedelta(hours=int(span[1]) * UNITS[span[2]])
    try:
        day = parse_date(text)
        found = _of_day(name, day) if day else parse_datetime(text)
    except (ValueError, OverflowError):
        found = None
    if found is None or found.tzinfo is None:
        message = (
            f"{name} is a date such as 2026-11-23, a time such as 2026-11-23T08:00:00Z, or a span "
            "before now such as 7d or 12h."
        )
        raise _refused(name, text, message)
    return found


def _of_day(name: str, day: date) -> datetime:
    return datetime.combine(day, time(), UTC) + timedelta(days=1 if name == "until" else 0)
