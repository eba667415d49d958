"""`python -m skep_scheduler.simulator`: run a workload under one policy or more.

Prints one JSON object a line for each policy and seed. But for `wall_s`, equal arguments print
equal bytes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from skep_scheduler import policies
from skep_scheduler.model import PolicyChoice
from skep_scheduler.policies import PolicyError
from skep_scheduler.simulator.cluster import SimulatedCluster
from skep_scheduler.simulator.metrics import summarise
from skep_scheduler.simulator.workload import (
    TraceJob,
    WorkloadError,
    gangs_of,
    nodes_of,
    read_trace,
    synthetic_trace,
    virtual_clusters,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line. Returns the exit status: 2 for arguments that cannot be read."""
    args = _parser().parse_args(argv)
    try:
        for seed in _seeds(args.seeds) if args.trace is None else [0]:
            jobs, name = _jobs(args, seed)
            for policy in args.policy or [policies.DEFAULT]:
                line = {"policy": policy, "trace": name, "seed": seed}
                line |= run(jobs, args.cluster, args.vc, _choice(policy), args.grace)
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()
    except (WorkloadError, PolicyError, OSError) as error:
        sys.stderr.write(f"skep_scheduler.simulator: {error}\n")
        return 2
    return 0


def run(
    jobs: Sequence[TraceJob],
    shape: str,
    shares: Sequence[str],
    policy: PolicyChoice,
    grace_s: float = 30.0,
) -> dict[str, float]:
    """Run `jobs` to their end on a cluster of `shape` and return the figures, rounded to 1 ms.

    Raises `WorkloadError` and `PolicyError`.
    """
    policies.check(policy)
    start = time.perf_counter()
    nodes = nodes_of(shape)
    vcs = virtual_clusters(nodes, shares, policy)
    cluster = SimulatedCluster(nodes, vcs, grace_s=grace_s, keep_progress=True)
    for gang in gangs_of(jobs, nodes, vcs):
        cluster.submit_later(gang)
    ticks = cluster.run_to_end()
    figures = {name: round(value, 3) for name, value in asdict(summarise(cluster)).items()}
    return figures | {"ticks": ticks, "wall_s": round(time.perf_counter() - start, 3)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m skep_scheduler.simulator", description=__doc__)
    parser.add_argument("--cluster", default="8x8xV100", help="NODESxGPUSxMODEL, joined by +")
    parser.add_argument(
        "--vc", action="append", default=[], metavar="VC=MODEL:GPUS", help="one owns all if absent"
    )
    parser.add_argument("--trace", type=Path, help="CSV with submit_s, duration_s, gpus, ...")
    parser.add_argument("--jobs", type=int, default=200, help="of a made-up trace (default: 200)")
    parser.add_argument("--load", type=float, default=0.9, help="of a made-up trace (default: 0.9)")
    parser.add_argument("--seeds", default="0", help="of made-up traces: 3, or 0-9 (default: 0)")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="NAME",
        help=f"{', '.join(policies.names())}; may be given more than once",
    )
    parser.add_argument("--grace", type=float, default=30.0, help="seconds to leave (default: 30)")
    return parser


def _jobs(args: argparse.Namespace, seed: int) -> tuple[list[TraceJob], str]:
    if args.trace is not None:
        return read_trace(args.trace), args.trace.name
    gpus = sum(len(node.devices) for node in nodes_of(args.cluster))
    if args.jobs < 1 or not 0 < args.load <= 10:
        raise WorkloadError("--jobs is 1 or more, --load is above 0 and at most 10")
    return synthetic_trace(args.jobs, gpus, seed, args.load), "synthetic"


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    if not first.isdigit() or (last and not last.isdigit()):
        raise WorkloadError(f"--seeds {text!r} is neither a number nor a range such as 0-9")
    return range(int(first), int(last or first) + 1)


def _choice(text: str) -> PolicyChoice:
    return PolicyChoice(text)


if __name__ == "__main__":
    sys.exit(main())
