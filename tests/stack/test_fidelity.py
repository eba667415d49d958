"""A live run on simulated nodes is replayed by the simulator: the same jobs end at the same times.

Both drive `engine.plan`; what can differ is what the simulator leaves out of the live one. Jobs of
several sizes arrive at random in two virtual clusters, and every fifth is opportunistic: it runs on
what they leave idle, and is preempted. Shorter jobs preempt longer ones (SRTF), and what a
preempted job did is lost. Every sixth fails, is tried again, and fails for good. In the middle a
node is drained, and opened again; the replay gets both as Skep exports them.

What the simulator does not know is measured in the same run, as medians: how long a decision, a
start and an end, a leave and a diagnosis take; and when the scheduler planned without a cause
(SCHEDULING.md section 7). All that is some hundredths of a second, on a machine that is not
overloaded: run this test with a nice value below that of other work.
"""

from __future__ import annotations

import json
import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise, repeat
from math import ceil
from pathlib import Path
from typing import Any

import pytest
from tests.support.recorded_run import GPUS, NODES, VCS, Asked, asked, run_live
from tests.support.stack import Stack, stack

from skep_platform.jobs.lifecycle.decisions import backoff_s
from skep_scheduler.model import DEFAULTS, PolicyChoice
from skep_scheduler.simulator.cluster import SimulatedCluster
from skep_scheduler.simulator.node_events import NodeAction, NodeChange
from skep_scheduler.simulator.results import percentile
from skep_scheduler.simulator.workload import TraceJob, gangs_of, nodes_of, virtual_clusters

pytestmark = [pytest.mark.stack, pytest.mark.long, pytest.mark.timeout(1200)]

SEED, JOBS, LOAD = 5, 36, 0.8
POLICY = "srtf"
CLOCK_S = 2.0  # of the scheduler, see `scheduling.tasks.tick`


@pytest.fixture(scope="module")
def skep() -> Iterator[Stack]:
    at_once = {"SKEP_SCHEDULING_MIN_RUN_S": "0", "SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S": "0"}
    with stack("--no-agents", SKEP_HEARTBEAT_S="1", **at_once) as started:
        yield started


def test_a_replay_ends_jobs_when_the_live_run_did(skep: Stack, tmp_path: Path) -> None:
    record = run_live(skep, tmp_path, asked(SEED, JOBS, LOAD), POLICY)
    (tmp_path / "record.json").write_text(json.dumps(record))
    wanted = [Asked(**one) for one in record["asked"]]
    by_id = {row["id"]: row for row in record["jobs"]}
    live = [by_id[known] for known in record["ids"]]
    for one, of in zip(live, wanted, strict=True):
        assert (one["state"], one["retries"]) == (("SUCCEEDED", 0), ("FAILED", 1))[of.fails]
    preempted = [one["preemptions"] for one in live]
    assert any(times and of.borrows for times, of in zip(preempted, wanted, strict=True))
    assert any(times and not of.borrows for times, of in zip(preempted, wanted, strict=True))
    assert [row["action"] for row in record["node_events"]][-2:] == ["drain", "open"]

    replayed = replay(record, wanted)
    began = min(one["submitted"] for one in live)
    expected = figures([one["ended"] - one["submitted"] for one in live], live, began)
    found = figures(replayed.times, live, began)
    report = {
        "costs": replayed.costs,
        "live": expected,
        "replayed": found,
        "off": {name: f"{found[name] / expected[name] - 1:+.1%}" for name in found},
        "preemptions": [sum(preempted), replayed.preemptions],
    }
    print(json.dumps(report))
    assert found == pytest.approx(expected, rel=0.05), report
    assert abs(sum(preempted) - replayed.preemptions) <= max(2, 0.1 * sum(preempted)), report


def figures(times: list[float], jobs: list[dict[str, Any]], began: float) -> dict[str, float]:
    """Return figures of jobs by their completion times (seconds)."""
    ends = [job["submitted"] + time_s - began for job, time_s in zip(jobs, times, strict=True)]
    return {
        "mean_jct_s": round(statistics.mean(times), 2),
        "median_jct_s": round(statistics.median(times), 2),
        "p95_jct_s": round(percentile(sorted(times), 95), 2),
        "makespan_s": round(max(ends), 2),
    }


def costs(record: dict[str, Any], wanted: Sequence[Asked]) -> dict[str, float]:
    """Return the median seconds of what a run adds to the work of its jobs.

    decide: from a submission to a place, where one was free
    hold_one, hold_gang: from a place to clean GPUs, without the work, of one task and of several
    leave: from the wish that it leaves to clean GPUs
    diagnose: from clean GPUs to the known cause of a failure
    first_diagnosis: the same of the first failure, at which the worker loads the rules
    """
    asked_of = dict(zip(record["ids"], wanted, strict=True))
    submitted = {row["id"]: row["submitted"] for row in record["jobs"]}
    found: dict[str, list[float]] = {
        name: [] for name in ("decide", "hold_one", "hold_gang", "leave", "diagnose")
    }
    for one in record["attempts"]:
        waited = one["placed"] - submitted[one["job"]]
        if one["index"] == 1 and waited < 1:
            found["decide"].append(waited)
        if one["outcome"] == "PREEMPTED":
            found["leave"].append(one["leave_s"])
            continue
        kind = "hold_gang" if one["tasks"] > 1 else "hold_one"
        found[kind].append(one["clean"] - one["placed"] - asked_of[one["job"]].run_s)
        if one["outcome"] == "FAILED":
            found["diagnose"].append(one["judged"] - one["clean"])
    medians = {name: statistics.median(values) for name, values in found.items()}
    failed = [one for one in record["attempts"] if one["outcome"] == "FAILED"]
    first = min(failed, key=lambda one: one["clean"])
    medians["first_diagnosis"] = first["judged"] - first["clean"]
    return {name: round(value, 3) for name, value in medians.items()}


def clock_of(ticks: Sequence[float]) -> Callable[[float], float]:
    """Return the next moment at which the scheduler plans without a cause. It does every CLOCK_S,
    and drifts: that is seen where nothing else happened between two of its plans."""
    seen = [at for before, at in pairwise(ticks) if abs(at - before - CLOCK_S) < 0.15]

    def noticed(at: float) -> float:
        near = seen[min(bisect_left(seen, at), len(seen) - 1)]
        return near + ceil((at - near) / CLOCK_S) * CLOCK_S

    return noticed


@dataclass(frozen=True, slots=True)
class Replayed:
    """`times`: from submission to end (seconds), in the order of the jobs."""

    times: list[float]
    preemptions: int
    costs: dict[str, float]


def replay(record: dict[str, Any], wanted: Sequence[Asked]) -> Replayed:
    """Run the jobs as they were submitted on a simulated cluster of the same shape, to whose nodes
    the same happens."""
    spent = costs(record, wanted)
    submitted = {row["id"]: row["submitted"] for row in record["jobs"]}
    start = min(submitted.values())
    trace = [
        TraceJob(
            f"job-{number:03}",
            submitted[known] - start,
            round(of.run_s),
            of.gpus,
            of.vc,
            priority=-1 if of.borrows else 0,
        )
        for number, (known, of) in enumerate(zip(record["ids"], wanted, strict=True))
    ]
    nodes = nodes_of(f"{NODES}x{GPUS}xA100", [f"node-{number}" for number in range(NODES)])
    shares = [f"{name}=A100:{NODES * GPUS // len(VCS)}" for name in VCS]
    vcs = virtual_clusters(nodes, shares, PolicyChoice(record["policy"], ()))
    options = replace(DEFAULTS, min_run_s=0.0, opportunistic_min_run_s=0.0)
    cluster = SimulatedCluster(nodes, vcs, options, grace_s=spent["leave"])
    for known, of in zip(gangs_of(trace, nodes, vcs), wanted, strict=True):
        hold_s = spent["hold_gang" if known.tasks > 1 else "hold_one"]
        cluster.lifetimes[known.id] = of.run_s + hold_s
        if of.fails:
            cluster.failures[known.id] = [cluster.lifetimes[known.id]]
        cluster.submit_later(known)
    for row in record["node_events"]:
        at = float(row["at_s"]) - start
        cluster.change_node_later(NodeChange(at, row["node"], NodeAction(row["action"])))
    cluster.decide_s = spent["decide"]
    cluster.noticed_at = clock_of([moment - start for moment in record["ticks"]])
    diagnoses = chain([spent["first_diagnosis"]], repeat(spent["diagnose"]))
    cluster.retry_delay_s = lambda failures: next(diagnoses) + backoff_s(failures)
    cluster.run_to_end()
    results = sorted(cluster.outcome().jobs, key=lambda one: one.id)
    times = [
        one.jct_s + spent["diagnose"] * of.fails for one, of in zip(results, wanted, strict=True)
    ]
    return Replayed(times, sum(one.preemptions for one in results), spent)
