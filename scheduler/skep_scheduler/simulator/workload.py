"""What a simulation runs: a cluster from its shape, jobs from a trace file or from a seed."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import exp, log
from pathlib import Path
from random import Random

from skep_scheduler.model import (
    Claim,
    Device,
    Gang,
    Member,
    Node,
    PolicyChoice,
    VirtualCluster,
)

CPU_MILLIS_PER_GPU = 8_000
MEMORY_MB_PER_GPU = 65_536
GROUP = re.compile(r"([1-9][0-9]*)x([1-9][0-9]*)x([A-Za-z0-9._-]+)")
# The first name of each list is the documented one; the others are those of published traces.
COLUMNS = {
    "id": ("id", "job_id", "name"),
    "submit_s": ("submit_s", "submit_time", "timestamp", "time"),
    "duration_s": ("duration_s", "duration"),
    "gpus": ("gpus", "num_gpus", "num_gpu"),
    "vc": ("vc", "cluster"),
    "user": ("user",),
    "priority": ("priority",),
}
REQUIRED = ("submit_s", "duration_s", "gpus")


class WorkloadError(ValueError):
    """Raised for a trace, a cluster shape or a share that cannot be read. The message names the
    file, the line and the column."""


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace. Times are in seconds; `submit_s` counts from the first job."""

    id: str
    submit_s: float
    duration_s: float
    gpus: int
    vc: str = ""
    user: str = ""
    priority: int = 0


def nodes_of(shape: str) -> list[Node]:
    """Return the nodes of a shape such as `8x8xV100+4x8xA100`: 8 nodes of 8 V100, 4 of 8 A100.

    Raises `WorkloadError`.
    """
    nodes: list[Node] = []
    for group in shape.split("+"):
        match = GROUP.fullmatch(group.strip())
        if match is None:
            raise WorkloadError(
                f"cluster shape {shape!r}: {group!r} is not NODESxGPUSxMODEL, such as 8x8xV100"
            )
        count, gpus, model = int(match[1]), int(match[2]), match[3]
        nodes += [_node(f"{model.lower()}-{len(nodes) + i}", gpus, model) for i in range(count)]
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
            raise WorkloadError(f"share {share!r} is not VC=MODEL:GPUS, such as research=A100:32")
        vc, model, number = match[1], match[2], int(match[3])
        if left.get(model, 0) < number:
            raise WorkloadError(
                f"share {share!r}: {left.get(model, 0)} GPUs of model {model} are left"
            )
        left[model] -= number
        owned.setdefault(vc, []).append(Claim("", model, number))
    return [VirtualCluster(vc, tuple(claims), policy) for vc, claims in owned.items()]


def read_trace(path: Path) -> list[TraceJob]:
    """Return the jobs of a CSV file with a header, in order of submission.

    Columns: submit_s, duration_s and gpus; and, if wanted, id, vc, user and priority. Submission
    times are seconds or ISO 8601 dates. Other columns are ignored. Jobs without a GPU or without a
    duration are errors, not jobs.

    Raises `WorkloadError`.
    """
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        columns = _columns(path, rows.fieldnames or ())
        jobs = [_job(path, rows.line_num, row, columns) for row in rows if any(row.values())]
    if not jobs:
        raise WorkloadError(f"{path}: no jobs")
    start = min(job.submit_s for job in jobs)
    moved = (_shift(job, start) for job in jobs)
    return sorted(moved, key=lambda job: (job.submit_s, job.id))


def _shift(job: TraceJob, start: float) -> TraceJob:
    submit_s = job.submit_s - start
    return TraceJob(job.id, submit_s, job.duration_s, job.gpus, job.vc, job.user, job.priority)


def _columns(path: Path, header: Sequence[str]) -> dict[str, str]:
    found = {}
    for field, names in COLUMNS.items():
        name = next((name for name in names if name in header), None)
        if name is not None:
            found[field] = name
        elif field in REQUIRED:
            raise WorkloadError(f"{path}, line 1: no column {names[0]}; there are {list(header)}")
    return found


def _job(path: Path, line: int, row: dict[str, str], columns: dict[str, str]) -> TraceJob:
    def text(field: str, default: str = "") -> str:
        return (row.get(columns.get(field, "")) or default).strip()

    def number(field: str, default: str = "") -> float:
        try:
            return float(text(field, default))
        except ValueError:
            raise WorkloadError(
                f"{path}, line {line}, column {columns[field]}: {text(field)!r} is not a number"
            ) from None

    gpus, duration_s = number("gpus"), number("duration_s")
    for field, value in (("gpus", gpus), ("duration_s", duration_s)):
        if not 0 < value < float("inf") or (field == "gpus" and value != int(value)):
            raise WorkloadError(
                f"{path}, line {line}, column {columns[field]}: {text(field)!r} is out of range"
            )
    submit = text("submit_s")
    submit_s = (
        datetime.fromisoformat(submit).timestamp() if _is_date(submit) else number("submit_s")
    )
    return TraceJob(
        text("id", f"job-{line - 1}"),
        submit_s,
        duration_s,
        int(gpus),
        text("vc"),
        text("user"),
        int(number("priority", "0")),
    )


def _is_date(text: str) -> bool:
    return re.match(r"\d{4}-\d\d-\d\d", text) is not None


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
        )
        yield Gang(
            job.id,
            job.id,
            job.vc if job.vc in names else names[_stable_hash(job.vc or job.user) % len(names)],
            job.priority,
            job.submit_s,
            (member,),
            duration_s=job.duration_s,
            owner=job.user,
        )


def _stable_hash(text: str) -> int:
    return sum(text.encode())  # Python's own hash differs from process to process
