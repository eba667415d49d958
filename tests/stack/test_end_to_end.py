"""A gang from submit to its last log line, over REST, on two agents and a real engine."""

from __future__ import annotations

import pytest
from tests.support.stack_jobs import gang, job, log_lines, reach, submit, tasks, until

pytestmark = [pytest.mark.stack, pytest.mark.docker]


def test_a_gang_over_two_nodes_runs_to_its_last_log_line(api, image):
    script = 'for i in $(seq 50); do echo "rank $RANK of $WORLD_SIZE line $i"; done'
    job_id = submit(api, gang(image, script))

    done = reach(api, job_id, {"SUCCEEDED"})

    assert (done["tasks"], done["gpus"]) == (4, 16)
    for rank, lines in log_lines(api, job_id).items():
        assert lines == [f"rank {rank} of 4 line {i}" for i in range(1, 51)]


def test_each_task_gets_gpus_of_its_own_on_both_nodes(api, image):
    job_id = submit(api, gang(image, "true"))
    reach(api, job_id, {"SUCCEEDED"})

    attempts = [task["attempt"] for task in tasks(api, job_id)]

    assert {a["node"] for a in attempts} == {"node-1", "node-2"}
    gpus = [gpu for a in attempts for gpu in a["gpu_uuids"]]
    assert len(gpus) == len(set(gpus)) == 16


def test_tasks_find_each_other_over_the_injected_address(api, image):
    """Rank 0 listens on MASTER_PORT; the others send it their rank until it answers.

    They begin together: a peer that calls while another one is served is not. Rank 0 answers only
    after it has read a line: `nc` ends with the answer, also where it has not sent anything yet.
    """
    script = """
if [ "$RANK" = 0 ]; then
  printf '#!/bin/sh\\nread line; echo "$line" >> /tmp/heard; echo heard\\n' > /tmp/answer
  chmod +x /tmp/answer; : > /tmp/heard
  while [ "$(wc -l < /tmp/heard)" -lt 3 ]; do nc -l -p "$MASTER_PORT" -e /tmp/answer; done
  cat /tmp/heard
else
  until echo "hello from $RANK" | nc "$MASTER_ADDR" "$MASTER_PORT" 2>/dev/null | grep -q heard
  do sleep 0.2; done
fi"""
    job_id = submit(api, gang(image, script))
    reach(api, job_id, {"SUCCEEDED"})

    received = log_lines(api, job_id)[0]
    assert sorted(received) == [f"hello from {rank}" for rank in (1, 2, 3)]


def test_a_failing_task_fails_the_job_with_its_exit_code(api, image):
    job_id = submit(api, gang(image, '[ "$RANK" != 2 ] || exit 7; sleep 60'))

    done = reach(api, job_id, {"FAILED"})

    failed = [t for t in tasks(api, job_id) if t["state"] == "FAILED"]
    assert [(t["rank"], t["attempt"]["exit_code"]) for t in failed] == [(2, 7)]
    assert "7" in done["exit_reason"]["message"]


def test_a_job_is_stopped_and_gives_its_gpus_back(api, image):
    job_id = submit(api, gang(image, "trap 'exit 0' TERM; sleep 600 & wait"))
    reach(api, job_id, {"RUNNING"})
    assert api.post(f"/jobs/{job_id}/stop").status_code == 202

    reach(api, job_id, {"STOPPED"})

    def all_free() -> bool:
        gpus = api.get("/cluster").json()["gpus"]
        return all(model["used"] == 0 for model in gpus.values())

    until(all_free)


def test_a_gang_that_does_not_fit_waits_with_numbers_and_starts_when_it_does(api, image):
    first = submit(api, gang(image, "sleep 600"))
    reach(api, first, {"RUNNING"})
    second = submit(api, gang(image, "true", tasks=1, gpus=1))

    waiting = until(lambda: (now := job(api, second))["wait_reason"] and now)

    assert waiting["wait_reason"]["message"]
    assert waiting["wait_reason"]["details"]
    api.post(f"/jobs/{first}/stop")
    reach(api, second, {"SUCCEEDED"})


def test_a_registry_that_is_not_reached_is_reported_while_it_is_tried_again(api):
    job_id = submit(api, gang("127.0.0.1:9/no/such:image", "true", tasks=1, gpus=1))

    def retried() -> dict | None:
        now = job(api, job_id)
        return now if (now["wait_reason"] or {}).get("code") == "retry" else None

    waiting = until(retried)
    assert (waiting["state"], waiting["free_retries"]) == ("WAITING", 1)
    assert "127.0.0.1:9" in waiting["diagnosis"]["evidence"]["text"]
    assert api.post(f"/jobs/{job_id}/stop").status_code == 202
    reach(api, job_id, {"STOPPED"})


def test_the_history_of_a_job_is_reported_in_order(api, image):
    job_id = submit(api, gang(image, "true"))
    reach(api, job_id, {"SUCCEEDED"})

    events = api.get(f"/jobs/{job_id}/events").json()["results"]

    assert [e["at"] for e in events] == sorted(e["at"] for e in events)
    assert all(e["message"] for e in events)
