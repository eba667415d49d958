"""What `skep simulate` and `python -m skep_scheduler.simulator` do: check a request, run it side by
side over processes, and give one line of figures for each policy and seed.

But for `wall_s`, equal requests give equal bytes.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.sharedctypes import SynchronizedArray
from pathlib import Path
from typing import Any

from skep_scheduler import policies
from skep_scheduler.model import InvariantError, PolicyChoice
from skep_scheduler.policies import PolicyError
from skep_scheduler.policies.base import Knows
from skep_scheduler.policies.recurrence import SOURCES
from skep_scheduler.simulator.cluster import SimulatedCluster
from skep_scheduler.simulator.clusters import Hardware, read_cluster
from skep_scheduler.simulator.node_events import read_node_changes
from skep_scheduler.simulator.presets import packing_native, registry
from skep_scheduler.simulator.presets.elastic_native import (
    ELASTIC,
    LEARNED,
    check_speedup,
    speedup_of,
)
from skep_scheduler.simulator.presets.kernel_runs import families_of
from skep_scheduler.simulator.ranked_pools import PLACES
from skep_scheduler.simulator.readers import Trace, read
from skep_scheduler.simulator.results import STARVED_AFTER_S
from skep_scheduler.simulator.speed import LOCALITIES, read_speeds
from skep_scheduler.simulator.workload import (
    MAX_RUNS,
    WorkloadError,
    broken_invariant,
    from_zero,
    gangs_of,
    nodes_of,
    read_seeds,
    synthetic_trace,
    virtual_clusters,
)

Line = dict[str, Any]
Series = Sequence[tuple[float, int, int]]
PLACEMENTS = ("cells", "nodes", "first", "count")
DEFAULT_CLUSTER = "8x8xV100"
# Names that papers and presets have for a policy of ours, where a preset has no such name.
ALIASES = {"priority": policies.DEFAULT, "tiresias-l": "tiresias"}
# What input that no reader refused may still lead to, in code that expects better.
BROKEN = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
ELASTIC_NAMES = frozenset(policy.name for policy in ELASTIC)
PACKING_NAMES = frozenset(policy.name for policy in packing_native.PACKING)


@dataclass(frozen=True, slots=True)
class SimulateRequest:
    """What to simulate. Without a `trace`, one is made up for each seed: `jobs` jobs at `load`.

    policies: names, each with parameters behind it if wanted: `fifo:backfill=skip`
    placement: `cells` runs the live engine; `nodes` (best fit), `first` (first fit) and `count`
        run the event kernel; "" chooses: the engine for a policy that only it has
    migration_s, speeds: of the event kernel, what a start on other nodes costs, and how fast GPUs
        of each model are: `V100=1,A100=2.1`
    place, pull_s: of the event kernel, how the places of a job are ranked (`consolidated`,
        `crandom`, `random` or `apollo`), and how long a node pulls an image
    weights: of learned policies, instead of those that are shipped
    starved_after_s: a job that waits longer counts as starved
    node_events: what happens to nodes of the live engine (`node_events.read_node_changes`)
    speedup: of elastic policies, `linear`, `amdahl:F` or `profile`; "" chooses
    vcs: shares such as `research=V100:48`, for the live engine
    """

    trace: Path | None = None
    cluster: str = ""
    policies: tuple[str, ...] = ()
    preset: str = ""
    seeds: str = "0"
    profiles: Path | None = None
    placement: str = ""
    locality: str = "none"
    restart_s: float = 0.0
    jobs: int = 200
    load: float = 0.9
    vcs: tuple[str, ...] = ()
    grace_s: float = 30.0
    speedup: str = ""
    migration_s: float = 0.0
    speeds: str = ""
    place: str = ""
    pull_s: float = 0.0
    weights: Path | None = None
    starved_after_s: float = STARVED_AFTER_S
    node_events: Path | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One policy on one trace."""

    choice: PolicyChoice
    label: str
    preset: str
    trace: Trace
    seed: int
    hardware: Hardware | None
    request: SimulateRequest
    live: bool


def plan_runs(request: SimulateRequest) -> list[Run]:
    """Return the runs of a request, by policy and then by seed.

    Raises `WorkloadError` and `PolicyError` before anything runs.
    """
    preset = registry.find(request.preset or "native")
    seeds = read_seeds(request.seeds)
    hardware = read_cluster(request.cluster) if request.cluster else None
    _check(request)
    if preset.name != "native" and request.trace is None and not preset.makes_jobs:
        raise WorkloadError(f"preset {preset.name} needs --trace", "bad_option")
    given: Trace | None = None
    if preset.makes_jobs:
        given = Trace("continuous", "made", (), request.trace)
    elif request.trace is not None:
        given = read(request.trace)
    traces = {seed: given or _made_up(request, hardware, seed) for seed in seeds}
    runs = []
    for text in request.policies or (_default_policy(request, preset),):
        choice = _named_in(preset, read_policy(text))
        live = _is_live(request, preset, choice)
        if request.node_events is not None and not live:
            raise WorkloadError("--node-events needs --placement cells", "bad_option")
        if live:
            policies.check(choice)
        else:
            _check_known(choice, preset)
            preset.runner(choice.name)
        for seed, trace in traces.items():
            runs.append(Run(choice, text, preset.name, trace, seed, hardware, request, live))
    if len(runs) > MAX_RUNS:
        raise WorkloadError(f"{len(runs)} runs; at most {MAX_RUNS} at a time", "bad_option")
    return runs


def execute(run: Run, report: Callable[[int], None] | None = None) -> tuple[Line, Series]:
    """Run it; return its line and the series of (second, jobs that wait, GPUs in use).

    Raises `WorkloadError` and `PolicyError`.
    """
    try:
        return _execute(run, report)
    except (WorkloadError, PolicyError):
        raise
    except InvariantError as error:
        raise broken_invariant(run.label, run.trace.name, run.seed, error) from error
    except BROKEN as error:
        raise WorkloadError(
            f"{run.label} on {run.trace.name}: the run broke off ({type(error).__name__}: "
            f"{error}). Check trace, cluster and profiles; if they are right, report this",
            "simulation_failed",
        ) from error


def _execute(run: Run, report: Callable[[int], None] | None) -> tuple[Line, Series]:
    # Policies that solve programs have small matrices: threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    begun = time.perf_counter()
    series: Series = ()
    figures: Line
    if run.live:
        figures, series = _live(run, report)
    else:
        request = run.request
        setup = registry.Setup(
            run.trace,
            run.hardware,
            run.choice.name,
            run.choice.parameters,
            run.seed,
            request.profiles,
            request.placement or "nodes",
            request.locality,
            request.restart_s,
            request.speedup,
            request.migration_s,
            request.speeds,
            request.place,
            request.pull_s,
            request.weights,
            report,
        )
        outcome = registry.find(run.preset).run(setup)
        figures, series = {**outcome.figures(request.starved_after_s)}, outcome.series
        if run.preset == "native" and run.choice.name in ELASTIC_NAMES:
            profiles = registry.speedup_profiles(setup)
            figures["speedup"] = speedup_of(request.speedup, profiles)
        if run.preset == "native" and run.choice.name in PACKING_NAMES:
            figures["loads"] = packing_native.loads_of(setup)
    line: Line = {
        "policy": run.label,
        "preset": run.preset,
        "trace": run.trace.name,
        "seed": run.seed,
        **figures,
        "wall_s": round(time.perf_counter() - begun, 3),
    }
    return line, series


_ended: SynchronizedArray[int] | None = None  # in a worker: jobs that ended, by run


def _share(ended: SynchronizedArray[int]) -> None:
    global _ended
    _ended = ended


def _work(number: int, run: Run) -> tuple[Line, Series] | tuple[str, str, dict[str, object]]:
    """Run it in a worker. Errors are returned as (code, message, details): they are not pickled."""

    def report(jobs: int) -> None:
        if _ended is not None:
            _ended[number] = jobs

    try:
        return execute(run, report)
    except (WorkloadError, PolicyError) as error:
        return error.code, error.message, error.details


def _answer(future: Future[Any]) -> tuple[Line, Series]:
    answer = future.result()
    if len(answer) == 3:
        code, message, details = answer
        raise WorkloadError(message, code, **details)
    return answer[0], answer[1]


def execute_all(
    runs: Sequence[Run], processes: int, progress: Callable[[int, int], None]
) -> Iterator[tuple[Line, Series]]:
    """Run all and yield their lines in order, each as soon as those before it are there. `progress`
    is called with (jobs that ended, jobs of all runs).

    Raises `WorkloadError` and `PolicyError`.
    """
    total = sum(len(run.trace.jobs) for run in runs)
    if processes <= 1 or len(runs) == 1:
        before = 0
        for run in runs:
            yield execute(run, _reporter(progress, before, total))
            before += len(run.trace.jobs)
            progress(before, total)
        return
    context = get_context("fork")
    ended = context.Array("i", len(runs))
    with ProcessPoolExecutor(processes, context, _share, (ended,)) as pool:
        futures = [pool.submit(_work, number, run) for number, run in enumerate(runs)]
        try:
            for number, future in enumerate(futures):
                while not wait([future], timeout=0.2).done:
                    progress(sum(ended[:]), total)
                ended[number] = len(runs[number].trace.jobs)
                yield _answer(future)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    progress(total, total)


def _reporter(
    progress: Callable[[int, int], None], before: int, total: int
) -> Callable[[int], None]:
    return lambda jobs: progress(before + jobs, total)


def plain_model(model: str) -> str:
    """Return a GPU model as the shape of a cluster names it."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", model)


def read_policy(text: str) -> PolicyChoice:
    """Return the choice of `NAME` or `NAME:PARAMETER=VALUE,...`. Raises `WorkloadError`."""
    name, _, rest = text.partition(":")
    parameters: list[tuple[str, str | int | float]] = []
    for part in filter(None, rest.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise WorkloadError(f"--policy {text!r}: {part!r} is not PARAMETER=VALUE", "bad_option")
        parameters.append((key.strip(), _value(value.strip())))
    return PolicyChoice(name.strip(), tuple(parameters))


def _named_in(preset: registry.Preset, choice: PolicyChoice) -> PolicyChoice:
    known = choice.name in preset.policies
    return choice if known else replace(choice, name=ALIASES.get(choice.name, choice.name))


def _value(text: str) -> str | int | float:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_policy(text: str, placement: str) -> None:
    """Raise `WorkloadError` or `PolicyError` unless the policy of this text can be simulated with
    our own rules: by the live engine (`cells`), or else by the event kernel."""
    choice = _named_in(registry.find("native"), read_policy(text))
    if placement == "cells":
        policies.check(choice)
        return
    preset = registry.find("native")
    _check_known(choice, preset)
    runner = preset.runner(choice.name)
    if runner is registry.run_kernel:
        registry.Setup(Trace("", "", ()), None, choice.name, choice.parameters).order()


def _default_policy(request: SimulateRequest, preset: registry.Preset) -> str:
    return policies.DEFAULT if not request.preset else sorted(preset.policies)[0]


def _is_live(request: SimulateRequest, preset: registry.Preset, choice: PolicyChoice) -> bool:
    if request.preset and request.preset != "native":
        return False
    if request.placement:
        return request.placement == "cells"
    only_live = choice.name in policies.names() and choice.name not in preset.policies
    return bool(request.vcs) or only_live


def _check_known(choice: PolicyChoice, preset: registry.Preset) -> None:
    if choice.name in policies.names() and choice.name not in preset.policies:
        message = f"{choice.name} is run by the live engine only: simulate it with cells"
        raise WorkloadError(message, "policy_not_in_preset", policy=choice.name)
    known = registry.policy_names()
    if choice.name not in known:
        raise PolicyError(
            "unknown_policy",
            f"There is no policy {choice.name!r}. Policies are: {', '.join(known)}.",
            policy=choice.name,
            known=list(known),
        )


def _check(request: SimulateRequest) -> None:
    if request.placement and request.placement not in PLACEMENTS:
        raise WorkloadError(f"--placement is one of {', '.join(PLACEMENTS)}", "bad_option")
    if request.locality not in LOCALITIES:
        raise WorkloadError(f"--locality is one of {', '.join(LOCALITIES)}", "bad_option")
    costs = request.restart_s, request.migration_s, request.grace_s
    if not all(0 <= cost <= 86_400 for cost in costs):
        message = "--restart, --migration and --grace are from 0 to 86400 seconds"
        raise WorkloadError(message, "bad_option")
    if not 0 <= request.starved_after_s <= 366 * 86_400:
        message = "--starved-after is from 0 to 31622400 seconds (366 days)"
        raise WorkloadError(message, "bad_option")
    on_nodes = request.placement in ("", "nodes", "first") and request.preset in ("", "native")
    if (read_speeds(request.speeds) or request.migration_s) and not on_nodes:
        message = "--speeds and --migration need nodes: --placement nodes or first, no preset"
        raise WorkloadError(message, "bad_option")
    _check_place(request, on_nodes)
    if request.trace is None and not (1 <= request.jobs <= 1_000_000 and 0 < request.load <= 10):
        raise WorkloadError("--jobs is 1 or more, --load is above 0 and at most 10", "bad_option")
    check_speedup(request.speedup)
    if request.vcs and request.preset not in ("", "native"):
        raise WorkloadError("--vc is not for presets of artifacts", "bad_option")


def _check_place(request: SimulateRequest, on_nodes: bool) -> None:
    if request.place and request.place not in PLACES:
        raise WorkloadError(f"--place is one of {', '.join(PLACES)}", "bad_option")
    if not 0 <= request.pull_s <= 86_400:
        raise WorkloadError("--pull is from 0 to 86400 seconds", "bad_option")
    if not (request.place or request.pull_s):
        return
    runs = {read_policy(text).name for text in request.policies} or {policies.DEFAULT}
    if not on_nodes or request.vcs or not runs <= {policy.name for policy in registry.KERNEL}:
        message = (
            "--place and --pull need nodes, no preset, and policies that order jobs of fixed size: "
            + ", ".join(policy.name for policy in registry.KERNEL)
        )
        raise WorkloadError(message, "bad_option")


def _made_up(request: SimulateRequest, hardware: Hardware | None, seed: int) -> Trace:
    gpus = (hardware or Hardware.of_shape(DEFAULT_CLUSTER)).gpus
    jobs = synthetic_trace(request.jobs, gpus, seed, request.load)
    return Trace("synthetic", "csv", tuple(jobs))


def _live(run: Run, report: Callable[[int], None] | None) -> tuple[dict[str, float | int], Series]:
    """Run the live engine on cells."""
    hardware = run.hardware or Hardware.of_shape(DEFAULT_CLUSTER)
    request = run.request
    nodes = nodes_of(hardware.shape, hardware.names)
    vcs = virtual_clusters(nodes, request.vcs, run.choice)
    cluster = SimulatedCluster(nodes, vcs, grace_s=request.grace_s, keep_progress=True)
    cluster.restart_s = request.restart_s
    start = min(job.submit_s for job in run.trace.jobs)
    jobs = _shifted(run.trace, start)
    learns = Knows.HISTORY in policies.check(run.choice).needs.must_know
    if learns:
        cluster.families = {job.id: families_of(SOURCES[0], job) for job in jobs}
    for gang in gangs_of(jobs, nodes, vcs):
        cluster.submit_later(gang)
    if request.node_events is not None:
        for change in read_node_changes(request.node_events, {node.name for node in nodes}):
            cluster.change_node_later(replace(change, at=change.at - start))
    ticks = cluster.run_to_end(report=report)
    outcome = cluster.outcome()
    outcome.check(len(run.trace.jobs))
    more = {"ticks": ticks} | (cluster.recurrence.figures() if learns else {})
    return outcome.figures(request.starved_after_s) | more, outcome.series


def _shifted(trace: Trace, start: float) -> list[Any]:
    jobs = []
    for job in trace.jobs:
        if not job.duration_s > 0 or job.gpus < 1:
            raise WorkloadError(
                f"{trace.name}: job {job.id} has no duration or no GPU; its trace needs the preset "
                "of its artifact (--preset)"
            )
        deadline_s = None if job.deadline_s is None else job.deadline_s - start
        jobs.append(replace(job, submit_s=job.submit_s - start, deadline_s=deadline_s))
    return sorted(jobs, key=lambda job: (job.submit_s, job.id))


def train_weights(
    name: str,
    trace: Path | None,
    options: Mapping[str, Any],
    report: Callable[[int, int], None] | None = None,
) -> tuple[bytes, dict[str, Any]]:
    """Return the file of weights of a learned policy and its card. With a trace it learns from
    windows of `jobs` jobs of it. Raises `WorkloadError` and `PolicyError`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    found = {rule.name: rule for rule in LEARNED}
    if name not in found:
        raise PolicyError(
            "unknown_policy",
            f"{name!r} is no learned policy. Learned policies are: {', '.join(sorted(found))}.",
            policy=name,
            known=sorted(found),
        )
    try:
        from skep_scheduler.policies import weights
        from skep_scheduler.simulator.learn import Training, train
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"training needs {error.name}: pip install 'skep[policies]'", "missing_library"
        ) from error
    training = Training(**options)
    if trace is not None:
        rows = sorted(_shifted(read(trace), 0.0), key=lambda job: job.submit_s)
        cut = [rows[n : n + training.jobs] for n in range(0, len(rows), training.jobs)]
        training = replace(training, traces=[from_zero(jobs) for jobs in cut if len(jobs) > 1])
        if len(training.traces) < 2:
            raise WorkloadError(
                f"{trace.name}: {len(rows)} jobs are too few to learn from {training.jobs} at a "
                "time and to keep some for validation; choose fewer with --jobs"
            )
    trained = train(found[name](), training, report)
    return weights.dump(trained), dict(trained.card)


__all__ = [
    "PolicyError",
    "SimulateRequest",
    "WorkloadError",
    "execute",
    "execute_all",
    "plan_runs",
    "train_weights",
]
