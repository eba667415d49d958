"""A virtual cluster as it is at one moment, run on under one policy or more.

A snapshot is plain data (`encode`, `decode`): the inventory, the gangs that run where they run, and
those that wait or arrive later. What runs at the moment goes on from there, so that two policies
differ by what they do from then on alone. How long a gang has to run yet is given with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from skep_scheduler import usage
from skep_scheduler.model import (
    Allocation,
    Claim,
    Device,
    ElasticRange,
    Gang,
    Inventory,
    Member,
    Node,
    Pin,
    PolicyChoice,
    TaskAllocation,
    UserLimits,
    VirtualCluster,
)
from skep_scheduler.simulator.cluster import SimulatedCluster
from skep_scheduler.simulator.results import Outcome, percentile

GRACE_S = 30.0
MOST_TICKS = 200_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """now: seconds since the epoch
    vc: the virtual cluster whose policy is compared; the others have no gangs here. "": all have
    running, waiting: its gangs; one that waits and was submitted after `now` arrives then
    left_s: how long each of them has to run yet (seconds), by id
    restart_s: what each start after a preemption costs
    """

    now: float
    vc: str
    inventory: Inventory
    running: tuple[Allocation, ...]
    waiting: tuple[Gang, ...]
    left_s: Mapping[str, float]
    restart_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobForecast:
    """What becomes of one gang. wait_s: how long it waits from the moment of the snapshot on, or
    from its later arrival; started_at: when it starts for the first time from then on; ended_at:
    None for one that never starts."""

    id: str
    wait_s: float | None
    ended_at: float | None
    started_at: float | None = None


def run(
    snapshot: Snapshot,
    choice: PolicyChoice | None = None,
    report: Callable[[int], None] | None = None,
) -> tuple[list[JobForecast], dict[str, float | int], list[tuple[float, int, int]]]:
    """Return what becomes of each gang under the policy (None: those that virtual clusters have),
    the figures, and the series of (second since the snapshot, gangs that wait, GPUs in use). Raises
    `RuntimeError` after `MOST_TICKS`."""
    vcs = tuple(
        replace(vc, policy=choice) if choice is not None and vc.name == snapshot.vc else vc
        for vc in snapshot.inventory.virtual_clusters
    )
    cluster = SimulatedCluster(
        (), (), grace_s=GRACE_S, keep_progress=True, restart_s=snapshot.restart_s
    )
    cluster.state.set_inventory(replace(snapshot.inventory, virtual_clusters=vcs))
    cluster.now = snapshot.now
    cluster.lifetimes = dict(snapshot.left_s)
    for allocation in snapshot.running:
        cluster.resume(allocation)
    for gang in snapshot.waiting:
        if gang.submitted_at > snapshot.now:
            cluster.submit_later(gang)
        else:
            cluster.submit(gang)
    cluster.tick()
    cluster.sample()
    ticks = cluster.run_to_end(MOST_TICKS, report)
    found = []
    for gang_id, known in cluster.history.items():
        wait = None
        if known.ended_at is not None:
            began = max(snapshot.now, known.gang.submitted_at)
            wait = max(known.ended_at - began - known.served_s, 0.0)
        found.append(JobForecast(gang_id, wait, known.ended_at, known.first_started_at))
    series = [(round(at - snapshot.now, 1), *more) for at, *more in cluster.series]
    counted = _outcome(snapshot, cluster).figures() | figures(snapshot, found) | {"ticks": ticks}
    return found, counted, series  # type: ignore[return-value]


def _outcome(snapshot: Snapshot, cluster: SimulatedCluster) -> Outcome:
    """Return what became of the gangs, with a clock that begins with the snapshot, on the GPUs that
    the virtual cluster owns, or on all that are in service."""
    known = cluster.outcome()
    for job in known.jobs:
        job.submitted_at = max(job.submitted_at, snapshot.now)
    if snapshot.vc:
        uses = usage.measure(cluster.state)
        known.gpus = sum(use.owned for (vc, _), use in uses.items() if vc == snapshot.vc)
    else:
        in_service = (node for node in snapshot.inventory.nodes if node.schedulable)
        known.gpus = sum(device.healthy for node in in_service for device in node.devices)
    return known


def figures(snapshot: Snapshot, found: Sequence[JobForecast]) -> dict[str, float | int]:
    """Return mean and 95th percentile of the wait, and when the last gang ends, in seconds since
    the snapshot; of the gangs that end."""
    ended = [job for job in found if job.ended_at is not None]
    waits = sorted(job.wait_s or 0.0 for job in ended)
    last = max((job.ended_at or 0.0 for job in ended), default=snapshot.now)
    return {
        "jobs": len(found),
        "finished": len(ended),
        "avg_wait_s": round(sum(waits) / len(waits), 3) if waits else 0.0,
        "p95_wait_s": round(percentile(waits, 95), 3),
        "last_end_s": round(last - snapshot.now, 3),
    }


def encode(snapshot: Snapshot) -> dict[str, Any]:
    """Return a snapshot as plain data for JSON."""
    return asdict(snapshot)


def decode(data: Mapping[str, Any]) -> Snapshot:
    """Return the snapshot of what `encode` returned, also after it was JSON."""
    held = data["inventory"]
    inventory = Inventory(
        tuple(
            Node(**{**node, "devices": tuple(Device(**device) for device in node["devices"])})
            for node in held["nodes"]
        ),
        tuple(
            VirtualCluster(
                vc["name"],
                tuple(Claim(**claim) for claim in vc["claims"]),
                choice_of(vc["policy"]),
                UserLimits(**vc["user_limits"]),
                tuple(vc.get("services", ())),
            )
            for vc in held["virtual_clusters"]
        ),
        tuple(Pin(**pin) for pin in held["pins"]),
        held["layout"],
    )
    return Snapshot(
        data["now"],
        data["vc"],
        inventory,
        tuple(_allocation(allocation) for allocation in data["running"]),
        tuple(_gang(gang) for gang in data["waiting"]),
        data["left_s"],
        data["restart_s"],
    )


def choice_of(data: Mapping[str, Any]) -> PolicyChoice:
    """Return a policy of {name, parameters}, where the parameters are pairs."""
    return PolicyChoice(data["name"], tuple((name, value) for name, value in data["parameters"]))


def _gang(data: Mapping[str, Any]) -> Gang:
    members = tuple(_member(member) for member in data["members"])
    avoid = tuple((node, until) for node, until in data["avoid"])
    return Gang(**{**data, "members": members, "avoid": avoid})


def _member(data: Mapping[str, Any]) -> Member:
    known = data["elastic"]
    if known is None:
        return Member(**data)
    speedup = tuple((tasks, speed) for tasks, speed in known["speedup"])
    return Member(**{**data, "elastic": ElasticRange(**{**known, "speedup": speedup})})


def _allocation(data: Mapping[str, Any]) -> Allocation:
    tasks = tuple(
        TaskAllocation(**{**task, "gpu_uuids": tuple(task["gpu_uuids"])}) for task in data["tasks"]
    )
    unplaced = tuple((role, index) for role, index in data["unplaced"])
    delays = tuple((role, index, until) for role, index, until in data["delays"])
    fields = {"gang": _gang(data["gang"]), "tasks": tasks, "unplaced": unplaced, "delays": delays}
    return Allocation(**{**data, **fields})
