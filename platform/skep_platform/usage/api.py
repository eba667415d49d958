"""REST of usage."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.core.api import parameters, validated
from skep_platform.core.errors import Forbidden
from skep_platform.core.paging import PAGE_PARAMETERS, numbered_page
from skep_platform.core.throttling import Exports, Searches
from skep_platform.tenancy import queries as tenancy
from skep_platform.usage import budgets, by_job, queries
from skep_platform.usage.exporting import csv_response
from skep_platform.usage.report import report
from skep_platform.usage.serializers import (
    BudgetBody,
    BudgetSerializer,
    ReportQuery,
    ReportSerializer,
    UsageQuery,
    UsageSerializer,
)

TAGS = ["usage"]
ROWS, MAX_ROWS = 100, 1000
MAX_CURSOR = 10_000_000
MAX_EXPORTED = 100_000  # lines of a file
SUMS = ("allocated_s", "guaranteed_s", "borrowed_s", "used_s", "idle_s", "unknown_s", "utilization")


class NamesSearched(Searches):
    """Usage of what has a text in its name, counted with the other searches."""

    parameters = ("name",)


class UsageView(APIView):
    throttle_classes = (NamesSearched,)

    @extend_schema(
        operation_id="get_usage",
        parameters=[UsageQuery, *PAGE_PARAMETERS],
        responses=UsageSerializer,
        tags=TAGS,
    )
    def get(self, request: Request) -> Response:
        """Sum up GPU time by up to three dimensions. A user sees the own usage, a VC admin also
        that of the virtual cluster, an admin all. A page has at most 1000 rows (default 100)."""
        asked = _question(request)
        limit = _number(request, "limit", ROWS, MAX_ROWS) or ROWS
        if by_job.serves(asked):
            page = by_job.page(request.user, asked, request, limit)
        else:
            page = _numbered(request, asked, limit)
        total = queries.total(queries.select(request.user, replace(asked, by=())))
        span = {"since": asked.since, "until": asked.until, "by": asked.by}
        # As `UsageSerializer` has it: to serialize 1,000 rows takes longer than to read them.
        return Response(span | {"total": total} | page)


class UsageExportView(APIView):
    throttle_classes = (Exports,)

    @extend_schema(
        operation_id="export_usage",
        parameters=[UsageQuery],
        responses={(200, "text/csv"): OpenApiTypes.STR},
        tags=TAGS,
    )
    def get(self, request: Request) -> HttpResponse:
        """Download the same sums as CSV, at most 100,000 lines. A text that a spreadsheet would
        take for a formula begins with an apostrophe."""
        asked = _question(request)
        if by_job.serves(asked):
            rows = by_job.rows(request.user, asked, MAX_EXPORTED)
        else:
            rows = queries.sums(queries.select(request.user, asked), asked, 0, MAX_EXPORTED)
        columns = [*(name for key in asked.by for name in _columns(key)), *SUMS]
        name = f"usage-{asked.since}-{asked.until}.csv"
        return csv_response(name, columns, (_flat(row) for row in rows))


class BudgetView(APIView):
    @extend_schema(operation_id="get_budget", responses=BudgetSerializer, tags=TAGS)
    def get(self, request: Request, name: str) -> Response:
        """Return the GPU-hour budget of a virtual cluster and what is used of it this month."""
        vc = tenancy.find(request.user, name)
        return _budget(budgets.status(vc))

    @extend_schema(
        operation_id="set_budget", request=BudgetBody, responses=BudgetSerializer, tags=TAGS
    )
    def put(self, request: Request, name: str) -> Response:
        """Set the budget of a virtual cluster, as an admin. It holds for this month, too."""
        vc = tenancy.find(request.user, name)
        user = current_user.admin(request)
        hours = validated(BudgetBody, request)["gpu_hours"]
        return _budget(budgets.set_budget(user, vc, hours))

    @extend_schema(operation_id="remove_budget", responses={200: BudgetSerializer}, tags=TAGS)
    def delete(self, request: Request, name: str) -> Response:
        """Remove the budget of a virtual cluster, as an admin."""
        vc = tenancy.find(request.user, name)
        return _budget(budgets.set_budget(current_user.admin(request), vc, None))


class ReportView(APIView):
    @extend_schema(
        operation_id="get_usage_report",
        parameters=[ReportQuery],
        responses=ReportSerializer,
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> Response:
        """Report a month of a virtual cluster, for its admins: totals, the efficiency of each user,
        the jobs that left most idle, and how long jobs waited."""
        return Response(ReportSerializer(_report(request, name)).data)


class ReportExportView(APIView):
    throttle_classes = (Exports,)

    @extend_schema(
        operation_id="export_usage_report",
        parameters=[ReportQuery],
        responses={(200, "text/csv"): OpenApiTypes.STR},
        tags=TAGS,
    )
    def get(self, request: Request, name: str) -> HttpResponse:
        """Download the users of the report as CSV."""
        found = _report(request, name)
        columns = ["user", "jobs", "gpus", *SUMS]
        return csv_response(f"usage-{name}-{found['month']}.csv", columns, found["users"])


def _report(request: Request, name: str) -> dict[str, Any]:
    """Raises NotFound and Forbidden."""
    vc = tenancy.find(request.user, name)
    if not tenancy.manages(request.user, vc):
        raise Forbidden(f"Only admins of {vc.name} may see its report.")
    given = parameters(ReportQuery, request).get("month")
    month = date.fromisoformat(f"{given}-01") if given else budgets.month_of(timezone.now())
    found = report(vc, month)
    return found | {"budget": found["budget"] and _shown_budget(found["budget"])}


def _budget(status: budgets.Status) -> Response:
    return Response(BudgetSerializer(_shown_budget(status)).data)


def _shown_budget(status: budgets.Status) -> dict[str, Any]:
    return {
        "gpu_hours": status.gpu_hours,
        "month": f"{status.month:%Y-%m}",
        "until": status.next_month,
        "used_s": status.used_us // queries.SECOND,
        "percent": status.percent,
        "state": status.state,
        "message": status.message,
    }


def _numbered(request: Request, asked: queries.Question, limit: int) -> dict[str, Any]:
    cursor = _number(request, "cursor", 0, MAX_CURSOR)
    found = queries.sums(queries.select(request.user, asked), asked, cursor, limit + 1)
    return numbered_page(request, found[:limit], cursor, limit, more=len(found) > limit)


def _question(request: Request) -> queries.Question:
    return UsageQuery.question(parameters(UsageQuery, request))


def _number(request: Request, name: str, default: int, most: int) -> int:
    given = request.query_params.get(name, "")
    return min(int(given[:9]), most) if given.isascii() and given.isdecimal() else default


def _columns(dimension: str) -> tuple[str, ...]:
    return ("job_id", "job") if dimension == "job" else (dimension,)


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    job = row.get("job")
    return row if job is None else {**row, "job_id": job["id"], "job": job["name"]}
