"""A gang of real torchrun is preempted and drained: each rank is asked to save, and goes on."""

from __future__ import annotations

import re

import docker
import httpx
import pytest
from tests.support.stack_jobs import gang, job, reach, submit, tasks, until
from tests.support.torch_image import torch_image

pytestmark = [pytest.mark.stack, pytest.mark.docker, pytest.mark.long]

PATIENCE_S = 300  # all the processes import PyTorch on a small machine
PER_NODE = 2
RANKS = range(2 * PER_NODE)
# Each rank keeps its last step of ten, and what it did when it was asked to save.
TRAIN = """
import os, pathlib, signal, sys, time
import torch, torch.distributed as dist

asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
dist.init_process_group("gloo")
rank = dist.get_rank()
kept = pathlib.Path(os.environ["SKEP_SCRATCH_DIR"], f"rank-{rank}")
step = int(kept.read_text()) if kept.exists() else 0

def say(what):
    os.write(1, f"rank {rank} {what} {step}\\n".encode())

say("begins at")
while True:
    flag = torch.tensor([len(asked)])
    dist.all_reduce(flag)  # all of them save after the same step
    step += 1
    if flag.item() or step % 10 == 0:
        kept.write_text(str(step))
        say("saves")
    if flag.item():
        for _ in range(300):  # a rank that was asked first has notified the others
            if asked:
                break
            time.sleep(0.1)
        say("was asked at" if asked else "was not asked at")
        sys.exit(0)
    time.sleep(0.1)
"""
COMMAND = f"""
cat > /tmp/train.py <<'END'
{TRAIN}
END
torchrun --nnodes=$WORLD_SIZE --nproc-per-node=NPROC --rdzv-backend=c10d --rdzv-id=$SKEP_JOB_ID \
  --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT --rdzv-conf=join_timeout=200 /tmp/train.py"""
SAID = re.compile(
    r"^rank (\d) (begins at|saves|was asked at|was not asked at) (\d+)$", re.MULTILINE
)
PROD = {"hivedScheduler": {"jobPriorityClass": "prod"}}
EXTRAS = {"skep": {"checkpoint": {"grace": 120}, "scratch": 10}}  # the default signal


def said(api: httpx.Client, job_id: str) -> dict[str, dict[int, list[int]]]:
    """What -> rank -> steps, in order, over all attempts of the job."""
    cursor, texts = 0, {}
    while True:
        page = api.get(f"/jobs/{job_id}/logs", params={"cursor": cursor, "stream": "stdout"}).json()
        for chunk in page["chunks"]:
            texts[chunk["attempt_id"]] = texts.get(chunk["attempt_id"], "") + chunk["text"]
        if not page["chunks"]:
            break
        cursor = page["next"]
    found: dict[str, dict[int, list[int]]] = {}
    for text in texts.values():
        for rank, what, step in SAID.findall(text):
            found.setdefault(what, {}).setdefault(int(rank), []).append(int(step))
    return found


def begun(api: httpx.Client, job_id: str, ranks: int, times: int = 1) -> bool:
    steps = said(api, job_id).get("begins at", {})
    return len(steps) == ranks and all(len(mine) == times for mine in steps.values())


def training(image: str, tasks: int, gpus: int) -> dict:
    command = COMMAND.replace("NPROC", str(PER_NODE))
    file = gang(image, command, tasks=tasks, gpus=gpus, extras=EXTRAS)
    file["taskRoles"]["worker"]["resourcePerInstance"]["memoryMB"] = 4096
    return file


def test_finding_j1_and_finding_j9_each_rank_of_a_preempted_torchrun_saves_and_goes_on(api):
    image = torch_image(docker.from_env())
    victim = submit(api, training(image, tasks=2, gpus=8))
    until(lambda: begun(api, victim, len(RANKS)), PATIENCE_S)
    until(lambda: len(said(api, victim).get("saves", {})) == len(RANKS), PATIENCE_S)
    assert {task["attempt"]["node"] for task in tasks(api, victim)} == {"node-1", "node-2"}

    preemptor = submit(api, gang(image, "sleep 600", tasks=2, gpus=8, extras=PROD))
    reach(api, preemptor, {"RUNNING"}, PATIENCE_S)

    asked = said(api, victim)["was asked at"]
    assert set(asked) == set(RANKS)
    assert len({step for (step,) in asked.values()}) == 1
    assert "was not asked at" not in said(api, victim)
    kinds = {event["kind"] for event in api.get(f"/jobs/{victim}/events").json()["results"]}
    assert "job.not_saved" not in kinds

    api.post(f"/jobs/{preemptor}/stop")
    until(lambda: begun(api, victim, len(RANKS), times=2), PATIENCE_S)
    begins = said(api, victim)["begins at"]
    assert {rank: steps[1] for rank, steps in begins.items()} == {
        rank: step for rank, (step,) in asked.items()
    }
    assert (job(api, victim)["preemptions"], job(api, victim)["retries_used"]) == (1, 0)
    api.post(f"/jobs/{victim}/stop")
    reach(api, victim, {"STOPPED"})


def test_finding_j1_each_rank_on_a_drained_node_is_asked_to_save(api):
    moved = submit(api, training(torch_image(docker.from_env()), tasks=1, gpus=8))
    until(lambda: begun(api, moved, PER_NODE), PATIENCE_S)
    node = tasks(api, moved)[0]["attempt"]["node"]

    assert api.post(f"/nodes/{node}/drain").status_code == 200
    try:
        until(lambda: api.get(f"/nodes/{node}").json()["empty"], PATIENCE_S)
        assert set(said(api, moved)["was asked at"]) == set(range(PER_NODE))
        until(lambda: job(api, moved)["attempt"] == 2)
    finally:
        api.post(f"/jobs/{moved}/stop")
        assert api.post(f"/nodes/{node}/undrain").status_code == 200
    reach(api, moved, {"STOPPED"})
