"""Every job of docs/cookbook.md runs here as it stands there, but for its image."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import docker
import pytest
from tests.support.stack_jobs import log_lines, reach
from tests.support.torch_image import torch_image

pytestmark = [pytest.mark.stack, pytest.mark.docker]

PAGE = Path(__file__).parents[2] / "docs" / "cookbook.md"
RECIPES = dict(
    re.findall(
        r"^## \d+\. (.+?)$.*?^```yaml\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
)
SERVES = "An interactive session"  # runs until it is stopped
# By recipe: what its tasks say, by rank; a recipe that is not listed only has to end well.
SAID = {
    "All GPUs of one node": {0: "the ranks sum up to 6"},
    "Several nodes": {0: "we are 4", 1: "we are 4"},
    "A sweep": {0: "trial 0 takes learning rate 1.0", 5: "trial 5 takes learning rate 1e-05"},
    "Parameters instead of copies": {0: "epochs 3, rates 0.1 and 0.01"},
    "A secret token": {
        0: "21 characters|the log shows \\*{21}",
    },
    "Retry from a checkpoint": {0: "attempt 2|from the newest checkpoint to the end"},
    "Parameter servers and workers": {
        1: "worker 0 reached the server",
        2: "worker 1 reached the server",
    },
}


@pytest.fixture(scope="session")
def torch() -> str:
    return torch_image(docker.from_env())


def test_the_cookbook_has_ten_recipes():
    assert len(RECIPES) == 10
    assert set(SAID) | {SERVES} <= set(RECIPES)


@pytest.mark.long
@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != SERVES])
def test_a_recipe_runs_to_its_end(api, torch, recipe):
    job_id = _submit(api, recipe, torch)

    reach(api, job_id, {"SUCCEEDED"})

    lines = log_lines(api, job_id)
    for rank, said in SAID.get(recipe, {}).items():
        for pattern in said.split("|"):
            assert any(re.fullmatch(pattern, line) for line in lines[rank]), (pattern, lines)


@pytest.mark.long
def test_a_place_to_work_in_runs_until_it_is_stopped(api, torch):
    job_id = _submit(api, SERVES, torch)
    running = reach(api, job_id, {"RUNNING"})
    assert running["ends_at"] is not None

    assert api.post(f"/jobs/{job_id}/stop").status_code == 202
    reach(api, job_id, {"STOPPED"})


def _submit(api: Any, recipe: str, image: str) -> str:
    text = RECIPES[recipe].replace("uri: pytorch/pytorch", f'uri: "{image}"')
    assert image in text
    answer = api.post("/jobs", content=text, headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])
