"""The simulator over a whole trace, and the time of decisions under each live policy.

- 82,247 jobs of Philly on 600 GPUs under FIFO, SRTF and Tiresias: seconds, jobs a second and peak
  memory. The trace is read from beside the checkout; without it, as many jobs are made up. For
  comparison: the fastest published simulator that we measured runs 460 jobs a second.
- `decision`: a tick after one job ended, with 2,048 jobs of one virtual cluster on 64 nodes.
- `lp_gavel`: the shares of 2,048 jobs by Gavel's program for each objective, solved anew.
- `tick`: a tick with 5,000 jobs of 10 virtual clusters on 10,000 nodes, of which these own a
  quarter.

The jobs are those of `policy_queue`. Times are CPU time of one core, those with `wall` in their
name time of the clock. `python -m benchmarks simulate`, or
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

from benchmarks.policy_queue import policy_queue, two_models
from benchmarks.queue_tick import NOW, VCS
from benchmarks.report import percentile, report

from skep_scheduler import engine, policies
from skep_scheduler.memory import Memory
from skep_scheduler.model import (
    DEFAULTS,
    Gang,
    Member,
    PolicyChoice,
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
CHOICES = (
    *(PolicyChoice(name) for name in policies.names() if name != Gavel.name),
    PolicyChoice("drf", (("term_s", 600.0),)),
    *(PolicyChoice(Gavel.name, (("objective", objective),)) for objective in live.OBJECTIVES),
)
ENDS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    scale = 40 if parser.parse_args().quick else 1
    for policy in POLICIES:
        whole_trace(policy, JOBS // scale)
    for choice in CHOICES:
        most_ms = LP_MS if choice.name == Gavel.name else DECISION_MS
        ticks("decision", choice, 64, 2_048 // scale, 1, most_ms)
    for choice in CHOICES:
        ticks("tick", choice, 10_000 // scale, 5_000 // scale, VCS, owned=0.25)
    for objective in live.OBJECTIVES:
        program(objective, 2_048 // scale)


def program(objective: str, jobs: int) -> None:
    """Measure the program of an objective of Gavel for jobs of 40 kinds on four GPU models, the
    first time. What is left of the jobs makes more kinds of them, where the objective asks."""
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
            duration_s=600.0 * 2 ** (i % 8),
        )
        for i in range(jobs)
    ]
    view = RoundView(0.0, gangs, lambda g: {"M0": float(g.gpus)}, gpus, lambda g: True)
    policy, times, walls = Gavel(objective), [], []
    policy.parts(replace(view, gangs=gangs[:2]))  # the solver is imported once
    for _ in range(ENDS):
        live.forget()
        begun, wall = time.process_time(), time.perf_counter()
        assert not policy.parts(view).warning
        times.append((time.process_time() - begun) * 1000)
        walls.append((time.perf_counter() - wall) * 1000)
    report("simulate", f"lp_gavel_{objective}", percentile(times, 95), "ms", LP_MS)
    report("simulate", f"lp_gavel_{objective}_wall", percentile(walls, 95), "ms")


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
    report("simulate", f"{policy}_cpu", usage.ru_utime + usage.ru_stime, "s")
    report("simulate", f"{policy}_speed", line["jobs"] / line["wall_s"], "jobs/s", PEER)
    report("simulate", f"{policy}_peak_rss", usage.ru_maxrss / 1024, "MiB", MOST_MIB)
    report("simulate", f"{policy}_avg_jct", line["avg_jct_s"], "s")


def ticks(
    name: str,
    choice: PolicyChoice,
    nodes: int,
    jobs: int,
    vcs: int,
    most_ms: float | None = None,
    owned: float = 1.0,
) -> None:
    """Measure ticks of a settled queue, each after one job ended. The scheduler keeps its memory
    between them and plans without garbage collection, as the live one does."""
    state, memory = ClusterState(), Memory(DEFAULTS)
    state.set_inventory(two_models(nodes, vcs, choice, owned))
    for gang in policy_queue(jobs, vcs):
        state.set_waiting(gang)
    now = _settled(state, memory, NOW)
    gc.collect()
    gc.freeze()
    gc.disable()
    took, walls = [], []
    for gang_id in sorted(state.running)[:: max(len(state.running) // ENDS, 1)][:ENDS]:
        if gang_id not in state.running:
            continue
        state.forget(gang_id)
        now += 1.0
        start, wall = time.process_time(), time.perf_counter()
        plan = engine.plan(state, now, memory=memory)
        took.append((time.process_time() - start) * 1000)
        walls.append((time.perf_counter() - wall) * 1000)
        for victim in commit(state, plan, now):
            state.forget(victim)
    gc.enable()
    gc.unfreeze()
    label = "_".join((name, choice.name, *(str(value) for _, value in choice.parameters)))
    report("simulate", f"{label}_p50", percentile(took, 50), "ms", most_ms)
    report("simulate", f"{label}_wall_p50", percentile(walls, 50), "ms")
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
