"""Two virtual clusters of a whole Skep under Tiresias and Gavel: jobs are preempted by their
checkpoint signal as the policy says, say why in its words, go on where they were and finish."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.live_nodes import LiveNodes
from tests.support.stack import Stack, stack
from tests.support.stack_jobs import gang, job, reach, submit, until

pytestmark = pytest.mark.stack

GPUS = 4
# Of the first queue: eight seconds on all GPUs, in which a test on a busy machine submits another
# job and reads why that one waits.
LIMIT_GPU_S = 8 * GPUS
ROUND_S = 5
SAVING = {"checkpoint": {"signal": "SIGUSR1", "grace": 30}}
POLICIES = {
    "research": (
        "V100",
        {
            "name": "tiresias",
            "parameters": {"first_limit_gpu_s": LIMIT_GPU_S, "second_limit_gpu_s": 0},
        },
    ),
    "vision": ("A100", {"name": "gavel", "parameters": {"round_s": ROUND_S}}),
}


@pytest.fixture(scope="module")
def skep() -> Iterator[Stack]:
    """Victims need not have run for a while first."""
    at_once = {
        "SKEP_SCHEDULING_MIN_RUN_S": "0",
        "SKEP_SCHEDULING_OPPORTUNISTIC_MIN_RUN_S": "0",
        "SKEP_SCHEDULING_RESIZE_HOLD_S": "2",
    }
    with stack("--no-agents", SKEP_HEARTBEAT_S="1", **at_once) as started:
        yield started


def run(api: httpx.Client, vc: str, name: str, seconds: float, **skep: Any) -> str:
    """Submit a job on all GPUs of a virtual cluster. It saves when it is asked to, ends then, and
    goes on from there."""
    command = f"mock run_for={seconds} on_checkpoint=exit resumes=1"
    extras = {"skep": {**SAVING, **skep}}
    file = gang("unused", command, tasks=1, gpus=GPUS, extras=extras)
    return submit(api, {**file, "name": name, "defaults": {"virtualCluster": vc}})


def events(api: httpx.Client, job_id: str, kind: str) -> list[str]:
    found = api.get(f"/jobs/{job_id}/events", params={"limit": 200}).raise_for_status().json()
    return [event["message"] for event in found["results"] if event["kind"] == kind]


def waits_because(api: httpx.Client, job_id: str, words: str) -> str:
    """Wait until the reason on the job's page has these words; return the whole reason."""

    def look() -> str | None:
        message = str((job(api, job_id)["wait_reason"] or {}).get("message", ""))
        return message if words in message else None

    return until(look)


def last_attempt_s(api: httpx.Client, job_id: str) -> float:
    """Return how long the only task ran in its last attempt."""
    done = job(api, job_id)
    times = [
        datetime.fromisoformat(done[name]).timestamp() for name in ("placed_at", "finished_at")
    ]
    return times[1] - times[0]


def test_an_elastic_job_shrinks_for_another_one_and_both_finish(
    skep: Stack, tmp_path: Path
) -> None:
    with LiveNodes(skep, tmp_path) as nodes, skep.api() as api:
        nodes.add("node-elastic", "H100", GPUS)
        api.post("/virtual-clusters", json={"name": "sizes"}).raise_for_status()
        quotas = {"quotas": {"H100": GPUS}}
        api.put("/virtual-clusters/sizes/quotas", json=quotas).raise_for_status()
        policy = {"policy": {"name": "optimus"}}
        api.patch("/virtual-clusters/sizes", json=policy).raise_for_status()
        first = elastic(api, "first", seconds=24)
        assert reach(api, first, {"RUNNING"})["tasks"] == GPUS
        second = elastic(api, "second", seconds=3)
        done = reach(api, second, {"SUCCEEDED"})
        assert (done["tasks"], done["gpus"]) == (GPUS // 2, GPUS // 2)
        why = events(api, first, "job.resized")[0]
        assert why.startswith(f"Shrinks from {GPUS} to {GPUS // 2} tasks")
        assert "It saves its work" in why
        done = reach(api, first, {"SUCCEEDED"})
        assert done["attempt"] >= 2
        assert done["retries_used"] == 0
        assert not events(api, first, "job.not_saved")


def elastic(api: httpx.Client, name: str, *, seconds: float) -> str:
    """Submit a job of one to four tasks, said to run for ten hours with one."""
    command = f"mock run_for={seconds} on_checkpoint=exit resumes=1"
    sizes = {"elastic": {"min": 1, "max": GPUS}, "duration": "10h"}
    file = gang("unused", command, tasks=1, gpus=1, extras={"skep": {**SAVING, **sizes}})
    return submit(api, {**file, "name": name, "defaults": {"virtualCluster": "sizes"}})


def test_jobs_yield_to_each_other_as_their_policies_say_and_give_the_reason(
    skep: Stack, tmp_path: Path
) -> None:
    with LiveNodes(skep, tmp_path) as nodes, skep.api() as api:
        for vc, (model, policy) in POLICIES.items():
            nodes.add(f"node-{vc}", model, GPUS)
            api.post("/virtual-clusters", json={"name": vc}).raise_for_status()
            quotas = {"quotas": {model: GPUS}}
            api.put(f"/virtual-clusters/{vc}/quotas", json=quotas).raise_for_status()
            api.patch(f"/virtual-clusters/{vc}", json={"policy": policy}).raise_for_status()
        long = run(api, "research", "long", 20)
        speeds = {"V100": 1.0, "A100": 2.2}
        # Long enough for a whole round between two of its beginnings, whenever a job starts.
        seconds = 2 * ROUND_S + 3
        turns = [run(api, "vision", f"turn-{n}", seconds, speeds=speeds) for n in range(2)]
        reach(api, long, {"RUNNING"})
        short = run(api, "research", "short", 1)
        waits_because(api, short, "so it is in queue 1 of 2, which goes first")

        # Tiresias: the long job moves to the second queue while it runs, and yields.
        reach(api, short, {"SUCCEEDED"})
        (why,) = events(api, long, "job.preempted")
        assert "it moved to queue 2 of 2; jobs of queue 1 go first" in why
        assert "It saves its work" in why
        done = reach(api, long, {"SUCCEEDED"})
        assert (done["attempt"], done["preemptions"], done["retries_used"]) == (2, 1, 0)
        assert not events(api, long, "job.not_saved")

        # Gavel: two jobs share the GPUs in rounds.
        ended = [reach(api, known, {"SUCCEEDED"}) for known in turns]
        assert {one["retries_used"] for one in ended} == {0}
        reasons = [why for known in turns for why in events(api, known, "job.preempted")]
        assert len(reasons) == sum(one["preemptions"] for one in ended) > 0
        for why in reasons:
            assert "its share is 0.50 of the time, it has had" in why
            assert "the next round begins in" in why
        assert not any(events(api, known, "job.not_saved") for known in turns)
