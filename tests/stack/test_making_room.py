"""Jobs that are preempted: for a more important one, and for a node that shall be empty."""

from __future__ import annotations

import httpx
import pytest
from tests.support.stack_jobs import gang, job, log_of, reach, submit, tasks, until

pytestmark = [pytest.mark.stack, pytest.mark.docker]

PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}
# A task that saves when it is asked to, and then ends by itself.
SAVES = """
trap 'echo saved; exit 3' USR1
echo begun
while :; do sleep 0.1; done"""


def gpus(api: httpx.Client, job_id: str) -> list[tuple[str, set[str]]]:
    """(node, GPUs) of each task, by rank."""
    found = [task["attempt"] for task in tasks(api, job_id)]
    return [(attempt["node"], set(attempt["gpu_uuids"])) for attempt in found]


def test_a_victim_saves_its_work_and_waits_in_its_old_place_for_its_gpus(api, image):
    saving = {"skep": {"checkpoint": {"signal": "SIGUSR1", "grace": 60}}}
    victim = submit(api, gang(image, SAVES, extras=saving))
    reach(api, victim, {"RUNNING"})
    until(lambda: len(log_of(api, victim)) == 4)
    had = gpus(api, victim)
    behind = submit(api, gang(image, "true"))
    preemptor = submit(api, gang(image, "sleep 600", extras=PROD))

    reach(api, preemptor, {"RUNNING"})

    assert {uuid for _, mine in gpus(api, preemptor) for uuid in mine} == {
        uuid for _, mine in had for uuid in mine
    }
    waiting = until(lambda: (now := job(api, victim))["wait_reason"] and now)
    assert (waiting["state"], waiting["preemptions"], waiting["retries_used"]) == ("WAITING", 1, 0)
    until(lambda: log_of(api, victim).count("saved") == 4)
    events = api.get(f"/jobs/{victim}/events").json()["results"]
    (messages,) = [event["message"] for event in events if event["kind"] == "job.preempted"]
    assert job(api, preemptor)["name"] in messages

    api.post(f"/jobs/{preemptor}/stop")
    reach(api, victim, {"RUNNING"})
    assert job(api, behind)["state"] == "WAITING"
    assert job(api, victim)["attempt"] == 2
    api.post(f"/jobs/{victim}/stop")
    reach(api, behind, {"SUCCEEDED"})


def test_a_drained_node_is_emptied_and_its_job_goes_on_elsewhere(api, image):
    moved = submit(api, gang(image, "sleep 600", tasks=1, gpus=8))
    reach(api, moved, {"RUNNING"})
    ((node, _),) = gpus(api, moved)
    forecast = api.get(f"/nodes/{node}/forecast", params={"action": "drain"}).json()
    assert [(one["id"], one["what"]) for one in forecast["jobs"]] == [(moved, "preempted")]

    assert api.post(f"/nodes/{node}/drain").status_code == 200
    try:
        until(lambda: api.get(f"/nodes/{node}").json()["empty"])
        until(lambda: job(api, moved)["attempt"] == 2)
        done = reach(api, moved, {"RUNNING"})
        ((other, _),) = gpus(api, moved)
        assert other != node
        assert (done["preemptions"], done["retries_used"]) == (1, 0)
    finally:
        api.post(f"/jobs/{moved}/stop")
        assert api.post(f"/nodes/{node}/undrain").status_code == 200
    reach(api, moved, {"STOPPED"})
    assert not api.get(f"/nodes/{node}").json()["cordoned"]
