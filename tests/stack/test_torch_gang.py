"""Distributed PyTorch over two nodes: the loss falls, a rank is killed, the gang is tried again."""

from __future__ import annotations

import io
import re
import tarfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import docker
import httpx
import pytest
from tests.support.stack_jobs import job, reach, tasks, until
from tests.support.torch_image import torch_image

pytestmark = [pytest.mark.stack, pytest.mark.docker]

EXAMPLE = Path(__file__).parents[2] / "examples" / "torch"
RANKS = range(4)
PATIENCE_S = 400  # eight processes import PyTorch on a small machine
STEP = re.compile(r"^rank (\d) of 4 step (\d+) loss ([\d.]+)$", re.MULTILINE)
Losses = dict[int, dict[int, dict[int, float]]]  # job attempt -> rank -> step -> loss


@pytest.mark.long
def test_a_killed_rank_costs_an_attempt_and_the_gang_learns_to_the_end(api):
    job_id = _submit(api, torch_image(docker.from_env()))

    _until_learned(api, job_id, attempt=1, steps=10)
    assert {t["attempt"]["node"] for t in tasks(api, job_id)} == {"node-1", "node-2"}
    _kill(api, job_id, rank=2)
    done = reach(api, job_id, {"SUCCEEDED"}, PATIENCE_S)

    assert (done["attempt"], done["retries_used"], done["free_retries"]) == (2, 0, 1)
    _until_learned(api, job_id, attempt=2, steps=60)
    for rank in RANKS:
        losses = _losses(api, job_id)[2][rank]
        assert losses[0] > 10 > 0.01 > losses[59]
    _assert_reported(api, job_id)


def _until_learned(api: httpx.Client, job_id: str, attempt: int, steps: int) -> None:
    """Wait until each rank has logged so many steps. A job that goes another way is shown."""

    def learned() -> bool:
        now = job(api, job_id)
        assert now["attempt"] in (0, attempt), (now, api.get(f"/jobs/{job_id}/attempts").json())
        return all(len(_losses(api, job_id)[attempt][rank]) >= steps for rank in RANKS)

    try:
        until(learned, PATIENCE_S)
    except AssertionError as error:
        said = api.get(f"/jobs/{job_id}/logs", params={"cursor": 0}).json()
        raise AssertionError(f"{error}; {job(api, job_id)}; {said}") from error


def _assert_reported(api: httpx.Client, job_id: str) -> None:
    """Which task failed first, and why the gang was tried again."""
    first = api.get(f"/jobs/{job_id}/attempts").json()["results"][-1]
    assert (first["index"], first["outcome"], first["retry"]) == (1, "FAILED", "free")
    assert first["diagnosis"]["exit_code"] == 137
    assert first["diagnosis"]["rank"] == 2


def _submit(api: httpx.Client, image: str) -> str:
    headers = {"Content-Type": "application/gzip"}
    stored = api.post("/files", content=_archive(), headers=headers)
    assert stored.status_code == 201, stored.text
    text = (EXAMPLE / "job.yaml").read_text()
    text = text.replace("pytorch/pytorch", f'"{image}"').replace("ARCHIVE", stored.json()["sha256"])
    answer = api.post("/jobs", content=text, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        tar.add(EXAMPLE / "train.py", "train.py")
    return buffer.getvalue()


def _kill(api: httpx.Client, job_id: str, rank: int) -> None:
    """From outside, as a node that runs out of memory would."""
    attempt = next(t["attempt"]["id"] for t in tasks(api, job_id) if t["rank"] == rank)
    found = docker.from_env().containers.list(filters={"label": f"skep.attempt={attempt}"})
    assert len(found) == 1
    found[0].kill()


def _losses(api: httpx.Client, job_id: str) -> Losses:
    """As far as the log goes now."""
    texts: dict[str, str] = defaultdict(str)
    cursor = 0
    while True:
        page = api.get(f"/jobs/{job_id}/logs", params={"cursor": cursor, "stream": "stdout"}).json()
        for chunk in page["chunks"]:
            texts[chunk["attempt_id"]] += chunk["text"]
        if not page["chunks"]:
            break
        cursor = page["next"]
    present = {t["attempt"]["id"] for t in tasks(api, job_id) if t["attempt"]}
    number = int(job(api, job_id)["attempt"])
    losses: Losses = defaultdict(lambda: defaultdict(dict))
    for attempt, text in texts.items():
        for rank, step, loss in STEP.findall(text):
            index = number if attempt in present else number - 1
            losses[index][int(rank)][int(step)] = float(loss)
    return losses


def test_the_example_is_a_job_file_as_people_write_it(api):
    # The name is taken by the job above, which a check reports, too.
    text = (EXAMPLE / "job.yaml").read_text().replace("name: linear-regression", "name: unused", 1)
    headers = {"Content-Type": "application/yaml"}
    answer = api.post("/jobs/check", content=text, headers=headers)
    codes: list[Any] = [problem["code"] for problem in answer.json()["errors"]]
    assert codes == ["invalid_value"]  # ARCHIVE stands for the hash of an upload
