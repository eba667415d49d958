"""`skep simulate`: run a trace of jobs under scheduling policies. It needs a server only to read
history, or the cluster as it is."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client import exits
from skep_client.cli import what_if
from skep_client.cli.audit import moment
from skep_client.cli.common import Json, client, print_json, print_table, say
from skep_client.cli.progress import count

if TYPE_CHECKING:
    from skep_client.models import SimulatedRun, SimulationSummary
    from skep_scheduler.simulator.command import SimulateRequest

LIVE, HISTORY = "live", "history"
SHOWN = 50  # simulations in the list
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
    app.command()(train_policy)
    app.command()(simulations)


def simulate(
    trace: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="The jobs; without it they are made up. history[:FROM..UNTIL]: those of the "
            "server that you may see, such as history:7d..1d.",
        ),
    ] = "",
    cluster: Annotated[
        str,
        typer.Option(
            metavar="SHAPE",
            help="8x8xV100+4x8xA100, a CSV or HiveD file, or live: the nodes of the server.",
        ),
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
    migration: Annotated[
        float, typer.Option(help="Seconds that it loses besides if that is on other nodes.")
    ] = 0.0,
    speeds: Annotated[
        str, typer.Option(metavar="MODEL=SPEED,...", help="V100=1,A100=2.1: how fast GPUs are.")
    ] = "",
    place: Annotated[
        str,
        typer.Option(help="Which nodes of those that fit: consolidated, crandom, random, apollo."),
    ] = "",
    pull: Annotated[
        float, typer.Option(help="Seconds that a node takes to pull the image of a job.")
    ] = 0.0,
    vc: Annotated[
        list[str] | None,
        typer.Option("--vc", metavar="VC=MODEL:GPUS", help="A virtual cluster. May be repeated."),
    ] = None,
    grace: Annotated[float, typer.Option(help="With cells: seconds to leave.")] = 30.0,
    speedup: Annotated[
        str, typer.Option(help="Of elastic policies: linear, amdahl:F or profile.")
    ] = "",
    weights: Annotated[
        str,
        typer.Option(metavar="FILE", help="Of dl2 or mlf_rl, as skep train-policy writes them."),
    ] = "",
    node_events: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="With cells: CSV of at_s,node,action (drain, lose, …). history: what happened to "
            "the nodes of the server; goes with --trace history and --cluster live.",
        ),
    ] = "",
    starved_after: Annotated[
        float, typer.Option(help="Seconds of waiting after which a job counts as starved.")
    ] = 86_400.0,
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

    shares = tuple(vc or ())
    replays = node_events == HISTORY
    if replays and not (trace.startswith(HISTORY) and cluster == LIVE and placement == "cells"):
        message = "--node-events history needs --trace history, --cluster live, --placement cells"
        _refuse("bad_option", message, {}, as_json)
    if cluster == LIVE:
        cluster, shares = _live_cluster(placement, shares)
    request = SimulateRequest(
        None,
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
        shares,
        grace,
        speedup,
        migration,
        speeds,
        place,
        pull,
        Path(weights) if weights else None,
        starved_after,
        Path(node_events) if node_events and not replays else None,
    )
    lines: list[dict[str, Any]] = []
    series = []
    try:
        with _trace(trace, as_json) as path:  # node events are read when a run begins
            request = replace(request, trace=path)
            runs = plan_runs(_with_node_events(request, trace) if replays else request)
            engine = {run.choice.name: None for run in runs if run.live and not placement}
            if engine and not as_json:
                say(f"On the live engine (--placement cells): {', '.join(engine)}.", err=True)
            if html:
                Path(html).open("a").close()  # refused before anything runs
            with count("jobs", sum(len(run.trace.jobs) for run in runs)) as report:
                at_a_time = min(processes or os.cpu_count() or 1, len(runs))
                done = execute_all(runs, at_a_time, lambda ended, total: report(ended))
                for line, points in done:
                    lines.append(line)
                    series.append(points)
                    if as_json:
                        say(json.dumps(line))
        if html:
            Path(html).write_text(render(lines, series), encoding="utf-8")
    except (WorkloadError, PolicyError) as error:
        _refuse(error.code, error.message, error.details, as_json)
    except BrokenPipeError:  # of the standard output
        raise
    except OSError as error:
        _refuse("not_written", f"{error.filename}: {error.strerror}", {}, as_json)
    if not as_json:
        _print(lines)
        if html:
            say(f"The report is in {html}.")


def train_policy(
    policy: Annotated[str, typer.Argument(metavar="NAME", help="dl2 or mlf_rl.")],
    out: Annotated[str, typer.Option(metavar="FILE", help="Where to write the weights.")],
    trace: Annotated[
        str, typer.Option(metavar="FILE", help="Jobs to learn from; without it they are made up.")
    ] = "",
    gpus: Annotated[int, typer.Option(min=1, max=1024, help="GPUs of the cluster.")] = 16,
    jobs: Annotated[int, typer.Option(min=2, max=1000, help="Jobs of each run.")] = 30,
    rounds: Annotated[int, typer.Option(min=0, max=100_000, help="How long to train.")] = 60,
    seed: Annotated[int, typer.Option(min=0, max=1_000_000, help="Equal: equal weights.")] = 0,
    as_json: Json = False,
) -> None:
    """Write the weights (.npz) of a learned policy, trained in the simulator on this machine, for
    skep simulate --weights. Experimental; it needs numpy: pip install 'skep[policies]'."""
    from skep_scheduler.simulator.command import PolicyError, WorkloadError, train_weights

    try:
        with count("rounds", rounds) as report:
            data, card = train_weights(
                policy,
                Path(trace) if trace else None,
                {"gpus": gpus, "jobs": jobs, "rounds": rounds, "seed": seed},
                lambda done, total: report(done),
            )
        Path(out).write_bytes(data)
    except (WorkloadError, PolicyError) as error:
        _refuse(error.code, error.message, error.details, as_json)
    except OSError as error:
        _refuse("not_written", f"{error.filename}: {error.strerror}", {}, as_json)
    if as_json:
        say(json.dumps({"policy": policy, "file": out, **card}))
        return
    times = card["mean_jct_s"]
    say(f"The weights are in {out}. Mean completion time on jobs that it did not learn from:")
    for name, seconds in times.items():
        say(f"  {name.replace('_', ' ')}: {seconds:,.0f} s")


def _with_node_events(request: SimulateRequest, trace: str) -> SimulateRequest:
    """Add what happened to the nodes of the server in the window of the trace. The cluster becomes
    a file with their names. Both lie beside the trace."""
    from skep_client.calls import export_node_events

    assert request.trace is not None
    cluster, events = (request.trace.with_name(f"{name}.csv") for name in ("cluster", "events"))
    with client() as skep:
        nodes = skep.simulated_cluster(nodes=True).nodes
        with events.open("wb") as file:
            file.writelines(skep.stream(export_node_events(_window(trace))))
    with cluster.open("w", encoding="utf-8", newline="") as text:
        lines = csv.writer(text)
        lines.writerow(("node", "gpus", "model"))
        lines.writerows((node.name, node.gpus, node.gpu_model) for node in nodes)
    return replace(request, cluster=str(cluster), node_events=events)


def _window(trace: str) -> dict[str, Any]:
    """Return the window of `history[:FROM..UNTIL]`, as the server takes it."""
    since, _, until = trace.partition(":")[2].partition("..")
    return {"since": moment(since), "until": moment(until)}


@contextmanager
def _trace(given: str, as_json: bool) -> Iterator[Path | None]:
    """Lend the file of a trace: the one that is named, or the history of the server as one."""
    if given.partition(":")[0] != HISTORY:
        yield Path(given) if given else None
        return
    from skep_client.calls import export_trace

    with TemporaryDirectory(prefix="skep-simulate-") as folder, client() as skep:
        path = Path(folder) / "history"
        with path.open("wb") as file:
            file.writelines(skep.stream(export_trace(_window(given))))
        if path.read_bytes().count(b"\n") < 2:
            message = "No job that you may see and that used GPUs has ended in this time."
            _refuse("no_jobs", message, {}, as_json)
        yield path


def _live_cluster(placement: str, shares: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the shape of the server's cluster. With cells, virtual clusters own there what they
    own now, unless shares are given."""
    from skep_scheduler.simulator.command import plain_model

    with client() as skep:
        known = skep.simulated_cluster()
    if placement == "cells" and not shares:
        shares = tuple(
            f"{own.virtual_cluster}={plain_model(own.gpu_model)}:{own.gpus}" for own in known.owned
        )
    return known.shape, shares


def _refuse(code: str, message: str, details: dict[str, Any], as_json: bool) -> None:
    if as_json:
        say(json.dumps({"code": code, "message": message, "details": details}), err=True)
    else:
        say(f"{message} ({code})", err=True)
    raise typer.Exit(exits.FAILED if code == "invariant_broken" else exits.USAGE)


def simulations(
    simulation: Annotated[
        str, typer.Argument(metavar="[ID]", help="Show its figures; without it, list them.")
    ] = "",
    stop: Annotated[bool, typer.Option(help="Stop it.")] = False,
    as_json: Json = False,
) -> None:
    """Show the simulations that the server ran: those of the page Simulator. For admins, and for VC
    admins of their virtual clusters."""
    with client() as skep:
        if not simulation:
            found = list(islice(skep.simulations(), SHOWN))
            if as_json:
                print_json(found)
            else:
                print_table(("ID", "STATE", "VC", "BY", "POLICIES", "JOBS"), map(_summary, found))
            return
        one = skep.stop_simulation(simulation) if stop else skep.simulation(simulation)
    if as_json:
        print_json(one)
        return
    say(f"{one.state}{f': {one.error.message}' if one.error else ''}")
    if one.now is not None:
        what_if.show(one.now)
        say()
    if one.runs:
        _print([_figures(run) for run in one.runs if run.figures])


def _summary(row: SimulationSummary) -> tuple[str, ...]:
    jobs = f"{row.jobs_ended}/{row.jobs_total}"
    vc = row.virtual_cluster or "(all)"
    return (row.id, row.state, vc, row.owner, ", ".join(row.policies), jobs)


def _figures(run: SimulatedRun) -> dict[str, Any]:
    """Return the figures of a run of the server, with its cluster in place of the seed."""
    assert run.figures is not None
    return run.figures.model_dump() | {"seed": run.scenario.replace("_", " "), "wall_s": None}


def _print(lines: list[dict[str, Any]]) -> None:
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
            "" if line["wall_s"] is None else f"{line['wall_s']:.1f} s",
        ]
        for line in lines
    ]
    heads = ("POLICY", "SEED", "JOBS", "MEAN JCT", "P99 JCT", "WAIT", "MAKESPAN", "USED")
    print_table([*heads, "PREEMPTIONS", "TOOK"], rows)
