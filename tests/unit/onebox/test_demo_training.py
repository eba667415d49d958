"""The demo's training program really trains over sockets, and fails when it should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.ports import free_port

TRAIN = Path(__file__).parents[3] / "examples/demo/train.py"


def start(rank: int, world: int, port: int, **more: str) -> subprocess.Popen[str]:
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "PAI_JOB_NAME": "eve~demo",
        "PAI_TASK_ROLE_LIST": "worker",
        "PAI_TASK_ROLE_TASK_COUNT_worker": str(world),
        "PAI_CURRENT_TASK_ROLE_NAME": "worker",
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": str(rank),
        f"PAI_HOST_IP_worker_{rank}": "127.0.0.1",
        **more,
    }
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, TRAIN], env=env, stdout=pipe, stderr=pipe, text=True)


def finish(*ranks: subprocess.Popen[str]) -> list[tuple[int, str]]:
    said = [rank.communicate(timeout=180) for rank in ranks]
    return [(rank.returncode, out + err) for rank, (out, err) in zip(ranks, said, strict=True)]


@pytest.mark.parametrize("world", [1, 3])
def test_every_rank_converges(world):
    port = free_port()
    ranks = [start(rank, world, port) for rank in reversed(range(world))]  # rank 0 comes last
    for status, said in finish(*ranks):
        assert status == 0, said
        assert said.endswith("converged\n")


def test_too_little_training_is_a_failure():
    ((status, said),) = finish(start(0, 1, free_port(), EPOCHS="0"))
    assert status == 1
    assert "did not converge" in said


def test_a_rank_that_dies_takes_the_others_down():
    port = free_port()
    first, second = start(0, 2, port, EPOCHS="100000"), start(1, 2, port, EPOCHS="100000")
    assert first.stdout is not None
    while "epoch" not in first.stdout.readline():
        pass
    second.kill()
    (status, said), _ = finish(first, second)
    assert status != 0
    assert "a rank went away" in said or "reset" in said.lower()


def test_contradicting_variables_are_noticed():
    ((status, said),) = finish(start(0, 1, free_port(), PAI_TASK_ROLE_TASK_COUNT_worker="2"))
    assert status != 0, said
