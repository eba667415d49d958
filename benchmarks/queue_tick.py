"""A tick over a deep mixed queue: on an empty cluster, on a full one, and until no gang waits.

2,000 nodes of 8 GPUs, 10 VCs with equal shares, 50,000 gangs of many sizes, priorities and needs of
CPU, some of which say how long they run. For comparison: Kueue's performance harness admits 42
workloads/s (its test/performance/scheduler, 50,000 workloads). Times are CPU time of one core.
Prints JSON lines: bench, metric, value, unit. `python benchmarks/queue_tick.py [--quick]`.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from collections.abc import Callable
from typing import TypeVar

from skep_scheduler import engine
from skep_scheduler.memory import Memory
from skep_scheduler.model import (
    DEFAULTS,
    Allocation,
    Claim,
    Device,
    Gang,
    Inventory,
    Member,
    Node,
    Plan,
    TaskAllocation,
    VirtualCluster,
)
from skep_scheduler.simulator import commit as simulator
from skep_scheduler.state import ClusterState

T = TypeVar("T")
GPUS = 8
VCS = 10
NOW = 1_000_000.0
KUEUE = 42.0  # admissions/s
# (tasks, GPUs per task): what a mixed queue asks for, small jobs more often.
SIZES = (
    [(1, 1)] * 8 + [(1, 2)] * 4 + [(1, 4)] * 4 + [(1, 8)] * 3 + [(2, 8), (4, 8), (16, 8), (4, 2)]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    scale = 20 if parser.parse_args().quick else 1
    measure(nodes=2_000 // scale, gangs=50_000 // scale)


def measure(nodes: int, gangs: int) -> None:
    state = ClusterState()
    timed("inventory", lambda: state.set_inventory(inventory(nodes)))
    waiting = mixed_queue(gangs)
    timed("tell_queue", lambda: [state.set_waiting(gang) for gang in waiting])
    gc.collect()
    gc.freeze()  # as a scheduler does that keeps its state
    plan, seconds = tick("fill", state)
    report("admissions", len(plan.placements) / seconds, "gangs/s")
    report("admissions_kueue", KUEUE, "gangs/s")
    timed("tell_placed", lambda: commit(state, plan))
    tick("full", state)
    one_ended(state)
    drain(state)
    report("peak_rss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")
    state.validate()


def tick(name: str, state: ClusterState) -> tuple[Plan, float]:
    """Over the whole queue; nothing is done about it."""
    plan, seconds = timed(f"{name}_tick", lambda: engine.plan(state, NOW))
    report(f"{name}_placed", len(plan.placements), "gangs")
    report(f"{name}_preempting", len(plan.preemptions), "gangs")
    report(f"{name}_waiting", len(plan.reasons), "gangs")
    return plan, seconds


def one_ended(state: ClusterState, ends: int = 20) -> None:
    """A tick in which one gang ended since the last one, for a scheduler that keeps its memory. It
    begins two minutes after the first tick, when all preemption that is due has happened."""
    memory, seconds, started, now = Memory(DEFAULTS), [], 0, NOW + 120.0
    settle(state, memory, now)
    running = sorted(state.running)
    gc.disable()  # as the live scheduler does while it plans
    for gang_id in running[:: len(running) // ends][:ends]:
        state.forget(gang_id)
        start = time.thread_time()
        plan = engine.plan(state, now, memory=memory)
        seconds.append(time.thread_time() - start)
        started += len(plan.placements)
        simulator.commit(state, plan, now)
        settle(state, memory, now)
    gc.enable()
    report("one_ended_tick_p50", sorted(seconds)[len(seconds) // 2] * 1000, "ms")
    report("one_ended_tick_max", max(seconds) * 1000, "ms")
    report("one_ended_started", started, "gangs")


def settle(state: ClusterState, memory: Memory, now: float) -> None:
    """Plan, and let victims leave at once, until there is nothing to do."""
    while True:
        plan = engine.plan(state, now, memory=memory)
        if not (plan.placements or plan.preemptions or plan.cancels or plan.downgrades):
            return
        for gang_id in simulator.commit(state, plan, now):
            state.forget(gang_id)


def drain(state: ClusterState) -> None:
    """Everything that runs ends between two ticks, until no gang waits any more."""
    waits, seconds, ticks = len(state.waiting), 0.0, 0
    while state.waiting:
        for gang_id in list(state.running):
            state.forget(gang_id)
        start = time.thread_time()
        plan = engine.plan(state, NOW)
        seconds += time.thread_time() - start
        ticks += 1
        commit(state, plan)
        if not plan.placements:
            break  # what is left is more than any VC owns
    report("drain", seconds, "s")
    report("drain_ticks", ticks, "ticks")
    report("drain_left", len(state.waiting), "gangs")
    report("drain_admissions", (waits - len(state.waiting)) / seconds, "gangs/s")


def commit(state: ClusterState, plan: Plan) -> None:
    for placement in plan.placements:
        gang = state.waiting[placement.gang]
        one = gang.members[0]
        tasks = tuple(
            TaskAllocation(
                task.role,
                task.index,
                task.node,
                task.gpu_uuids,
                one.cpu_millis,
                one.memory_mb,
                task.cell_type,
            )
            for task in placement.tasks
        )
        state.set_running(Allocation(gang, tasks, NOW))


def timed(name: str, run: Callable[[], T]) -> tuple[T, float]:
    start = time.thread_time()
    result = run()
    seconds = time.thread_time() - start
    report(name, seconds, "s")
    return result, seconds


def report(metric: str, value: float, unit: str) -> None:
    line = {"bench": "queue", "metric": metric, "value": round(value, 3), "unit": unit}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def inventory(nodes: int) -> Inventory:
    share = (Claim("", "A100", nodes // VCS * GPUS),)
    vcs = tuple(VirtualCluster(f"vc{i}", share) for i in range(VCS))
    return Inventory(tuple(machine(i) for i in range(nodes)), vcs)


def machine(i: int) -> Node:
    name = f"node-{i:05}"
    devices = tuple(Device(f"GPU-{i:05}-{g}", "A100", g) for g in range(GPUS))
    return Node(name, 64_000, 262_144, devices, labels={"rack": f"r{i // 20}"})


def mixed_queue(gangs: int) -> list[Gang]:
    rng = random.Random(11)
    return [one(i, rng) for i in range(gangs)]


def one(i: int, rng: random.Random) -> Gang:
    tasks, gpus = rng.choice(SIZES)
    cpu = rng.choice((1_000, 2_000, 4_000, 8_000)) * gpus
    member = Member("worker", tasks, gpus, cpu, 16_384 * gpus, "A100")
    return Gang(
        f"g{i:06}",
        f"job-{i}",
        f"vc{rng.randrange(VCS)}",
        rng.choice((-1, 0, 0, 10, 10, 100)),
        NOW - 50_000 + i,
        (member,),
        duration_s=rng.choice((None, 600.0, 3_600.0, 86_400.0)),
    )


if __name__ == "__main__":
    main()
