"""The presets by name, and what runs each policy of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from skep_scheduler import policies
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.policies import Tiresias
from skep_scheduler.policies.antman import AntMan
from skep_scheduler.policies.base import BackfillMode, OrderPolicy
from skep_scheduler.policies.chronus import Chronus
from skep_scheduler.simulator import fluid
from skep_scheduler.simulator.clusters import Hardware, read_cluster
from skep_scheduler.simulator.presets import (
    elastic_native,
    elasticflow,
    elasticflow_own,
    gandiva,
    gavel_policies,
    kernel_runs,
    muri,
    muri_groups,
    muri_themis,
    openb,
    packing_native,
    services,
    shockwave_runs,
    sia,
    tiresias,
)
from skep_scheduler.simulator.presets.kernel_runs import KERNEL, run_kernel
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.speed import Profiles, read_profiles
from skep_scheduler.simulator.workload import TraceJob, WorkloadError


@dataclass(frozen=True, slots=True)
class Setup:
    """One run: a trace on a cluster under a policy. `report` is called with the number of jobs that
    ended so far."""

    trace: Trace
    hardware: Hardware | None
    policy: str
    parameters: tuple[tuple[str, str | int | float], ...] = ()
    seed: int = 0
    profiles: Path | None = None
    placement: str = "nodes"
    locality: str = "none"
    restart_s: float = 0.0
    speedup: str = ""
    migration_s: float = 0.0
    speeds: str = ""
    place: str = ""
    pull_s: float = 0.0
    weights: Path | None = None
    report: Callable[[int], None] | None = None

    @property
    def jobs(self) -> tuple[TraceJob, ...]:
        return self.trace.jobs

    def order(self, known: tuple[type[Any], ...] = KERNEL) -> OrderPolicy:
        """Return the order policy that it names, with its parameters. Raises `PolicyError`, and
        `WorkloadError` for reservations, which only the live engine makes."""
        choice = PolicyChoice(self.policy, self.parameters)
        made = policies.make_order(choice, DEFAULTS, known)
        if made.backfill_mode is BackfillMode.RESERVE:
            message = f"{self.policy}: backfill=reserve needs --placement cells"
            raise WorkloadError(message, "bad_option")
        return made


Runner = Callable[[Setup, Hardware], Outcome]


@dataclass(frozen=True, slots=True)
class Preset:
    """`cluster` is the shape where none is given, or makes it of the trace; None: it has to be
    given. `policies` are its policies by name, with what runs them. `makes_jobs`: it makes its jobs
    of the seed, so that a trace is not needed."""

    name: str
    description: str
    cluster: str | Callable[[Trace], str] | None
    policies: Mapping[str, Runner] = field(default_factory=dict)
    makes_jobs: bool = False

    def run(self, setup: Setup) -> Outcome:
        """Run it. Raises `WorkloadError` and `PolicyError`."""
        return self.runner(setup.policy)(setup, self.hardware(setup))

    def hardware(self, setup: Setup) -> Hardware:
        if setup.hardware is not None:
            return setup.hardware
        shape = self.cluster(setup.trace) if callable(self.cluster) else self.cluster
        if shape is None:
            raise WorkloadError(f"preset {self.name} needs --cluster", "bad_cluster")
        return read_cluster(shape)

    def runner(self, policy: str) -> Runner:
        """Return what runs a policy. Raises `WorkloadError`."""
        try:
            return self.policies[policy]
        except KeyError:
            others = [preset.name for preset in PRESETS if policy in preset.policies]
            elsewhere = f". It is in the presets {', '.join(others)}" if others else ""
            raise WorkloadError(
                f"preset {self.name} has no policy {policy!r}; it has "
                f"{', '.join(sorted(self.policies))}{elsewhere}",
                "policy_not_in_preset",
                policy=policy,
                preset=self.name,
                known=sorted(self.policies),
                presets=others,
            ) from None


def find(name: str) -> Preset:
    """Return a preset by its name. Raises `WorkloadError`."""
    for preset in PRESETS:
        if preset.name == name:
            return preset
    raise WorkloadError(
        f"There is no preset {name!r}. Presets are: {', '.join(p.name for p in PRESETS)}.",
        "unknown_preset",
        preset=name,
        known=[preset.name for preset in PRESETS],
    )


def policy_names() -> tuple[str, ...]:
    """Return the names of all policies that a preset has."""
    return tuple(sorted({name for preset in PRESETS for name in preset.policies}))


# Artifacts


def _plain(setup: Setup) -> list[TraceJob]:
    """Classes of jobs matter to AntMan only."""
    return [replace(job, priority=0) for job in setup.jobs]


def _muri_ordered(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "muri")
    return muri.run_ordered(_plain(setup), hardware.node_sizes(), setup.order(), setup.report)


def _muri_tiresias(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "muri")
    limits = _limits(replace(setup, policy="tiresias"))
    return muri.run_tiresias(_plain(setup), hardware.node_sizes(), limits, setup.report)


def _muri_antman(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "muri")
    policy = setup.order((AntMan,))
    return muri.run_antman(setup.jobs, hardware.node_sizes(), policy, setup.report)


def _muri(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "muri")
    knows = setup.policy == "muri-s"
    # The printed numbers come out without it, all but the mean of Muri-L on trace 3.
    given = {"unpack": 0, **dict(setup.parameters)}
    if given.keys() != {"unpack"} or given["unpack"] not in (0, 1):
        message = f"{setup.policy} has one parameter, unpack, which is 0 or 1"
        raise WorkloadError(message, "bad_policy_parameter")
    unpack = bool(given["unpack"])
    return muri_groups.run_muri(_plain(setup), hardware.node_sizes(), knows, unpack, setup.report)


def _muri_themis(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "muri")
    _no_parameters(setup)
    return muri_themis.run_themis(_plain(setup), hardware.node_sizes(), setup.report)


def _limits(setup: Setup) -> tuple[int, ...]:
    policy = setup.order((Tiresias,))
    assert isinstance(policy, Tiresias)
    return policy.limits


def _tiresias(setup: Setup, hardware: Hardware) -> Outcome:
    sample = setup.profiles
    if sample is None and setup.trace.path is not None:
        sample = setup.trace.path.resolve().parent / tiresias.SERVICES
    return tiresias.run(setup.jobs, hardware.gpus, setup.policy, sample, setup.report)


def _elasticflow_tiresias(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "elasticflow")
    limits = _limits(setup)
    return elasticflow.run_tiresias(setup.jobs, hardware.gpus, limits, setup.report)


def _elasticflow_edf(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "elasticflow")
    return elasticflow.run_edf(
        setup.jobs, hardware.gpus, setup.order(), elastic_profiles(setup), setup.report
    )


def _elasticflow_own(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "elasticflow")
    return elasticflow_own.run_elasticflow(
        setup.jobs, hardware.gpus, elastic_profiles(setup), setup.report
    )


def _elasticflow_chronus(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "elasticflow")
    given = {"term_s": 240.0, **dict(setup.parameters)}
    choice = PolicyChoice(setup.policy, tuple(given.items()))
    known: tuple[type[Any], ...] = (Chronus,)
    policy: Any = policies.make_order(choice, DEFAULTS, known)
    return elasticflow_own.run_chronus(setup.jobs, hardware.gpus, policy, setup.report)


def _elasticflow_gandiva(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "elasticflow")
    nodes = hardware.node_sizes()
    if len(set(nodes)) != 1:
        raise WorkloadError("gandiva of this preset needs nodes of one size", "bad_cluster")
    return gandiva.run(setup.jobs, len(nodes), nodes[0], setup.report)


def _elastic(setup: Setup, hardware: Hardware) -> Outcome:
    choice = PolicyChoice(setup.policy, setup.parameters)
    model = speedup_profiles(setup) or setup.speedup
    return elastic_native.run_native(
        *(choice, setup.jobs, hardware.gpus, model, setup.restart_s, setup.report),
        weights=setup.weights,
    )


def speedup_profiles(setup: Setup) -> Profiles | None:
    """Return the throughputs that an elastic policy goes by; None: by a formula."""
    if setup.speedup == "profile" or (not setup.speedup and setup.profiles is not None):
        return elastic_profiles(setup)
    if setup.speedup or setup.trace.format != "elasticflow":
        return None
    try:
        return elastic_profiles(setup)
    except WorkloadError:
        return None


def elastic_profiles(setup: Setup) -> Profiles:
    """Return the throughputs that were given, or those in a folder near the trace."""
    name = "throughputs_T4" if _is_t4(setup.trace) else "throughputs_A100"
    if setup.profiles is not None:
        inner = setup.profiles / name
        return read_profiles(inner if inner.is_dir() else setup.profiles)
    for folder in near(setup.trace):
        if (folder / name).is_dir():
            return read_profiles(folder / name)
    raise WorkloadError(
        f"{setup.trace.name}: no folder {name} beside it; give the throughputs with --profiles",
        "bad_profile",
    )


def near(trace: Trace) -> tuple[Path, ...]:
    """Return the folder of a trace and the two above it."""
    return () if trace.path is None else tuple(trace.path.resolve().parents[:3])


def _gavel(setup: Setup, hardware: Hardware) -> Outcome:
    workers = {group.model.lower(): group.nodes * group.gpus for group in hardware.groups}
    path = setup.profiles
    if path is None:
        found = (folder / gavel_policies.THROUGHPUTS for folder in near(setup.trace))
        path = next((file for file in found if file.is_file()), None)
    if path is None:
        raise WorkloadError(
            f"preset gavel needs throughputs: {gavel_policies.THROUGHPUTS} of Gavel, with "
            "--profiles",
            "bad_profile",
        )
    parameters = dict(setup.parameters)
    return gavel_policies.run(setup.policy, parameters, path, workers, setup.seed, setup.report)


def _fluid(setup: Setup, hardware: Hardware) -> Outcome:
    given = dict(setup.parameters)
    altruism = given.pop("altruism", 1.0) if setup.policy == "carbyne" else 1.0
    if given or isinstance(altruism, str) or not 0 <= altruism <= 1:
        message = "carbyne has one parameter, altruism from 0 to 1, and hug and others none"
        raise WorkloadError(message, "bad_policy_parameter")
    jobs = kernel_runs.with_durations(setup, setup.jobs)
    return fluid.run(jobs, hardware.gpus, setup.policy, float(altruism), setup.report)


def _openb(setup: Setup, hardware: Hardware) -> Outcome:
    _expect(setup, "openb")
    _no_parameters(setup)
    return openb.run(setup.jobs, hardware, setup.policy, setup.seed, setup.report)


def _sia(setup: Setup, hardware: Hardware) -> Outcome:
    if setup.policy == "gavel-tj":
        _no_parameters(setup)
    choice = PolicyChoice(setup.policy, setup.parameters)
    return sia.run(setup.trace, hardware, choice, setup.profiles, setup.report)


def _no_parameters(setup: Setup) -> None:
    if setup.parameters:
        raise WorkloadError(f"{setup.policy} has no parameters here", "bad_policy_parameter")


def _openb_nodes(trace: Trace) -> str:
    """Return the list of nodes beside the pods."""
    for folder in near(trace):
        if (folder / openb.NODES).is_file():
            return str(folder / openb.NODES)
    raise WorkloadError(
        f"{trace.name}: no {openb.NODES} beside it; give the nodes with --cluster", "bad_cluster"
    )


def _is_t4(trace: Trace) -> bool:
    return any(job.model in ("cifar10", "imagenet", "ncf", "yolov3") for job in trace.jobs)


# The nodes of 8 A100 that the figures of the paper have for each trace.
A100_NODES = {"cluster01": 64, "cluster03": 64, "cluster10": 32, "philly_103959": 32}


def _elasticflow_cluster(trace: Trace) -> str:
    if _is_t4(trace):
        return "16x4xT4"
    return f"{A100_NODES.get(Path(trace.name).stem, 128)}x8xA100"


def _expect(setup: Setup, *formats: str) -> None:
    if setup.trace.format not in formats:
        raise WorkloadError(
            f"{setup.trace.name}: the policy {setup.policy} of this preset needs a trace with the "
            f"columns of {' or '.join(formats)}; this one has those of {setup.trace.format}"
        )


_ELASTIC: Mapping[str, Runner] = {policy.name: _elastic for policy in elastic_native.ELASTIC}
_ORDERS: Mapping[str, Runner] = {policy.name: run_kernel for policy in KERNEL}
_PACKING: Mapping[str, Runner] = {p.name: packing_native.run for p in packing_native.PACKING}
_ELASTICFLOW: Mapping[str, Runner] = {
    "chronus": _elasticflow_chronus,
    "edf": _elasticflow_edf,
    "elasticflow": _elasticflow_own,
    "gandiva": _elasticflow_gandiva,
    "tiresias": _elasticflow_tiresias,
}
PRESETS: tuple[Preset, ...] = (
    Preset(
        "native",
        "our own rules, without the habits of an artifact",
        "8x8xV100",
        {**_ORDERS, **_ELASTIC, **_PACKING, **dict.fromkeys(fluid.POLICIES, _fluid)},
    ),
    Preset(
        "philly-week",
        "Philly, 1 to 7 October 2017; each virtual cluster alone on its nodes (best fit)",
        None,
        dict.fromkeys(_ORDERS, kernel_runs.run_philly_week),
    ),
    Preset(
        "philly-count",
        "Philly, all jobs on one pool of 600 GPUs without nodes",
        "75x8xP100",
        dict.fromkeys(_ORDERS, kernel_runs.run_counted),
    ),
    Preset(
        "tiresias-4x4",
        "the simulator of Tiresias on 4 nodes of 4 GPUs, without placement",
        "4x4xP100",
        dict.fromkeys(tiresias.POLICIES, _tiresias),
    ),
    Preset(
        "muri-n8g8",
        "the simulator of Muri (SIGCOMM 2022) on 8 nodes of 8 GPUs",
        "8x8xV100",
        {
            "srtf": _muri_ordered,
            "srsf": _muri_ordered,
            "tiresias-l": _muri_tiresias,
            "tiresias": _muri_tiresias,
            "antman": _muri_antman,
            "themis": _muri_themis,
            "muri-s": _muri,
            "muri-l": _muri,
        },
    ),
    Preset(
        "elasticflow",
        "the simulator of ElasticFlow (ASPLOS 2023), on T4 or A100 as the trace has its models",
        _elasticflow_cluster,
        _ELASTICFLOW,
    ),
    Preset("elasticflow-t4", "the same on 16 nodes of 4 T4", "16x4xT4", _ELASTICFLOW),
    Preset("elasticflow-a100", "the same on A100", _elasticflow_cluster, _ELASTICFLOW),
    Preset(
        "openb",
        "the experiment of FGD (ATC 2023): pods of parts of GPUs that never leave",
        _openb_nodes,
        dict.fromkeys(openb.POLICIES, _openb),
    ),
    *(
        Preset(
            name,
            "replicas of a service over a trace of requests; at most one for each GPU",
            "16x8xV100",
            dict.fromkeys(services.POLICIES, services.run),
        )
        for name in ("services", "swayam")
    ),
    Preset(
        "shockwave",
        "the simulator of Shockwave (NSDI 2023): jobs whose batch sizes change, on one GPU model",
        shockwave_runs.cluster_of,
        dict.fromkeys(shockwave_runs.POLICIES, shockwave_runs.run),
    ),
    *(
        Preset(name, description, shape, dict.fromkeys(sia.POLICIES, _sia))
        for name, (description, shape) in sia.CLUSTERS.items()
    ),
    *(
        Preset(
            name,
            "the simulator of Gavel (OSDI 2020) on 36 V100, 36 P100 and 36 K80, continuous jobs",
            "36x1xv100+36x1xp100+36x1xk80",
            dict.fromkeys(gavel_policies.POLICIES, _gavel),
            makes_jobs=True,
        )
        for name in ("gavel", "gavel-36")
    ),
)
