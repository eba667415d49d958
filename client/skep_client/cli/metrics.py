"""`skep metrics`: what jobs measured of themselves, of one job or of several side by side."""

from __future__ import annotations

import csv
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client.cli.common import Json, client, find_job, print_json, print_table, say
from skep_client.cli.completion import job_names

if TYPE_CHECKING:
    from skep_client.models import Run, UserMetric

MOST_POINTS = 1000
Csv = Annotated[bool, typer.Option("--csv", help="Print every point that is kept, as CSV.")]


def add_to(app: typer.Typer) -> None:
    app.command()(metrics)


def metrics(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JOB]...",
            help="Ids or names of jobs, 20 at most.",
            autocompletion=job_names,
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option(help="Instead the newest jobs with this tag; may be repeated: all of them."),
    ] = None,
    name: Annotated[str, typer.Option(help="Only this metric, such as loss.")] = "",
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Show the numbers that jobs wrote into their logs, such as the loss of a training.

    The job file asks for them with `extras.skep.metrics`."""
    if bool(jobs) == bool(tag):
        raise typer.BadParameter("Name jobs, or give a --tag of theirs.")
    with client() as skep:
        ids = [find_job(skep, job).id for job in jobs or ()]
        points = MOST_POINTS if as_csv or as_json else 2
        found = skep.compare_jobs(ids, tag or (), points=points)
    if as_json:
        print_json(found)
        return
    rows = [(run, one) for run in found.runs for one in run.metrics if name in ("", one.name)]
    if as_csv:
        _write_csv(rows)
        return
    differ = list(dict.fromkeys(key for run in found.runs for key in run.parameters))
    heads = ("JOB", *differ, "METRIC", "POINTS", "LAST", "MIN", "MAX")
    print_table(heads, [_row(run, one, differ) for run, one in rows])
    for run, one in rows:
        if one.not_finite:
            step = "" if one.not_finite_step is None else f" from step {one.not_finite_step:g}"
            say(f"{run.name}: {one.name} was NaN or infinite {one.not_finite} times{step}.")
    if found.more:
        say("More jobs have this tag: these are the newest.", err=True)


def _row(run: Run, one: UserMetric, differ: list[str]) -> tuple[str, ...]:
    numbers = ("" if v is None else f"{v:.6g}" for v in (one.last, one.low, one.high))
    return (
        run.name,
        *(run.parameters.get(n, "") for n in differ),
        one.name,
        str(one.count),
        *numbers,
    )


def _write_csv(rows: list[tuple[Run, UserMetric]]) -> None:
    writer = csv.writer(sys.stdout)
    writer.writerow(("job", "id", "metric", "step", "time", "value"))
    for run, one in rows:
        for step, time, value in one.points:
            writer.writerow((run.name, run.id, one.name, f"{step:g}", f"{time:.3f}", value))
