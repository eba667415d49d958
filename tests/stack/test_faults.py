"""Parts are killed in the middle of a running gang: it finishes, and nothing of its log is lost."""

from __future__ import annotations

import os
import signal

import httpx
import pytest
from tests.support.stack import Stack
from tests.support.stack_jobs import gang, log_lines, reach, submit, tasks, until

pytestmark = [pytest.mark.stack, pytest.mark.docker]

LINES = 60
# About six seconds of output, so that whatever is killed is killed in the middle of it.
CHATTY = f'for i in $(seq {LINES}); do echo "line $i"; sleep 0.1; done'


def kill(skep: Stack, name: str) -> None:
    """SIGKILL one part, named by the beginning of its name, and wait until it is replaced."""
    before = {n: p for n, p in skep.pids().items() if n.startswith(name)}
    assert before, skep.pids()
    for pid in before.values():
        os.kill(pid, signal.SIGKILL)

    def replaced() -> bool:
        now = skep.pids()
        return all(now.get(n, p) != p for n, p in before.items())

    until(replaced)


def running_gang(api: httpx.Client, image: str) -> str:
    job_id = submit(api, gang(image, CHATTY))
    reach(api, job_id, {"RUNNING"})
    until(lambda: api.get(f"/jobs/{job_id}/logs").json()["chunks"])
    return job_id


@pytest.mark.parametrize(
    "part", ["web", "gateway", "worker-scheduler", "worker-default", "agent", "valkey"]
)
def test_a_gang_survives_the_sudden_death_of(part, skep, api, image):
    job_id = running_gang(api, image)

    kill(skep, part)

    done = reach(api, job_id, {"SUCCEEDED"})
    assert done["attempt"] == 1, "it was not started a second time"
    for lines in log_lines(api, job_id).values():
        assert lines == [f"line {i}" for i in range(1, LINES + 1)]


def test_a_gang_survives_the_sudden_death_of_everything_but_the_engines(skep, api, image):
    job_id = running_gang(api, image)

    for part in ("web", "gateway", "worker", "agent"):
        kill(skep, part)

    done = reach(api, job_id, {"SUCCEEDED"})
    assert done["attempt"] == 1
    for lines in log_lines(api, job_id).values():
        assert lines == [f"line {i}" for i in range(1, LINES + 1)]


def test_a_lost_node_is_fenced_and_its_gang_starts_again_for_free(skep, api, image):
    """The agent is frozen, not dead: its containers go on until the agent wakes, finds its lease
    over and stops them. The gang is retried on what is left, with another set of GPUs."""
    job_id = submit(api, gang(image, "[ $SKEP_JOB_ATTEMPT -gt 1 ] || sleep 400", tasks=1, gpus=8))
    reach(api, job_id, {"RUNNING"})
    first = tasks(api, job_id)[0]["attempt"]
    pid = next(p for n, p in skep.pids().items() if n.endswith(first["node"]))
    os.kill(pid, signal.SIGSTOP)
    try:
        second = until(
            lambda: (now := tasks(api, job_id)[0]["attempt"])["id"] != first["id"] and now, 180
        )
    finally:
        os.kill(pid, signal.SIGCONT)

    assert second["node"] != first["node"]
    assert not set(second["gpu_uuids"]) & set(first["gpu_uuids"])
    done = reach(api, job_id, {"SUCCEEDED"})
    assert done["retries_used"] == 0


def test_no_gpu_was_ever_leased_twice_at_a_time(skep, api):
    """Over all that the tests of this folder did: the leases of each device do not overlap."""
    overlaps = """
        SELECT a.device_id, a.attempt_id, b.attempt_id FROM jobs_lease a JOIN jobs_lease b
        ON a.device_id = b.device_id AND a.slot = b.slot AND a.id < b.id
        WHERE tstzrange(a.acquired_at, a.released_at) && tstzrange(b.acquired_at, b.released_at)
    """
    assert skep.query(overlaps) == []
    assert skep.query("SELECT count(*) FROM jobs_lease")[0][0] > 0
