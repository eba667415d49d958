"""`skep simulate`: run a trace of jobs under scheduling policies. Needs no server."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from skep_client import exits
from skep_client.cli.common import Json, say
from skep_client.cli.progress import count

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--policy",
        metavar="NAME",
        help="A policy, with parameters if wanted: fifo:backfill=skip. May be repeated.",
    ),
]


def add_to(app: typer.Typer) -> None:
    app.command()(simulate)


def simulate(
    trace: Annotated[
        str, typer.Option(metavar="FILE", help="The jobs; without it they are made up.")
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(metavar="SHAPE", help="8x8xV100+4x8xA100, or a CSV or HiveD file."),
    ] = "",
    policy: Names = None,
    preset: Annotated[
        str, typer.Option(help="The set-up of a published simulator, such as muri-n8g8.")
    ] = "",
    seeds: Annotated[str, typer.Option(help="3, 0-9 or 3,5.")] = "0",
    profiles: Annotated[
        str, typer.Option(metavar="PATH", help="Throughputs of the models of the trace.")
    ] = "",
    placement: Annotated[
        str,
        typer.Option(help="cells (the live engine), nodes (best fit), first (first fit) or count."),
    ] = "",
    locality: Annotated[
        str, typer.Option(help="Slow-down of jobs on more than one node: none or philly.")
    ] = "none",
    restart: Annotated[
        float, typer.Option(help="Seconds that a preempted job loses when it starts again.")
    ] = 0.0,
    vc: Annotated[
        list[str] | None,
        typer.Option("--vc", metavar="VC=MODEL:GPUS", help="A virtual cluster. May be repeated."),
    ] = None,
    grace: Annotated[float, typer.Option(help="With cells: seconds to leave.")] = 30.0,
    speedup: Annotated[
        str, typer.Option(help="Of elastic policies: linear, amdahl:F or profile.")
    ] = "",
    jobs: Annotated[int, typer.Option(help="How many jobs to make up.")] = 200,
    load: Annotated[float, typer.Option(help="Load of jobs that are made up.")] = 0.9,
    processes: Annotated[
        int, typer.Option(min=0, max=256, help="Runs at a time; 0: one for each CPU.")
    ] = 0,
    html: Annotated[str, typer.Option(metavar="FILE", help="Write a report with plots.")] = "",
    as_json: Json = False,
) -> None:
    """Compare scheduling policies on a trace of jobs, on this machine. With --json, print one
    object a line for each policy and seed; equal arguments print equal lines, but for wall_s."""
    from skep_scheduler.simulator.command import (
        PolicyError,
        SimulateRequest,
        WorkloadError,
        execute_all,
        plan_runs,
    )
    from skep_scheduler.simulator.report import render

    request = SimulateRequest(
        Path(trace) if trace else None,
        cluster,
        tuple(policy or ()),
        preset,
        seeds,
        Path(profiles) if profiles else None,
        placement,
        locality,
        restart,
        jobs,
        load,
        tuple(vc or ()),
        grace,
        speedup,
    )
    lines: list[dict[str, Any]] = []
    series = []
    try:
        runs = plan_runs(request)
        with count("jobs", sum(len(run.trace.jobs) for run in runs)) as report:
            at_a_time = min(processes or os.cpu_count() or 1, len(runs))
            for line, points in execute_all(runs, at_a_time, lambda ended, total: report(ended)):
                lines.append(line)
                series.append(points)
                if as_json:
                    say(json.dumps(line))
        if html:
            Path(html).write_text(render(lines, series), encoding="utf-8")
    except (WorkloadError, PolicyError) as error:
        _refuse(error.code, error.message, error.details, as_json)
    except OSError as error:
        _refuse("not_written", f"{error.filename}: {error.strerror}", {}, as_json)
    if not as_json:
        _print(lines)
        if html:
            say(f"The report is in {html}.")


def _refuse(code: str, message: str, details: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say(json.dumps({"code": code, "message": message, "details": details}), err=True)
    else:
        say(f"{message} ({code})", err=True)
    raise typer.Exit(exits.USAGE)


def _print(lines: list[dict[str, Any]]) -> None:
    from skep_client.cli.common import print_table

    rows = [
        [
            line["policy"],
            str(line["seed"]),
            str(line["jobs"]),
            f"{line['avg_jct_s']:,.0f} s",
            f"{line['p99_jct_s']:,.0f} s",
            f"{line['avg_wait_s']:,.0f} s",
            f"{line['makespan_s']:,.0f} s",
            f"{line['utilisation']:.1%}",
            str(line["preemptions"]),
            f"{line['wall_s']:.1f} s",
        ]
        for line in lines
    ]
    heads = ("POLICY", "SEED", "JOBS", "MEAN JCT", "P99 JCT", "WAIT", "MAKESPAN", "USED")
    print_table([*heads, "PREEMPTIONS", "TOOK"], rows)
