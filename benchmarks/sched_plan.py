"""How long one tick of the scheduler takes on large clusters, and how much memory.

Prints JSON lines: bench, metric, value, unit. `python benchmarks/sched_plan.py [--quick]`.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable

from skep_scheduler import engine
from skep_scheduler.invariants import validate
from skep_scheduler.plan import Plan
from skep_scheduler.state import Gang, Member, Node, Running, Snapshot, VirtualCluster

GPUS = 8
VCS = 10
NOW = 1_000_000.0
# (tasks, GPUs per task): what a mixed queue asks for, small jobs more often.
SIZES = (
    [(1, 1)] * 8 + [(1, 2)] * 4 + [(1, 4)] * 4 + [(1, 8)] * 3 + [(2, 8), (4, 8), (16, 8), (4, 2)]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    scale = 20 if parser.parse_args().quick else 1
    deep_queue(nodes=2_000 // scale, gangs=50_000 // scale)
    burst(nodes=2_000 // scale)
    for nodes in (2_000, 10_000):
        gang(nodes // scale, tasks=16, gpus=GPUS)
        gang(nodes // scale, tasks=2_000 // scale, gpus=4)
        empty_tick(nodes // scale)
    report("memory", "peak_rss", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB")


def deep_queue(nodes: int, gangs: int) -> None:
    """A mixed queue before a cluster that is all but full: few fit, all are explained."""
    snapshot = cluster(nodes, busy=0.97, waiting=mixed_queue(gangs))
    name = f"tick_{gangs}_waiting_{nodes}_nodes"
    plan = measure(name, lambda: engine.plan(snapshot, NOW))
    report(name, "placed", len(plan.placements), "gangs")
    report(name, "refused", len(plan.reasons), "gangs")
    start = time.perf_counter()
    validate(snapshot, plan, NOW)
    report(name, "validate", (time.perf_counter() - start) * 1e3, "ms")


def burst(nodes: int) -> None:
    """As many one-GPU gangs as the empty cluster has GPUs."""
    waiting = tuple(one(i, f"vc{i % VCS}", (1, 1)) for i in range(nodes * GPUS))
    snapshot = cluster(nodes, busy=0.0, waiting=waiting)
    name = f"burst_{len(waiting)}_gangs_{nodes}_nodes"
    plan = measure(name, lambda: engine.plan(snapshot, NOW))
    report(name, "placed", len(plan.placements), "gangs")


def gang(nodes: int, tasks: int, gpus: int) -> None:
    """One large gang; half of the nodes are full, the others idle."""
    waiting = (one(0, "vc0", (tasks, gpus)),)
    snapshot = cluster(nodes, 0.5, waiting, quota=2 * nodes * GPUS, whole_nodes=True)
    name = f"gang_{tasks}x{gpus}_{nodes}_nodes"
    plan = measure(name, lambda: engine.plan(snapshot, NOW))
    report(name, "placed", len(plan.placements), "gangs")


def empty_tick(nodes: int) -> None:
    """Nothing waits: what the view of the cluster alone costs."""
    snapshot = cluster(nodes, busy=0.5, waiting=())
    measure(f"tick_nothing_waiting_{nodes}_nodes", lambda: engine.plan(snapshot, NOW))


def measure(name: str, run: Callable[[], Plan], times: int = 5) -> Plan:
    gc.collect()
    seconds = []
    for _ in range(times):
        start = time.perf_counter()
        plan = run()
        seconds.append(time.perf_counter() - start)
    report(name, "p50", statistics.median(seconds) * 1e3, "ms")
    report(name, "max", max(seconds) * 1e3, "ms")
    return plan


def report(bench: str, metric: str, value: float, unit: str) -> None:
    line = {"bench": f"sched_{bench}", "metric": metric, "value": round(value, 3), "unit": unit}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def cluster(
    nodes: int,
    busy: float,
    waiting: tuple[Gang, ...],
    quota: int | None = None,
    whole_nodes: bool = False,
) -> Snapshot:
    """Nodes of 8 GPUs in two NVLink islands; a part `busy` of the GPUs runs one-GPU tasks, spread
    over all nodes at random or over `whole_nodes`."""
    machines = tuple(machine(i) for i in range(nodes))
    owns = {"A100": quota if quota is not None else nodes * GPUS // VCS + GPUS}
    vcs = tuple(VirtualCluster(f"vc{i}", owns) for i in range(VCS))
    rng = random.Random(7)
    running = tuple(
        Running(f"r{uuid}", f"vc{rng.randrange(VCS)}", m.id, (uuid,), "A100", 4_000, 16_384)
        for i, m in enumerate(machines)
        for uuid in m.gpus["A100"]
        if (i % 100 < busy * 100 if whole_nodes else rng.random() < busy)
    )
    return Snapshot(machines, vcs, waiting, running)


def machine(i: int) -> Node:
    uuids = tuple(f"GPU-{i:05}-{g}" for g in range(GPUS))
    topology = {
        a: {b: "NV4" if x // 4 == y // 4 else "SYS" for y, b in enumerate(uuids) if x != y}
        for x, a in enumerate(uuids)
    }
    return Node(f"n{i}", f"node-{i:05}", 64_000, 262_144, {"A100": uuids}, True, topology)


def mixed_queue(gangs: int) -> tuple[Gang, ...]:
    rng = random.Random(11)
    return tuple(one(i, f"vc{rng.randrange(VCS)}", rng.choice(SIZES), rng) for i in range(gangs))


def one(i: int, vc: str, size: tuple[int, int], rng: random.Random | None = None) -> Gang:
    tasks, gpus = size
    cpus = rng.choice((1, 2, 4)) if rng else 4
    member = Member("worker", tasks, gpus, cpus * 1_000 * gpus, 16_384 * gpus, "A100")
    priority = rng.choice((-1, 0, 0, 10, 10, 100)) if rng else 10
    return Gang(f"g{i:06}", f"job-{i}", vc, priority, float(i), (member,))


if __name__ == "__main__":
    main()
