"""Presets `sia-64` and `sia-t4`: the simulator of Sia (Jayaram Subramanya et al., SOSP 2023).

Jobs have true step times and gradient statistics (see `applications`), go on epoch by epoch, and
pay a restart whenever their GPUs change. A round is 60 s, of Gavel 360 s. This module finds the
profiles and the policy; numpy and scipy are imported only when a preset runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.workload import WorkloadError

# (description, shape) by preset
CLUSTERS = {
    "sia-64": (
        "the simulator of Sia (SOSP 2023) on 24 T4, 16 A100 and 24 2080Ti",
        "6x4xaws+2x8xdgx-ext+3x8xrtx",
    ),
    "sia-t4": ("the same on 16 nodes of 4 T4", "16x4xaws"),
}
POLICIES = ("sia", "pollux", "gavel-tj")
# GPU models by the names that the profiles have for the machines they were measured on.
MODELS = {"t4": "aws", "v100": "azure", "a100": "dgx-ext", "rtx6000": "quad", "2080ti": "rtx"}
KNOWN = ("aws", "azure", "dgx", "dgx-ext", "quad", "rtx")


def run(
    trace: Trace,
    hardware: Hardware,
    choice: PolicyChoice,
    profiles: Path | None = None,
    report: Callable[[int], None] | None = None,
) -> Outcome:
    """Run a policy of these presets. Raises `WorkloadError` and `PolicyError`."""
    if trace.format != "sia":
        raise WorkloadError(
            f"{trace.name}: the presets of Sia need a trace with the columns `name`, `time`, "
            f"`application`, `num_replicas` and `batch_size`; this one is of {trace.format}"
        )
    types = _types(hardware)
    try:
        from skep_scheduler.policies.pollux import Pollux
        from skep_scheduler.policies.sia import Sia
        from skep_scheduler.simulator import applications
        from skep_scheduler.simulator.presets.sia_gavel import GavelRounds
        from skep_scheduler.simulator.presets.sia_jobs import SiaJob
        from skep_scheduler.simulator.presets.sia_pollux import PolluxRounds
        from skep_scheduler.simulator.presets.sia_rounds import (
            SiaCluster,
            SiaPolicy,
            SiaRounds,
            simulate,
        )
    except ImportError as error:
        raise WorkloadError(
            f"this preset solves programs and needs {error.name}: pip install 'skep[policies]'",
            "missing_library",
        ) from None
    cluster = SiaCluster(types)
    policy: SiaPolicy
    if choice.name == "gavel-tj":
        policy = GavelRounds(cluster)
    else:
        made = policies.make_order(choice, DEFAULTS, cast(Any, (Sia, Pollux)))
        policy = (
            SiaRounds(made, cluster)
            if isinstance(made, Sia)
            else PolluxRounds(cast(Pollux, made), cluster)
        )
    names = [job.model for job in trace.jobs]
    known = applications.read_applications(
        _profiles(trace, profiles, names), names, list(cluster.types)
    )
    # Gavel keeps the size of the request; what is larger than every type never runs.
    fixed = choice.name == "gavel-tj"
    largest = max(cluster.capacity.values())
    typed = choice.name != "pollux"
    jobs = [SiaJob(job, known[job.model], fixed=fixed, typed=typed) for job in trace.jobs]
    never = [job for job in jobs if fixed and job.trace.gpus > largest]
    running = [job for job in jobs if not fixed or job.trace.gpus <= largest]
    return simulate(running, cluster, policy, report, never)


def _types(hardware: Hardware) -> dict[str, tuple[int, int]]:
    """Return (nodes, GPUs of a node) by GPU type."""
    types: dict[str, tuple[int, int]] = {}
    for group in hardware.groups:
        name = MODELS.get(group.model.lower(), group.model.lower())
        nodes, gpus = types.get(name, (0, group.gpus))
        if name not in KNOWN:
            raise WorkloadError(
                f"preset of Sia: there are no profiles of {group.model!r}; GPU types are "
                f"{', '.join(KNOWN)} (or {', '.join(MODELS)})",
                "bad_cluster",
            )
        if gpus != group.gpus or group.gpus > 9:
            raise WorkloadError(
                f"preset of Sia: all nodes of {name} need the same number of GPUs, at most 9",
                "bad_cluster",
            )
        types[name] = nodes + group.nodes, gpus
    return types


def _profiles(trace: Trace, given: Path | None, names: Iterable[str]) -> Path:
    """Return the folder of profiles that was given, or one near the trace."""
    folders = []
    if given is not None:
        folders = [given, given / "profiles"]
    elif trace.path is not None:
        folders = [folder / "profiles" for folder in trace.path.resolve().parents[:3]]
    for folder in folders:
        if any((folder / name).is_dir() for name in names):
            return folder
    raise WorkloadError(
        f"{trace.name}: no folder `profiles` of its applications near it; give it with --profiles",
        "bad_profile",
    )
