"""Packing policies of the preset `native`: any trace, with what jobs need of a GPU and of a node.

The use of a GPU is that of the trace where it has the stages of an iteration; the speed of two jobs
on one GPU is that of the profile (`--profiles`, a throughput file of Gavel) where it has the pair
of models. All else is assumed: a job is of one of the kinds below, drawn by the seed, and by the
model where the trace names one, so that jobs of one model are alike. The kinds are ours, in the
range of Philly's and Synergy's measurements (mean use of a GPU 52 %; image models want up to 9
CPUs, language models 1).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.policies.gandiva import GandivaPolicy
from skep_scheduler.policies.lucid import Lucid
from skep_scheduler.policies.packing import HostDemand, Machines, PackedFacts, PackingPolicy
from skep_scheduler.policies.recurrence import groups_of
from skep_scheduler.policies.salus import Salus
from skep_scheduler.policies.synergy import Synergy
from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.elastic import read_speedup
from skep_scheduler.simulator.event_loop import US
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.sharing import Beside, SharedJobRun, SharingRun, Speeds
from skep_scheduler.simulator.speed import read_typed_profiles
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

PACKING: tuple[type[Any], ...] = (GandivaPolicy, Lucid, Salus, Synergy)
ASSUMED_SPEEDUP = "amdahl:0.1"
# Of a node for each GPU, where the cluster does not say: Synergy's servers.
CPUS, MEMORY_GB = 3.0, 62.5
# Use of a GPU, of its memory, the part that stays between iterations, and of a node.
LIGHT = (0.25, 0.20, 0.05, HostDemand(1.0, 20.0, 1.0))  # small and language models
MIDDLE = (0.50, 0.40, 0.10, HostDemand(6.0, 60.0, 0.8))  # speech and middle-sized ones
IMAGE = (0.75, 0.45, 0.15, HostDemand(9.0, 100.0, 0.6))  # image models
FULL = (0.95, 0.80, 0.25, HostDemand(3.0, 50.0, 0.9))  # those that fill a GPU
DRAWN = (LIGHT, LIGHT, MIDDLE, MIDDLE, IMAGE, FULL)


def run(setup: Any, hardware: Hardware) -> Outcome:
    """Run a packing policy. Raises `WorkloadError` and `PolicyError`."""
    choice = PolicyChoice(setup.policy, setup.parameters)
    policy: PackingPolicy = policies.make_order(choice, DEFAULTS, PACKING)  # type: ignore[assignment]
    if setup.speedup == "profile":
        message = f"{setup.policy} takes --speedup linear or amdahl:F"
        raise WorkloadError(message, "bad_option")
    speeds = Speeds(
        _pairs(setup.profiles, hardware),
        read_speedup(setup.speedup or ASSUMED_SPEEDUP),
        setup.restart_s,
        setup.migration_s,
    )
    runs = [_made(job, setup.seed) for job in setup.jobs]
    return SharingRun(runs, policy, _machines(hardware), speeds).run(setup.report)


def loads_of(setup: Any) -> str:
    """Return where the loads of jobs come from, for the report."""
    found = ["stages"] if any(any(job.stages_s) for job in setup.jobs) else []
    found += ["pairs"] if setup.profiles is not None else []
    return "+".join([*found, "assumed"])


def _machines(hardware: Hardware) -> Machines:
    nodes, next_gpu = [], 0
    cpus = memory_gb = 0.0
    for group in hardware.groups:
        for _ in range(group.nodes):
            nodes.append(tuple(range(next_gpu, next_gpu + group.gpus)))
            next_gpu += group.gpus
        cpus += group.cpu_millis / 1000 * group.nodes
        memory_gb += group.memory_mb / 1024 * group.nodes
    nodes = [node for node in nodes if node]
    gpus = max(next_gpu, 1)
    return Machines(tuple(nodes), cpus / gpus or CPUS, memory_gb / gpus or MEMORY_GB)


def _made(job: TraceJob, seed: int) -> SharedJobRun:
    duration = job.duration_s or job.iterations * job.iteration_s
    if not duration > 0 or job.gpus < 1:
        raise WorkloadError(f"job {job.id} has no duration, no work in seconds, or no GPU")
    use, memory, persistent, demand = DRAWN[_draw(f"{seed}/{job.model or job.id}", len(DRAWN))]
    if sum(job.stages_s) > 0:
        use = job.stages_s[1] / sum(job.stages_s)
    facts = PackedFacts(job.id, job.submit_s, job.gpus, duration, use, memory, persistent, demand)
    submit_us = round(job.submit_s * US)
    groups = groups_of(job.user, job.model, job.gpus)
    return SharedJobRun(job, facts, duration, submit_us, submit_us, groups=groups)


def _draw(text: str, most: int) -> int:
    """Return an equal number below `most` for equal texts, on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") % most


def _pairs(path: Path | None, hardware: Hardware) -> Beside:
    """Return the speed of a job beside another one by a throughput file, for the first GPU type of
    the cluster that the file has, else its first one. Raises `WorkloadError`."""
    if path is None or not path.is_file():
        if path is not None:
            message = f"{path}: packing policies read throughputs of pairs (a file of Gavel)"
            raise WorkloadError(message, "bad_profile")
        return lambda job, other: None
    profiles = read_typed_profiles(path)
    models = [group.model.lower() for group in hardware.groups]
    kind = next((model for model in models if model in profiles.beside), None)
    kind = kind or next(iter(profiles.beside), "")
    alone: Mapping[Any, float] = profiles.alone.get(kind, {})
    beside: Mapping[Any, tuple[float, float]] = profiles.beside.get(kind, {})

    def speed(job: TraceJob, other: TraceJob) -> float | None:
        mine, theirs = (job.model, job.gpus), (other.model, other.gpus)
        pair = beside.get((mine, theirs))
        own = alone.get(mine, 0.0)
        return None if pair is None or not own else pair[0] / own

    return speed


__all__ = ["PACKING", "loads_of", "run"]
