"""Elastic policies of the preset `native`: any trace, with a speed-up model for jobs of other sizes
than they ask for.

`--speedup profile` reads steps per second by model, batch and GPUs; it is the default where the
trace is one of ElasticFlow and its throughputs are there. Else durations are stretched by
`amdahl:0.1`, or as `--speedup` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.policies.afs import Afs, Coddl
from skep_scheduler.policies.chronus import Chronus
from skep_scheduler.policies.dl2 import Dl2
from skep_scheduler.policies.elastic import ElasticPolicy
from skep_scheduler.policies.elasticflow import ElasticFlow
from skep_scheduler.policies.karuna import Karuna
from skep_scheduler.policies.mlf_rl import MlfRl
from skep_scheduler.policies.mlfs import Mlfs
from skep_scheduler.policies.optimus import Optimus
from skep_scheduler.simulator.elastic import by_profile, by_speedup, read_speedup, run_elastic
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.speed import Profiles
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

LEARNED: tuple[type[Any], ...] = (Dl2, MlfRl)
ELASTIC: tuple[type[Any], ...] = (
    *(Afs, Chronus, Coddl, ElasticFlow, Karuna, Mlfs, Optimus),
    *LEARNED,
)
TRAINED = Path(policies.__file__).parent / "trained"
ASSUMED = "amdahl:0.1"


def run_native(
    choice: PolicyChoice,
    jobs: Sequence[TraceJob],
    gpus: int,
    model: str | Profiles,
    restart_s: float,
    report: Any,
    weights: Path | None = None,
) -> Outcome:
    """Run an elastic policy with a speed-up model: its name, or profiles; a learned one with
    `weights`, or with those that are shipped. Raises `WorkloadError` and `PolicyError`."""
    made: Any = policies.make_order(choice, DEFAULTS, ELASTIC)
    policy: ElasticPolicy = guarded(made, weights) if isinstance(made, LEARNED) else made
    if isinstance(model, str):
        runs = by_speedup(jobs, read_speedup(model or ASSUMED), gpus, restart_s)
    else:
        known = model

        def sizes_of(job: TraceJob) -> Any:
            return known.sizes(job.model, job.batch)

        runs = by_profile(jobs, sizes_of, gpus, restart_s)
    return run_elastic(runs, policy, gpus, report)


def guarded(rule: Any, weights: Path | None) -> ElasticPolicy:
    """Return a learned policy with its weights. Raises `PolicyError` where they cannot be used, and
    `WorkloadError` without the library that they need."""
    path = weights or TRAINED / f"{rule.name}.npz"
    try:
        from skep_scheduler.policies.learned import Guarded
        from skep_scheduler.policies.weights import load
    except ModuleNotFoundError as error:
        raise WorkloadError(
            f"{rule.name} has a network and needs {error.name}: pip install 'skep[policies]'",
            "missing_library",
        ) from error
    try:
        data = path.read_bytes()
    except OSError as error:
        raise policies.PolicyError(
            "bad_weights", f"Weights {path} cannot be read: {error.strerror}.", file=str(path)
        ) from error
    return Guarded(rule, load(data, path.name, rule.name, rule.features).network)


def speedup_of(text: str, profiles: Profiles | None) -> str:
    """Return the name of the speed-up model of a run, for its report."""
    return "profile" if profiles is not None else text or ASSUMED


def check_speedup(text: str) -> None:
    """Raises `WorkloadError` for a model that does not exist."""
    if text not in ("", "profile"):
        read_speedup(text)


__all__ = ["ELASTIC", "LEARNED", "WorkloadError", "check_speedup", "run_native", "speedup_of"]
