"""The policies of the preset `shockwave`, their parameters, and the files that they need."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from skep_scheduler.policies.shockwave import Settings
from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.presets import shockwave
from skep_scheduler.simulator.presets.shockwave_planner import Shockwave, read_settings, with_
from skep_scheduler.simulator.presets.themis_auction import Auctions
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.speed import TypedProfiles, read_typed_profiles
from skep_scheduler.simulator.workload import WorkloadError


class GivenSetup(Protocol):
    """What a run is made of, see `registry.Setup`."""

    @property
    def trace(self) -> Trace: ...
    @property
    def policy(self) -> str: ...
    @property
    def parameters(self) -> tuple[tuple[str, str | int | float], ...]: ...
    @property
    def profiles(self) -> Path | None: ...
    @property
    def report(self) -> Callable[[int], None] | None: ...


THROUGHPUTS = "tacc_throughputs.json"
POLICIES = (*shockwave.ALIASES, "shockwave", "themis_auction")
# The GPUs on which the artifact runs its traces, by their number of jobs.
GPUS_OF = {120: 32, 220: 64, 460: 128, 900: 256}
CONFIGS = {32: "tacc_32gpus", 64: "scale_64gpus", 128: "scale_128gpus", 256: "scale_256gpus"}
EXAMPLE = "shockwave_example_config"
PLANNER = ("k", "lambda", "rhomax", "future_rounds")  # as the configuration files name them


def cluster_of(trace: Trace) -> str:
    return f"{GPUS_OF.get(len(trace.jobs), 32)}x1xV100"


def run(setup: GivenSetup, hardware: Hardware) -> Outcome:
    """Run a policy on a trace of Shockwave. Raises `WorkloadError`."""
    if setup.trace.format != "shockwave":
        raise WorkloadError(
            f"{setup.trace.name}: preset shockwave needs a trace of Shockwave (12 columns between "
            f"tabs); this one has the columns of {setup.trace.format}"
        )
    if len(hardware.groups) != 1:
        raise WorkloadError("preset shockwave has GPUs of one model", "bad_cluster")
    own = setup.policy == "shockwave"
    numbers: dict[str, float] = {}
    config = ""
    for name, value in setup.parameters:
        if name == "config" and own and isinstance(value, str):
            config = value
        elif name not in ("overhead_s", *(PLANNER if own else ())) or isinstance(value, str):
            known = "overhead_s, config, " + ", ".join(PLANNER) if own else "overhead_s"
            raise WorkloadError(
                f"{setup.policy} has no parameter {name}={value} here. Its parameters are: {known}",
                "bad_policy_parameter",
            )
        else:
            numbers[name] = float(value)
    overhead_s = numbers.pop("overhead_s", shockwave.OVERHEAD_S)
    if not 0 <= overhead_s < shockwave.ROUND_S - 5:
        raise WorkloadError(
            "overhead_s is a number of seconds from 0 to 114", "bad_policy_parameter"
        )
    options = shockwave.RoundOptions(overhead_s=overhead_s)
    if own:
        settings = _settings(setup.trace, config, hardware.gpus)
        options.planner = Shockwave(hardware.gpus, with_(settings, numbers))
    elif setup.policy == "themis_auction":
        options.planner = Auctions(hardware.gpus)
    else:
        policy = shockwave.ALIASES[setup.policy]
        options.shares = shockwave.shares_of(policy, hardware.gpus)
        options.strict = policy == "isolated_plus"
        options.idle_fill = policy != "fifo"
    profiles = _profiles(setup)
    return shockwave.run(setup.trace.jobs, hardware.gpus, profiles, options, setup.report)


def _profiles(setup: GivenSetup) -> TypedProfiles:
    path = setup.profiles
    if path is None:
        path = _find(setup.trace, THROUGHPUTS)
    elif path.is_dir():
        path = path / THROUGHPUTS
    if path is None:
        raise WorkloadError(
            f"{setup.trace.name}: no {THROUGHPUTS} near it; give the throughputs with --profiles",
            "bad_profile",
        )
    return read_typed_profiles(path)


def _settings(trace: Trace, config: str, gpus: int) -> Settings:
    """Return the configuration that was named, or that of the artifact for so many GPUs."""
    if config:
        given = Path(config if config.endswith(".json") else f"{config}.json")
        found = given if given.is_file() else _find(trace, given.name)
        if found is None:
            raise WorkloadError(
                f"no configuration {given} here or near the trace", "bad_policy_parameter"
            )
        return read_settings(found)
    for name in (CONFIGS.get(gpus, EXAMPLE), EXAMPLE):
        found = _find(trace, f"{name}.json")
        if found is not None:
            return read_settings(found)
    return Settings()


def _find(trace: Trace, name: str) -> Path | None:
    if trace.path is None:
        return None
    candidates = (folder / name for folder in trace.path.resolve().parents[:3])
    return next((file for file in candidates if file.is_file()), None)
