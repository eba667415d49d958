"""What runs an order policy on the event kernel: on one pool of GPUs, or on the nodes of each
virtual cluster of Philly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from random import Random
from typing import Any, Protocol

from skep_scheduler.policies import Fifo, LucidOrder, PaiSjf, Sjf, Srsf, Srtf, Tiresias
from skep_scheduler.policies.base import OrderPolicy, parameter
from skep_scheduler.policies.by_size import Largest, Ljf, Smallest
from skep_scheduler.policies.edf import Edf
from skep_scheduler.policies.recurrence import SOURCES, Families, families
from skep_scheduler.simulator.clusters import Hardware
from skep_scheduler.simulator.kernel import Kernel
from skep_scheduler.simulator.pools import CountPool, GpuPool, NodePool
from skep_scheduler.simulator.ranked_pools import ApolloPool, DrawnPool, ImageCaches, ScatteredPool
from skep_scheduler.simulator.readers import Trace
from skep_scheduler.simulator.results import Outcome
from skep_scheduler.simulator.speed import LOCALITIES, read_speeds
from skep_scheduler.simulator.workload import TraceJob, WorkloadError

BY = "What jobs have in common from which a duration is learned, until none of them has ended."


@dataclass(frozen=True, slots=True)
class PaiSjfOfTrace(PaiSjf):
    """`pai_sjf` with the fields of a trace."""

    by: str = parameter(SOURCES[0], BY, choices=SOURCES)


@dataclass(frozen=True, slots=True)
class LucidOrderOfTrace(LucidOrder):
    """`lucid_order` with the fields of a trace."""

    by: str = parameter(SOURCES[0], BY, choices=SOURCES)


# The live order policies whose keys do not change while a job waits, and those that are simulated
# only.
KERNEL: tuple[type[Any], ...] = (
    Fifo,
    Sjf,
    Ljf,
    Smallest,
    Largest,
    Srtf,
    Srsf,
    Tiresias,
    Edf,
    PaiSjfOfTrace,
    LucidOrderOfTrace,
)
WEEK = (datetime(2017, 10, 1, tzinfo=UTC), datetime(2017, 10, 8, tzinfo=UTC))


class PoolSetup(Protocol):
    """What a run is made of, see `registry.Setup`."""

    @property
    def trace(self) -> Trace: ...
    @property
    def jobs(self) -> tuple[TraceJob, ...]: ...
    @property
    def placement(self) -> str: ...
    @property
    def locality(self) -> str: ...
    @property
    def speeds(self) -> str: ...
    @property
    def restart_s(self) -> float: ...
    @property
    def migration_s(self) -> float: ...
    @property
    def place(self) -> str: ...
    @property
    def pull_s(self) -> float: ...
    @property
    def seed(self) -> int: ...
    @property
    def report(self) -> Callable[[int], None] | None: ...
    def order(self) -> OrderPolicy: ...


def run_kernel(setup: PoolSetup, hardware: Hardware) -> Outcome:
    """Run an order policy on one pool of GPUs. Raises `WorkloadError` and `PolicyError`."""
    pool: GpuPool
    if setup.placement == "count":
        pool = CountPool(hardware.gpus)
    else:
        nodes = sorted(hardware.nodes_with(read_speeds(setup.speeds)), key=lambda node: -node[1])
        images = ImageCaches(len(nodes), setup.pull_s)
        pool = _pool(setup, [gpus for gpus, _ in nodes], images)
        speeds = [speed for _, speed in nodes] if setup.speeds else []
        jobs, known = _by_submission(setup.jobs), images if setup.pull_s else None
        return _on_pools(setup, jobs, {"": pool}, speeds, known)
    return _on_pools(setup, _by_submission(setup.jobs), {"": pool})


def _pool(setup: PoolSetup, nodes: Sequence[int], images: ImageCaches) -> GpuPool:
    if setup.place == "apollo":
        return ApolloPool(nodes, images)
    random = Random(setup.seed)  # noqa: S311 (no secret is made of it)
    if setup.place == "random":
        return ScatteredPool(nodes, random)
    if setup.place == "crandom":
        return DrawnPool(nodes, random)
    return NodePool(nodes, best_fit=setup.placement == "nodes")


def run_counted(setup: PoolSetup, hardware: Hardware) -> Outcome:
    return _on_pools(setup, _by_submission(setup.jobs), {"": CountPool(hardware.gpus)})


def run_philly_week(setup: PoolSetup, hardware: Hardware) -> Outcome:
    if not hardware.vcs:
        raise WorkloadError(
            "preset philly-week needs --cluster with the nodes of each virtual cluster: a CSV file "
            "with the columns `vc` and `node num`, such as philly_vc_nodes.csv of its trace",
            "bad_cluster",
        )
    first, last = (moment.timestamp() for moment in WEEK)
    jobs = [job for job in setup.jobs if first <= job.submit_s < last and job.vc in hardware.vcs]
    if not jobs:
        raise WorkloadError(
            f"{setup.trace.name}: no job of the first week of October 2017 in the virtual clusters "
            f"{', '.join(sorted(hardware.vcs))}"
        )
    return _on_pools(
        setup,
        _by_submission(jobs),
        {vc: NodePool(sizes) for vc, sizes in hardware.vcs.items()},
    )


def _on_pools(
    setup: PoolSetup,
    jobs: list[TraceJob],
    pools: Mapping[str, GpuPool],
    speeds: Sequence[float] = (),
    images: ImageCaches | None = None,
) -> Outcome:
    policy = setup.order()
    kernel = Kernel(
        with_durations(setup, jobs),
        {vc: (pool, policy) for vc, pool in pools.items()},
        restart_s=setup.restart_s,
        migration_s=setup.migration_s,
        locality=LOCALITIES[setup.locality],
        speeds=speeds,
        families=learned_by(policy),
        images=images,
    )
    return kernel.run(setup.report)


def learned_by(policy: object) -> Callable[[TraceJob], Families] | None:
    """Return the families of jobs by which a policy predicts; None: it does not."""
    source = getattr(policy, "by", None)
    return None if source is None else partial(families_of, source)


def families_of(source: str, job: TraceJob) -> Families:
    return families(source, job.user or job.vc, job.group or job.model, job.gpus, job.vc)


def with_durations(setup: PoolSetup, jobs: Sequence[TraceJob]) -> Sequence[TraceJob]:
    for job in jobs:
        if not job.duration_s > 0:
            raise WorkloadError(
                f"{setup.trace.name}: job {job.id} has no duration; its trace has work and no "
                "time, and needs the preset of its artifact (--preset)"
            )
    return jobs


def _by_submission(jobs: Any) -> list[TraceJob]:
    return sorted(jobs, key=lambda job: job.submit_s)
