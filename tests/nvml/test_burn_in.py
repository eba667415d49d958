"""`skep-agent burn-in` on a GPU that interprets its kernels: a good one, and ones with faults that
it looks for. (NVIDIA's ptxas assembles the kernels for GPUs from Maxwell to Blackwell.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.nvml_machine import compile_fake, uuid

from skep_agent.inventory import Gpu
from skep_agent.shell.checks import check_gpu

COMMAND = [sys.executable, "-m", "skep_agent", "burn-in", "--seconds", "0"]


@pytest.fixture(scope="module")
def driver(fake_library: Path) -> Path:
    return compile_fake(fake_library, "libcuda.so.1", "cuda_fake.c")


def burn_in(driver: Path, fake: str = "") -> tuple[int, str]:
    """Return the exit code and all output."""
    env = {**os.environ, "LD_LIBRARY_PATH": str(driver), "FAKE_CUDA": fake}
    ended = subprocess.run(COMMAND, env=env, capture_output=True, text=True)
    return ended.returncode, (ended.stdout + ended.stderr).strip()


def test_a_good_gpu_passes_with_what_was_tried(driver: Path) -> None:
    code, said = burn_in(driver)
    assert code == 0
    assert said.startswith("Fake GPU: no error in 75 % of ")


@pytest.mark.parametrize(
    ("fake", "said"),
    [
        ("stuck=2000000:3", "were not as written (pattern zeros), the first one "),
        ("alias=17", "were not as written (pattern addresses), the first one "),
        ("slip=5", "256 of 2048 threads computed another value than the others, the first one in "),
        ("wrong=1", "1024 of 1024 known values were computed wrongly."),
        ("transfer=1", "2097152 bytes came back changed from a copy to it."),
        ("launch=214", "uncorrectable ECC error encountered (code 214)"),
        ("held=3", "No memory of it is free: another process holds it."),
    ],
    ids=lambda value: value.partition("=")[0],
)
def test_a_bad_gpu_fails_with_what_is_wrong(driver: Path, fake: str, said: str) -> None:
    code, output = burn_in(driver, fake)
    assert code == 1
    assert said in output


def test_a_machine_without_a_gpu_is_not_said_to_have_a_bad_one(driver: Path) -> None:
    assert burn_in(driver, "gpus=0")[0] == 2
    code, said = burn_in(Path("/nonexistent"))
    assert code == 2
    assert "libcuda.so.1 of the GPU driver cannot be loaded" in said


async def test_a_check_of_a_node_with_it_says_what_is_wrong(
    driver: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(driver))
    gpu = Gpu(index=0, uuid=uuid(0), model="Fake GPU", memory_mb=4)
    assert (await check_gpu(gpu, 0, COMMAND)).passed
    monkeypatch.setenv("FAKE_CUDA", "alias=17")
    result = await check_gpu(gpu, 0, COMMAND)
    assert not result.passed
    assert "pattern addresses" in result.message
