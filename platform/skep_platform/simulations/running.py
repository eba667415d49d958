"""Runs a simulation in a process of its own, under limits of time and memory.

The process gets a trace and the shape of a cluster, and nothing of ours: no key, no address of the
database. It runs behind everything else of the machine. Its lines are the progress, and then the
figures of each policy.
"""

from __future__ import annotations

import csv
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import structlog

from skep_platform.core.errors import SkepError
from skep_platform.core.parse_pool import ENVIRONMENT
from skep_platform.simulations import forecasting, history, node_history, services, what_if
from skep_platform.simulations.models import Simulation, SimulationState
from skep_scheduler.simulator.command import plain_model

log = structlog.get_logger(__name__)

MIB = 1024**2
MOST_S = 300.0  # of all runs of a simulation together
MOST_MIB = 1024
MOST_JOBS = {"cells": 2_000, "nodes": 50_000}
MOST_POINTS = 240  # of a series
LOOK_S = 1.0
FOLDERS = "skep-simulation-"
LEFT_S = 3600.0  # a folder that is older belongs to a worker that was killed
BEHIND = 10  # the nice value
GPUS_OF_NODE = 8  # of a model of which there is no node yet
PROGRAM = (sys.executable, "-m", "skep_scheduler.simulator")
HERE, CHANGED = "as_is", "changed"
NODE_EVENTS = "node-events.csv"


class Stopped(Exception):
    """Raised when a user stopped the simulation."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster to run the policies on. `shape`: NODESxGPUSxMODEL, joined by +; `shares`: what
    virtual clusters own, as VC=MODEL:GPUS; `added`: groups of its nodes that are not there yet."""

    name: str
    shape: str
    shares: tuple[str, ...]
    added: tuple[tuple[int, int, str], ...] = ()


def run_next() -> None:
    """Run the simulation that waits longest, unless one runs."""
    found = services.claim()
    if found is None:
        return
    try:
        result = _BY_SOURCE.get(found.request["source"], _run)(found)
    except Stopped:
        services.finish(found.pk, SimulationState.STOPPED)
    except SkepError as error:
        services.finish(found.pk, SimulationState.FAILED, error=error.as_dict())
    except Exception:
        log.exception("simulation_failed", simulation=str(found.pk))
        message = "The simulation failed; the log of the server has the cause."
        failure = SkepError(message, code="simulation_failed").as_dict()
        services.finish(found.pk, SimulationState.FAILED, error=failure)
    else:
        services.finish(found.pk, SimulationState.SUCCEEDED, result=result)


def _run(simulation: Simulation) -> dict[str, Any]:
    request = simulation.request
    scenarios = scenarios_of(simulation)
    _remove_left()
    with TemporaryDirectory(prefix=FOLDERS) as folder:
        trace = Path(folder) / "history.csv"
        jobs = request["jobs"]
        if request["source"] == "history":
            jobs = _write(simulation, trace)
        if request.get("node_events"):
            scenarios = _with_node_events(request, scenarios, Path(folder))
        watch = _Watch(simulation, jobs * len(request["policies"]) * len(scenarios))
        runs = [
            {"scenario": scenario.name} | found
            for scenario in scenarios
            for found in watch.runs(_command(request, scenario, trace), len(request["policies"]))
        ]
    return {"runs": runs}


def _with_node_events(
    request: Mapping[str, Any], scenarios: Sequence[Scenario], folder: Path
) -> list[Scenario]:
    """Write what happened to the nodes, and the clusters as files that name their nodes. Nothing
    happens to nodes that are not there yet. Raises SkepError `too_many_node_events`."""
    known = node_history.parts()
    since, until = (datetime.fromisoformat(request[name]) for name in ("since", "until"))
    (folder / NODE_EVENTS).write_text(node_history.events_csv(known, since, until))
    found = []
    for scenario in scenarios:
        added = [group[1:] for group in scenario.added for _ in range(group[0])]
        new = [
            node_history.SimulatedPart(f"new:{number}", "", gpus, plain_model(model))
            for number, (gpus, model) in enumerate(added)
        ]
        path = folder / f"{scenario.name}.csv"
        path.write_text(node_history.cluster_csv([*known, *new]))
        found.append(replace(scenario, shape=str(path)))
    return found


def _forecast(simulation: Simulation) -> dict[str, Any]:
    """Run the present queue of a virtual cluster on under its policy and another one."""
    _remove_left()
    with TemporaryDirectory(prefix=FOLDERS) as folder:
        path = Path(folder) / "snapshot.json"
        jobs, about = forecasting.write(simulation, path)
        policies = len(simulation.request["policies"])
        watch = _Watch(simulation, jobs * policies)
        runs = watch.runs([*PROGRAM, "--watch", "--snapshot", str(path)], policies)
    return {"forecast": forecasting.summary(runs, about)}


def _now(simulation: Simulation) -> dict[str, Any]:
    """Run what runs and waits at this moment on, as the cluster is and as it would be."""
    _remove_left()
    with TemporaryDirectory(prefix=FOLDERS) as folder:
        path = Path(folder) / "snapshot.json"
        jobs, number, about = what_if.write(simulation, path)
        watch = _Watch(simulation, jobs * number)
        runs = watch.runs([*PROGRAM, "--watch", "--snapshot", str(path)], number)
    return what_if.summary(runs, about)


_BY_SOURCE = {forecasting.SOURCE: _forecast, what_if.SOURCE: _now}


def _remove_left() -> None:
    """Remove what workers that were killed left here: it has names of users."""
    for folder in Path(gettempdir()).glob(f"{FOLDERS}*"):
        with suppress(OSError):
            if folder.lstat().st_mtime < time.time() - LEFT_S:
                shutil.rmtree(folder)


def _write(simulation: Simulation, path: Path) -> int:
    """Write the trace. Returns the number of jobs. Raises SkepError `no_jobs`, `too_many_jobs`."""
    request, most = simulation.request, MOST_JOBS[simulation.request["placement"]]
    window = history.Window(
        datetime.fromisoformat(request["since"]),
        datetime.fromisoformat(request["until"]),
        simulation.vc_id,
        # What a virtual cluster gets alone on its cells; others' idle GPUs are not among them.
        guaranteed=simulation.vc_id is not None,
    )
    number = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(history.COLUMNS)
        for row in history.rows(simulation.owner, window, most + 1):
            number += 1
            lines.writerow(row)
    if number > most:
        raise SkepError(
            f"More than {most:,} jobs ended in this time. Choose a shorter one"
            + ("." if request["placement"] == "nodes" else ", or simulate without cells."),
            code="too_many_jobs",
            most=most,
        )
    if not number:
        message = "No job that used GPUs was submitted in this time and has ended. Choose another."
        raise SkepError(message, code="no_jobs")
    return number


def scenarios_of(simulation: Simulation) -> list[Scenario]:
    """Return the cluster as it is, and as it would be with the changes. Raises SkepError
    `no_gpus`."""
    request = simulation.request
    known = history.cluster(simulation.owner)
    vc = simulation.vc.name if simulation.vc else ""
    sizes: dict[str, int] = {}
    for _, gpus, model in known.groups:
        sizes[model] = max(gpus, sizes.get(model, 0))
    owned = {
        name: dict(of_models) for name, of_models in known.owned.items() if not vc or name == vc
    }
    groups = [] if vc else list(known.groups)
    found = [_scenario(HERE, groups, owned, sizes, request["placement"])]
    if request["changes"]:
        more: dict[str, int] = {}
        for change in request["changes"]:
            model, name = change["gpu_model"], change["virtual_cluster"] or vc
            of_vc = owned.setdefault(name, {}) if name else {}
            of_vc[model] = max(of_vc.get(model, 0) + change["gpus"], 0)
            more[model] = more.get(model, 0) + change["gpus"]
        if not vc:
            for model, gpus in more.items():
                groups += _nodes(model, gpus, sizes)
        changed = _scenario(CHANGED, groups, owned, sizes, request["placement"])
        added = () if vc else tuple(groups[len(known.groups) :])
        found.append(replace(changed, added=added))
    return found


def _scenario(
    name: str,
    groups: Sequence[tuple[int, int, str]],
    owned: Mapping[str, Mapping[str, int]],
    sizes: Mapping[str, int],
    placement: str,
) -> Scenario:
    """Without groups, what is owned is all that there is."""
    given = list(groups) or [
        group
        for of_models in owned.values()
        for model, gpus in of_models.items()
        for group in _nodes(model, gpus, sizes)
    ]
    if not given:
        message = "There are no GPUs to simulate: the virtual cluster owns none."
        raise SkepError(message, code="no_gpus")
    shares = [
        f"{vc}={plain_model(model)}:{gpus}"
        for vc, of_models in owned.items()
        for model, gpus in of_models.items()
        if gpus
    ]
    shape = "+".join(f"{nodes}x{gpus}x{plain_model(model)}" for nodes, gpus, model in given)
    return Scenario(name, shape, tuple(shares) if placement == "cells" else ())


def _nodes(model: str, gpus: int, sizes: Mapping[str, int]) -> list[tuple[int, int, str]]:
    """Return nodes with so many GPUs together, of the size that those of the model have."""
    whole, rest = divmod(max(gpus, 0), sizes.get(model, GPUS_OF_NODE))
    found = [(whole, sizes.get(model, GPUS_OF_NODE), model), (1, rest, model)]
    return [group for group in found if group[0] and group[1]]


def _command(request: Mapping[str, Any], scenario: Scenario, trace: Path) -> list[str]:
    options = [
        *("--watch", "--cluster", scenario.shape, "--placement", request["placement"]),
        *("--seeds", str(request["seed"]), "--restart", str(request["restart_s"])),
    ]
    if request["source"] == "history":
        options += ["--trace", str(trace)]
        if request.get("node_events"):
            options += ["--node-events", str(trace.with_name(NODE_EVENTS))]
    else:
        options += ["--jobs", str(request["jobs"]), "--load", str(request["load"])]
    for policy in request["policies"]:
        options.append(f"--policy={policy}")
    for share in scenario.shares:
        options.append(f"--vc={share}")
    return [*PROGRAM, *options]


class _Watch:
    """Follows the processes of one simulation, and ends them when their time is over."""

    def __init__(self, simulation: Simulation, total: int) -> None:
        self.pk = simulation.pk
        self.total, self.before, self.ended = total, 0, 0
        self.until = time.monotonic() + MOST_S
        self._look()

    def runs(self, command: Sequence[str], policies: int) -> list[dict[str, Any]]:
        """Return the figures and the series of each of so many policies. Raises Stopped, and
        SkepError."""
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ},
            start_new_session=True,
        )
        found = []
        try:
            with suppress(ProcessLookupError):
                resource.prlimit(process.pid, resource.RLIMIT_AS, (MOST_MIB * MIB,) * 2)
                resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(MOST_S) + 10,) * 2)
                os.setpriority(os.PRIO_PROCESS, process.pid, BEHIND)
            for facts in self._facts(process):
                if "error" in facts:
                    raise SkepError(
                        facts["error"]["message"],
                        code=facts["error"]["code"],
                        **facts["error"]["details"],
                    )
                if "ended" in facts:
                    self.ended = facts["ended"]
                else:
                    run = {"figures": facts["line"], "series": _thinned(facts["series"])}
                    found.append(run | {"jobs": facts["jobs"]} if "jobs" in facts else run)
        finally:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        if len(found) != policies:
            raise RuntimeError(f"{len(found)} runs of {policies} policies")
        self.before += self.ended
        self.ended = 0
        self._look()
        return found

    def _facts(self, process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
        """Yield what it says until it ends."""
        assert process.stdout is not None
        descriptor, text = process.stdout.fileno(), b""
        looked = time.monotonic()
        while True:
            ready, _, _ = select.select([descriptor], [], [], LOOK_S)
            if time.monotonic() - looked >= LOOK_S:
                looked = time.monotonic()
                self._look()
            if not ready:
                continue
            piece = os.read(descriptor, 1 << 20)
            if not piece:
                break
            *lines, text = (text + piece).split(b"\n")
            yield from map(json.loads, lines)
        if process.wait() not in (0, 2):
            message = "The simulation needed more time or memory than it may use. Choose less."
            raise SkepError(message, code="simulation_too_large", seconds=MOST_S, mib=MOST_MIB)

    def _look(self) -> None:
        if not services.progress(self.pk, self.before + self.ended, self.total):
            raise Stopped
        if time.monotonic() > self.until:
            message = f"It took longer than {MOST_S:g} s. Choose fewer jobs or policies."
            raise SkepError(message, code="simulation_too_large", seconds=MOST_S, mib=MOST_MIB)


def _thinned(series: Sequence[Any]) -> list[Any]:
    step = max(-(-len(series) // MOST_POINTS), 1)
    return [*series[::step], *series[-1:]] if len(series) > step else list(series)
