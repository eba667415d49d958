"""What a simulation runs: a cluster from its shape, jobs from a trace file or from a seed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from random import Random

from skep_scheduler.model import (
    Claim,
    Device,
    Gang,
    InvariantError,
    Member,
    Node,
    PolicyChoice,
    VirtualCluster,
)

CPU_MILLIS_PER_GPU = 8_000
MEMORY_MB_PER_GPU = 65_536
GROUP = re.compile(r"([1-9][0-9]*)x([1-9][0-9]*)x([A-Za-z0-9._-]+)")

INVARIANT_BROKEN = "invariant_broken"
MAX_RUNS = 1000  # of a request


class WorkloadError(ValueError):
    """Raised for a trace, a cluster, a preset or a share that cannot be read. The message names the
    file, the line and the column; `code` is stable: `bad_trace`, `bad_cluster`, `bad_profile`,
    `unknown_preset`, `policy_not_in_preset`, `bad_option`, `missing_library`,
    `simulation_failed`, `invariant_broken`,
    `bad_node_events`."""

    def __init__(self, message: str, code: str = "bad_trace", **details: object) -> None:
        super().__init__(message)
        self.message, self.code, self.details = message, code, details


def broken_invariant(policy: str, trace: str, seed: int, error: InvariantError) -> WorkloadError:
    """Return the error that names the run, the moment, and the invariants that stopped holding."""
    moment_s = getattr(error, "moment_s", None)
    when = "at its end" if moment_s is None else f"at {moment_s:g} s"
    more = len(error.violations) - 1
    return WorkloadError(
        f"{policy} on {trace}, seed {seed}: an invariant does not hold {when}: "
        f"{error.violations[0]}" + (f" And {more} more." if more else "") + " This is a defect of "
        "the policy or of the simulator, not of your trace. Report it with your command.",
        INVARIANT_BROKEN,
        policy=policy,
        trace=trace,
        seed=seed,
        moment_s=moment_s,
        violations=error.violations,
    )


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Times are in seconds.

    submit_s, deadline_s: on the clock of the trace; no deadline: None
    duration_s: how long it runs at the size that it asks for; 0: the trace has only its work
    iterations, iteration_s: its work, and how long one takes at that size
    stages_s: what one iteration uses of storage and CPU, of the GPU, and of the network (seconds)
    batch: its global batch size; model: what it trains, as the profiles name it
    values: for a soft deadline, what it is worth to end by (seconds after submission, value)
    mode, weight: how its batch size changes while it trains, and its share
    gpu_milli: what it asks for of each GPU, in thousandths; cpu_millis, memory_mb: of its node
    gpu_model: the only model of GPUs that it accepts; "": any one (the live engine follows it)
    group: what its submissions have in common, where the trace has a group or a name
    """

    id: str
    submit_s: float
    duration_s: float
    gpus: int
    vc: str = ""
    user: str = ""
    priority: int = 0
    model: str = ""
    batch: int = 0
    iterations: float = 0.0
    iteration_s: float = 0.0
    stages_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    deadline_s: float | None = None
    values: tuple[tuple[float, float], ...] = ()
    mode: str = ""
    weight: float = 1.0
    gpu_milli: int = 1000
    cpu_millis: int = 0
    memory_mb: int = 0
    gpu_model: str = ""
    group: str = ""


def groups_of(shape: str) -> list[tuple[int, int, str]]:
    """Return (nodes, GPUs of each, model) of a shape such as `8x8xV100+4x8xA100`.

    Raises `WorkloadError`.
    """
    groups = []
    for group in shape.split("+"):
        match = GROUP.fullmatch(group.strip())
        if match is None:
            raise WorkloadError(
                f"cluster shape {shape!r}: {group!r} is not NODESxGPUSxMODEL, such as 8x8xV100",
                "bad_cluster",
            )
        groups.append((int(match[1]), int(match[2]), match[3]))
    return groups


def nodes_of(shape: str, names: Sequence[str] = ()) -> list[Node]:
    """Return the nodes of a shape such as `8x8xV100+4x8xA100`: 8 nodes of 8 V100, 4 of 8 A100.
    Without `names`, they are called by their model and a number.

    Raises `WorkloadError`.
    """
    nodes: list[Node] = []
    for count, gpus, model in groups_of(shape):
        for _ in range(count):
            number = len(nodes)
            name = names[number] if names else f"{model.lower()}-{number}"
            nodes.append(_node(name, gpus, model))
    return nodes


def _node(name: str, gpus: int, model: str) -> Node:
    devices = tuple(Device(f"{name}-gpu{i}", model, i) for i in range(gpus))
    return Node(name, CPU_MILLIS_PER_GPU * gpus, MEMORY_MB_PER_GPU * gpus, devices)


def virtual_clusters(
    nodes: Sequence[Node], shares: Sequence[str], policy: PolicyChoice
) -> list[VirtualCluster]:
    """Return the virtual clusters of shares such as `research=A100:32`; without any, one named
    `default` that owns all GPUs. All of them have the same policy.

    Raises `WorkloadError` for a share that cannot be read, and for more GPUs than the nodes have.
    """
    left: dict[str, int] = {}
    for node in nodes:
        for device in node.devices:
            left[device.model] = left.get(device.model, 0) + 1
    if not shares:
        claims = tuple(Claim("", model, number) for model, number in left.items())
        return [VirtualCluster("default", claims, policy)]
    owned: dict[str, list[Claim]] = {}
    for share in shares:
        match = re.fullmatch(r"([^=]+)=([^:]+):([1-9][0-9]*)", share)
        if match is None:
            raise WorkloadError(
                f"share {share!r} is not VC=MODEL:GPUS, such as research=A100:32",
                "bad_cluster",
            )
        vc, model, number = match[1], match[2], int(match[3])
        if left.get(model, 0) < number:
            raise WorkloadError(
                f"share {share!r}: {left.get(model, 0)} GPUs of model {model} are left",
                "bad_cluster",
            )
        left[model] -= number
        owned.setdefault(vc, []).append(Claim("", model, number))
    return [VirtualCluster(vc, tuple(claims), policy) for vc, claims in owned.items()]


def synthetic_trace(jobs: int, gpus: int, seed: int, load: float = 0.9) -> list[TraceJob]:
    """Return made-up jobs for a cluster of `gpus` GPUs: Poisson arrivals at `load` of its capacity,
    log-normal durations (median 20 min, sigma 1.5), mostly small sizes. Equal seeds make equal
    traces."""
    random = Random(seed)  # noqa: S311 (no secret is made of it)
    sizes = [size for size in (1, 1, 1, 1, 2, 2, 4, 8, 16, 32) if size <= gpus]
    drawn = [
        (random.choice(sizes), round(exp(random.gauss(log(1_200.0), 1.5)), 3)) for _ in range(jobs)
    ]
    work = sum(size * duration for size, duration in drawn)
    rate = jobs * load * gpus / work  # arrivals per second
    made, now = [], 0.0
    for i, (size, duration) in enumerate(drawn):
        user = f"user-{random.randrange(20)}"
        made.append(TraceJob(f"job-{i}", round(now, 3), max(duration, 1.0), size, "", user))
        now += random.expovariate(rate)
    return made


def gangs_of(
    jobs: Sequence[TraceJob], nodes: Sequence[Node], vcs: Sequence[VirtualCluster]
) -> Iterator[Gang]:
    """Yield each job as a gang: on one node if it fits, else as equal tasks of the largest size
    that divides it. Jobs of a virtual cluster that does not exist are dealt out by their user, so
    that a trace of another cluster can be run."""
    largest = max(len(node.devices) for node in nodes)
    names = [vc.name for vc in vcs]
    for job in jobs:
        per_task = next(n for n in range(min(largest, job.gpus), 0, -1) if job.gpus % n == 0)
        member = Member(
            "worker",
            job.gpus // per_task,
            per_task,
            CPU_MILLIS_PER_GPU * per_task // 2,
            MEMORY_MB_PER_GPU * per_task // 2,
            job.gpu_model or None,
        )
        yield Gang(
            job.id,
            job.id,
            job.vc if job.vc in names else names[_stable_hash(job.vc or job.user) % len(names)],
            job.priority,
            job.submit_s,
            (member,),
            duration_s=job.duration_s,
            deadline_at=job.deadline_s,
            owner=job.user,
        )


def _stable_hash(text: str) -> int:
    return sum(text.encode())  # Python's own hash differs from process to process


def from_zero(jobs: Sequence[TraceJob]) -> list[TraceJob]:
    """Return jobs of which the first is submitted at 0 s."""
    start = jobs[0].submit_s
    return [
        replace(
            job,
            submit_s=job.submit_s - start,
            deadline_s=None if job.deadline_s is None else job.deadline_s - start,
        )
        for job in jobs
    ]


def read_seeds(text: str) -> list[int]:
    """Return the seeds of `3`, `0-9` or `42,1234,15`. Raises `WorkloadError`."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None:
            raise WorkloadError(
                f"--seeds {text!r} is neither a number, a range such as 0-9, nor a list of them",
                "bad_option",
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= MAX_RUNS:
            raise WorkloadError(f"--seeds {text!r}: {part!r} is no range", "bad_option")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))
