"""The simulator over a whole trace, and the time of decisions under each live policy.

- 82,247 jobs of Philly on 600 GPUs under FIFO, SRTF and Tiresias: seconds, jobs a second and peak
  memory. The trace is read from beside the checkout; without it, as many jobs are made up. For
  comparison: the fastest published simulator that we measured runs 460 jobs a second.
- `decision`: a tick after one job ended, with 2,048 jobs that wait on 64 nodes.
- `lp_gavel`: the shares of 2,048 jobs by Gavel's program, solved anew.
- `tick`: the same with 5,000 jobs on 10,000 nodes, a quarter of which virtual clusters own.

Times of ticks are CPU time of one core. `python -m benchmarks simulate`, or
`python -m benchmarks.simulate --quick`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from benchmarks.queue_tick import GPUS, NOW, VCS, machine, mixed_queue
from benchmarks.report import percentile, report

from skep_scheduler import engine, policies
from skep_scheduler.memory import Memory
from skep_scheduler.model import (
    DEFAULTS,
    Claim,
    Gang,
    Inventory,
    Member,
    PolicyChoice,
    VirtualCluster,
)
from skep_scheduler.policies.base import RoundView
from skep_scheduler.policies.gavel import live
from skep_scheduler.policies.gavel.live import Gavel
from skep_scheduler.simulator.commit import commit
from skep_scheduler.state import ClusterState

TRACE = Path(__file__).resolve().parents[2] / "shared/reference/traces/philly/sia_philly_82k.csv"
JOBS = 82_247
POLICIES = ("fifo", "srtf", "tiresias")
PEER = 460.0  # jobs/s
MOST_S, MOST_MIB = 60.0, 1024.0
DECISION_MS = 50.0  # of an order policy with 2,048 jobs
LP_MS = 200.0  # of a linear program with 2,048 jobs
ENDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    scale = 40 if parser.parse_args().quick else 1
    for policy in POLICIES:
        whole_trace(policy, JOBS // scale)
    for policy in policies.names():
        ticks("decision", policy, 64, 2_048 // scale, DECISION_MS)
    for policy in policies.names():
        ticks("tick", policy, 10_000 // scale, 5_000 // scale, owned=0.25)
    program(2_048 // scale)


def program(jobs: int) -> None:
    """Measure the program of Gavel for jobs of 40 kinds on four GPU models, the first time."""
    gpus = {f"M{n}": 512.0 for n in range(4)}
    gangs = [
        Gang(
            f"g{i}",
            f"g{i}",
            "a",
            10,
            float(i),
            (Member("worker", 1, 2 ** (i % 4), 1000, 1024),),
            speeds=tuple((f"M{n}", 1 + (i % 40) * n / 7) for n in range(4)),
        )
        for i in range(jobs)
    ]
    view = RoundView(0.0, gangs, lambda g: {"M0": float(g.gpus)}, gpus, lambda g: True)
    times = []
    Gavel().parts(replace(view, gangs=gangs[:2]))  # the solver is imported once
    for _ in range(ENDS):
        live.forget()
        begun = time.process_time()
        assert not Gavel().parts(view).warning
        times.append((time.process_time() - begun) * 1000)
    report("simulate", "lp_gavel", percentile(times, 95), "ms", LP_MS)


def whole_trace(policy: str, jobs: int) -> None:
    """Run one policy in a process of its own, so that its memory is its own."""
    given = ["--trace", str(TRACE)] if TRACE.exists() and jobs == JOBS else ["--jobs", str(jobs)]
    command = [sys.executable, "-m", "skep_scheduler.simulator", *given, "--policy", policy]
    command += ["--cluster", "75x8xP100", "--placement", "count"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = json.loads(process.stdout.read())
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{policy} failed"
    assert line["finished"] + line["refused"] <= line["jobs"]
    report("simulate", f"{policy}_wall", line["wall_s"], "s", MOST_S)
    report("simulate", f"{policy}_speed", line["jobs"] / line["wall_s"], "jobs/s", PEER)
    report("simulate", f"{policy}_peak_rss", usage.ru_maxrss / 1024, "MiB", MOST_MIB)
    report("simulate", f"{policy}_avg_jct", line["avg_jct_s"], "s")


def ticks(
    name: str,
    policy: str,
    nodes: int,
    jobs: int,
    most_ms: float | None = None,
    owned: float = 1.0,
) -> None:
    """Measure ticks of a settled queue, each after one job ended. The scheduler keeps its memory
    between them and plans without garbage collection, as the live one does."""
    state, memory = ClusterState(), Memory(DEFAULTS)
    share = (Claim("", "A100", max(int(nodes * owned) // VCS, 1) * GPUS),)
    vcs = tuple(
        VirtualCluster(f"vc{number}", share, PolicyChoice(policy))
        for number in range(min(VCS, nodes))
    )
    state.set_inventory(Inventory(tuple(machine(number) for number in range(nodes)), vcs))
    for gang in mixed_queue(jobs):
        state.set_waiting(gang)
    now = _settled(state, memory, NOW)
    gc.collect()
    gc.freeze()
    gc.disable()
    took = []
    for gang_id in sorted(state.running)[:: max(len(state.running) // ENDS, 1)][:ENDS]:
        if gang_id not in state.running:
            continue
        state.forget(gang_id)
        now += 1.0
        start = time.thread_time()
        plan = engine.plan(state, now, memory=memory)
        took.append((time.thread_time() - start) * 1000)
        for victim in commit(state, plan, now):
            state.forget(victim)
    gc.enable()
    gc.unfreeze()
    label = f"{name}_{policy}"
    report("simulate", f"{label}_p50", percentile(took, 50), "ms", most_ms)
    report("simulate", f"{label}_max", max(took), "ms")
    report("simulate", f"{label}_waiting", len(state.waiting), "jobs")


def _settled(state: ClusterState, memory: Memory, now: float) -> float:
    """Plan until there is nothing to do, two minutes after the first tick at the earliest, when all
    preemption that is due has happened. Returns that moment."""
    for moment in (now, now + 120.0):
        for _ in range(100):
            plan = engine.plan(state, moment, memory=memory)
            if not (plan.placements or plan.preemptions or plan.cancels or plan.downgrades):
                break
            for victim in commit(state, plan, moment):
                state.forget(victim)
    return now + 120.0


if __name__ == "__main__":
    main()
