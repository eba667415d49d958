"""What jobs measured of themselves, to be shown: of one job by attempt, of several jobs as runs.

A run is a job with all its attempts in one series for each metric: a later attempt, which goes on
from a checkpoint, replaces what earlier ones wrote from its first step on.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import itemgetter
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, OuterRef, Window
from django.db.models.functions import DenseRank, RowNumber

from skep_jobfile.addresses import without_credentials
from skep_platform.core.errors import SkepError
from skep_platform.jobs import queries as jobs
from skep_platform.jobs.models import Job
from skep_platform.telemetry.metric_lines import (
    BAD_NAME,
    BAD_NUMBER,
    BAD_STEP,
    MANY_NAMES,
    MANY_PAIRS,
    MAX_NAMES,
    MAX_PAIRS,
    in_order,
)
from skep_platform.telemetry.models import MetricLog, UserMetric
from skep_platform.tenancy.queries import AnyUser

MOST_RUNS = 20
MOST_ATTEMPTS = 20  # of a job, the newest
MOST_SERIES = 640  # in one answer
MOST_POINTS = 60_000  # in one answer
FEWEST_POINTS = 50  # of a series
MOST_PARAMETERS = 40
LONGEST_VALUE = 100  # characters of a parameter

# [step, seconds, value]
Point = tuple[float, float, float]
WHY = {
    BAD_NAME: "their names are not lower-case letters, digits and _",
    BAD_NUMBER: "they are not numbers",
    BAD_STEP: "their step is not a number",
    MANY_NAMES: f"they are of more than {MAX_NAMES} metrics",
    MANY_PAIRS: f"they are on lines with more than {MAX_PAIRS} of them",
}


@dataclass(frozen=True, slots=True)
class Metric:
    """A series with what is known of all its points."""

    name: str
    count: int
    kept_each: int
    last: float | None
    low: float | None
    high: float | None
    not_finite: int
    not_finite_step: float | None
    points: Sequence[Point]


def asked(job: Job) -> bool:
    """Return whether the job file asks for metrics."""
    return bool(job.spec.get("extras", {}).get("skep", {}).get("metrics"))


def by_attempt(job: Job, most: int) -> list[dict[str, Any]]:
    """Return what the newest attempts of the job measured, the oldest of them first, with at most
    `most` points of each series. Two queries."""
    logs = MetricLog.objects.filter(job=job).select_related("attempt")
    found: dict[UUID, dict[str, Any]] = {
        log.attempt_id: {
            "attempt": log.attempt.index,
            "started_at": log.attempt.started_at,
            "reading": log.due_at is not None,
            "dropped": _dropped(log.dropped),
            "metrics": [],
        }
        for log in logs.order_by("-attempt__index", "-attempt__retry")[:MOST_ATTEMPTS]
    }
    rows = list(UserMetric.objects.filter(attempt__in=found).order_by("name")[:MOST_SERIES])
    for row in rows:
        metric = _metric([row], _fewer(most, len(rows)))
        found[row.attempt_id]["metrics"].append(metric)
    return list(found.values())[::-1]


def _dropped(counts: Mapping[str, int]) -> list[dict[str, Any]]:
    found = []
    for reason, count in sorted(counts.items()):
        numbers = "1 more number was" if count == 1 else f"{count} more numbers were"
        message = f"{numbers} dropped because {WHY.get(reason, reason)}."
        found.append({"reason": reason, "count": count, "message": message})
    return found


@dataclass(frozen=True, slots=True)
class Run:
    """A job and what it measured."""

    job: Job
    parameters: Mapping[str, str]
    metrics: Sequence[Metric]


def compare(
    user: AnyUser, ids: Sequence[UUID], tags: Sequence[str], most: int
) -> tuple[list[Run], bool]:
    """Return the jobs with these ids, or else the newest ones with all of these tags that have
    metrics, as far as the user may see them; and whether there are more. A constant number of
    queries. Raises SkepError `nothing_to_compare` and `too_many_runs`."""
    if not ids and not tags:
        raise SkepError(
            "Name the jobs to compare by `jobs`, or by a tag of theirs: `tag`.",
            code="nothing_to_compare",
        )
    if len(set(ids)) > MOST_RUNS:
        raise SkepError(
            f"At most {MOST_RUNS} jobs are compared at a time; these are {len(set(ids))}.",
            code="too_many_runs",
            most=MOST_RUNS,
        )
    seen = jobs.visible_to(user).defer("spec_text")
    if ids:
        found = seen.filter(pk__in=ids)
    else:
        measured = UserMetric.objects.filter(job=OuterRef("pk"))
        found = jobs.search(seen, tags=tags).filter(Exists(measured))
    rows = list(found.order_by("-created_at", "pk")[: MOST_RUNS + 1])
    chosen = rows[:MOST_RUNS]
    metrics = _of_jobs(chosen, most)
    parameters = _differences([_parameters(job) for job in chosen])
    runs = [Run(job, parameters[n], metrics[job.pk]) for n, job in enumerate(chosen)]
    return runs, len(rows) > MOST_RUNS


def _of_jobs(chosen: Sequence[Job], most: int) -> dict[UUID, list[Metric]]:
    """Two queries. Of a job that was preempted a thousand times, the last attempts; many series of
    one job take nothing from the others."""
    newest = [F("attempt__index").desc(), F("attempt__retry").desc()]
    rows = UserMetric.objects.filter(job__in=chosen).annotate(
        age=Window(DenseRank(), partition_by="job", order_by=newest),
        number=Window(RowNumber(), partition_by="job", order_by=[*newest, F("name").asc()]),
    )
    each = MOST_SERIES // max(1, len(chosen))
    ids = rows.filter(age__lte=MOST_ATTEMPTS, number__lte=each).values_list("pk", flat=True)
    series: dict[UUID, dict[str, list[UserMetric]]] = defaultdict(lambda: defaultdict(list))
    found = UserMetric.objects.filter(pk__in=list(ids))
    for row in found.order_by("attempt__index", "attempt__retry"):
        series[row.job_id][row.name].append(row)
    points = _fewer(most, sum(map(len, series.values())))
    return {
        job.pk: [_metric(parts, points) for _, parts in sorted(series[job.pk].items())]
        for job in chosen
    }


def _fewer(most: int, series: int) -> int:
    return min(most, max(FEWEST_POINTS, MOST_POINTS // max(1, series)))


def _metric(parts: Sequence[UserMetric], most: int) -> Metric:
    newest = parts[-1]
    return Metric(
        newest.name,
        sum(part.count for part in parts),
        newest.stride,
        next((part.last for part in reversed(parts) if part.last is not None), None),
        min((part.low for part in parts if part.low is not None), default=None),
        max((part.high for part in parts if part.high is not None), default=None),
        sum(part.not_finite for part in parts),
        next((part.not_finite_step for part in parts if part.not_finite), None),
        list(in_order(_joined(parts, most), most)),
    )


def _joined(parts: Sequence[UserMetric], most: int) -> list[Point]:
    """Return the points of the parts, of each at most `most`, up to where a later part begins."""
    kept: list[list[Point]] = []
    end = math.inf
    for part in reversed(parts):
        points = sorted(_points(part, most))
        del points[bisect_left(points, end, key=itemgetter(0)) :]
        if points:
            end = points[0][0]
            kept.append(points)
    return list(chain.from_iterable(reversed(kept)))


def _points(part: UserMetric, most: int) -> list[Point]:
    """Return at most `most` of the points, with the newest one, which may not be a kept one."""
    steps, times, values = part.steps, part.times, part.values
    if part.last is not None and part.last_step is not None and part.last_time is not None:
        last = (part.last_step, part.last_time, part.last)
        if not steps or (steps[-1], times[-1], values[-1]) != last:
            columns = zip((steps, times, values), last, strict=True)
            steps, times, values = ([*column, end] for column, end in columns)
    return [(steps[n], times[n], values[n]) for n in in_order(range(len(steps)), most)]


# An option of a command, such as `--lr 0.1` or `--lr=0.1`.
OPTION = re.compile(r"(?<!\S)--([A-Za-z][\w.-]{0,60})(?:=|[ \t]+(?!-))([^\s'\"]{1,200})")


def _parameters(job: Job) -> dict[str, str]:
    """Return what may differ between runs: parameters of the job file, options of the commands,
    variables, and what the job asked for. None of them has the value of a secret."""
    spec = job.spec
    found: dict[str, Any] = {}
    if isinstance(parameters := spec.get("parameters"), dict):
        found |= {str(k): v for k, v in parameters.items() if not isinstance(v, dict | list)}
    for role in (spec.get("taskRoles") or {}).values():
        for command in role.get("commands") or ():
            for name, value in OPTION.findall(str(command)[:20_000]):
                found.setdefault(f"--{name}", value)
    found |= {f"${name}": value for name, value in job.environment.items()}
    found |= {"gpus": job.gpus, "tasks": job.tasks_total}
    return {name: without_credentials(str(v))[:LONGEST_VALUE] for name, v in found.items()}


def _differences(of: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return of each run the parameters that are not the same in all of them."""
    names = dict.fromkeys(name for one in of for name in one)
    differ = [name for name in names if len({one.get(name) for one in of}) > 1]
    return [{n: one[n] for n in differ[:MOST_PARAMETERS] if n in one} for one in of]
