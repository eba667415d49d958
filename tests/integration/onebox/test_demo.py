"""The whole path, as `make demo` walks it: submit, schedule, two agents, Docker, the last line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.stack import environment_of, stack

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.stack, pytest.mark.docker]


def test_a_gang_over_two_nodes_trains_to_success_and_its_log_is_shown():
    with stack("--nodes", "2", "--gpus", "8") as box:
        done = subprocess.run(
            [ROOT / "scripts/demo"],
            env={
                **environment_of(box.home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            },
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with box.client() as skep:
            (job,) = skep.jobs()
            tasks = list(skep.tasks(job.id))
            nodes = list(skep.nodes())
    lines = done.stdout.splitlines()
    for rank in range(4):
        own = [line for line in lines if line.startswith(f"worker-{rank} | ")]
        assert own[-1].endswith("converged")
        assert sum("epoch" in line for line in own) == 25
    assert job.state == "SUCCEEDED"
    assert f"{box.url}/jobs/{job.id}" in done.stderr
    gpus = [gpu for task in tasks for gpu in task.attempt.gpu_uuids]
    assert len(set(gpus)) == len(gpus) == 16
    assert {task.attempt.node for task in tasks} == {"node-1", "node-2"}
    assert not any(gpu.used_by for node in nodes for gpu in node.gpus)
