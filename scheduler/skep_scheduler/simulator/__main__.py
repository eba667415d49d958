"""`python -m skep_scheduler.simulator`: run a workload under one policy or more.

Prints one JSON object a line for each policy and seed. But for `wall_s`, equal arguments print
equal bytes. `skep simulate` does the same with a progress bar and a report.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from skep_scheduler.model import InvariantError
from skep_scheduler.policies import PolicyError
from skep_scheduler.simulator import snapshot, what_if
from skep_scheduler.simulator.command import SimulateRequest, execute, execute_all, plan_runs
from skep_scheduler.simulator.presets.registry import PRESETS, policy_names
from skep_scheduler.simulator.results import STARVED_AFTER_S
from skep_scheduler.simulator.workload import INVARIANT_BROKEN, WorkloadError, broken_invariant


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit status: 2 for arguments that cannot be read, 1
    where a run broke an invariant."""
    args = _parser().parse_args(argv)
    if args.snapshot is not None:
        return watch(partial(_snapshot_runs, args.snapshot))
    request = SimulateRequest(
        args.trace,
        args.cluster,
        tuple(args.policy or ()),
        args.preset,
        args.seeds,
        args.profiles,
        args.placement,
        restart_s=args.restart,
        jobs=args.jobs,
        load=args.load,
        vcs=tuple(args.vc),
        grace_s=args.grace,
        speedup=args.speedup,
        place=args.place,
        pull_s=args.pull,
        starved_after_s=args.starved_after,
        node_events=args.node_events,
    )
    if args.watch:
        return watch(partial(_trace_runs, request))
    try:
        for line, _ in execute_all(plan_runs(request), 1, lambda ended, total: None):
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
    except (WorkloadError, PolicyError, OSError) as error:
        sys.stderr.write(f"skep_scheduler.simulator: {error}\n")
        return 1 if getattr(error, "code", "") == INVARIANT_BROKEN else 2
    return 0


def watch(runs: Callable[[], None]) -> int:
    """Print what a program that waits for the runs wants to know, one object a line: `ended` (jobs
    of all runs so far) of `total`; for each run its `line` and `series`, which begins at 0 s, and
    of a snapshot its `jobs`; or `error`, with code, message and details."""
    try:
        runs()
    except (WorkloadError, PolicyError) as error:
        _report(error={"code": error.code, "message": error.message, "details": error.details})
        return 2
    except MemoryError:
        message = "The simulation needs more memory than it may use. Simulate fewer jobs."
        _report(error={"code": "simulation_too_large", "message": message, "details": {}})
        return 2
    except Exception:
        traceback.print_exc()
        message = "The simulation failed; the log of the server has the cause."
        _report(error={"code": "simulation_failed", "message": message, "details": {}})
        return 2
    return 0


def _trace_runs(request: SimulateRequest) -> None:
    runs = plan_runs(request)
    total, before = sum(len(run.trace.jobs) for run in runs), 0
    _report(ended=0, total=total)
    for run in runs:
        line, series = execute(run, partial(_report_ended, before, total))
        start = 0.0 if run.live else min(job.submit_s for job in run.trace.jobs)
        _report(line=line, series=[(round(at - start, 1), *more) for at, *more in series])
        before += len(run.trace.jobs)
        _report(ended=before, total=total)


def _snapshot_runs(path: Path) -> None:
    data = json.loads(path.read_text())
    known = snapshot.decode(data["snapshot"])
    jobs = len(known.running) + len(known.waiting)
    total, before = jobs * len(data["runs"]), 0
    _report(ended=0, total=total)
    for asked in data["runs"]:
        begin = what_if.changed(known, [what_if.GpuChange(*one) for one in asked["changes"]])
        if asked["choice"] is not None:
            choice = snapshot.choice_of(asked["choice"])
            begin = what_if.with_policy(begin, asked["policy_of"], choice)
        report = partial(_report_ended, before, total)
        try:
            found, figures, series = snapshot.run(begin, None, report)
        except InvariantError as error:
            raise broken_invariant(asked["label"], "the present queue", 0, error) from error
        line = {"policy": asked["label"], **figures}
        rows = [[job.id, job.wait_s, job.ended_at, job.started_at] for job in found]
        _report(line=line, series=series, jobs=rows)
        before += jobs
        _report(ended=before, total=total)


def _report_ended(before: int, total: int, jobs: int) -> None:
    _report(ended=before + jobs, total=total)


def _report(**facts: object) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m skep_scheduler.simulator", description=__doc__)
    parser.add_argument("--cluster", default="", help="NODESxGPUSxMODEL, joined by +; or a file")
    parser.add_argument(
        "--vc", action="append", default=[], metavar="VC=MODEL:GPUS", help="one owns all if absent"
    )
    parser.add_argument("--trace", type=Path, help="CSV with submit_s, duration_s, gpus, ...")
    parser.add_argument("--jobs", type=int, default=200, help="of a made-up trace (default: 200)")
    parser.add_argument("--load", type=float, default=0.9, help="of a made-up trace (default: 0.9)")
    parser.add_argument("--seeds", default="0", help="3, 0-9 or 3,5 (default: 0)")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"{', '.join(policy_names())}, ...; may be given more than once",
    )
    parser.add_argument("--preset", default="", help=", ".join(preset.name for preset in PRESETS))
    parser.add_argument("--profiles", type=Path, help="throughputs of the models of the trace")
    parser.add_argument("--placement", default="", help="cells, nodes, first or count")
    parser.add_argument("--place", default="", help="consolidated, crandom, random or apollo")
    parser.add_argument("--pull", type=float, default=0.0, help="seconds to pull an image")
    parser.add_argument("--speedup", default="", help="elastic: linear, amdahl:F or profile")
    parser.add_argument("--restart", type=float, default=0.0, help="seconds lost by a preemption")
    parser.add_argument("--watch", action="store_true", help="print progress and series, too")
    parser.add_argument("--snapshot", type=Path, help="a snapshot to run on, in place of a trace")
    parser.add_argument("--node-events", type=Path, help="CSV with at_s, node, action; on cells")
    parser.add_argument(
        "--starved-after",
        type=float,
        default=STARVED_AFTER_S,
        metavar="S",
        help="seconds of waiting after which a job counts as starved (default: a day)",
    )
    parser.add_argument("--grace", type=float, default=30.0, help="seconds to leave (default: 30)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
