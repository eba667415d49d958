"""How the command line ends when its output is read no further, in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.client.test_cli_jobs import API, ID, JOB

from skep_client import exits

PROGRAM = """
import json, respx, sys
from skep_client.cli import main
answers = json.loads(sys.argv.pop())
with respx.mock:
    for path, answer in answers.items():
        respx.get(path).respond(**answer)
    main()
"""
ANSWERS = {
    f"{API}/jobs": {"json": {"results": [JOB], "next": None}},
    f"{API}/jobs/{ID}": {"json": JOB | {"virtual_cluster": "größe"}},
    f"{API}/jobs/{ID}/logs/download": {"text": "[worker-0] x\n"},
}
PRINTING = [["--help"], ["ls", "--help"], ["ls"], ["ls", "--json"], ["show", ID], ["logs", ID]]
SIMULATED = ["simulate", "--jobs", "3", "--cluster", "1x8xV100", "--policy", "fifo", "--json"]


def ended(
    tmp_path: Path, *words: str, stdout: int, stderr: int, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    environment = {"SKEP_SERVER": "https://skep.test", "SKEP_TOKEN": "t", "HOME": str(tmp_path)}
    environment["PYTHONIOENCODING"] = encoding
    command = [sys.executable, "-c", PROGRAM, *words, json.dumps(ANSWERS)]
    return subprocess.run(command, env=environment, stdout=stdout, stderr=stderr, text=True)


@pytest.fixture
def closed_pipe():
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("words", [*PRINTING, SIMULATED], ids=" ".join)
def test_a_reader_that_has_enough_is_no_failure_of_a_job(words, tmp_path, closed_pipe):
    done = ended(tmp_path, *words, stdout=closed_pipe, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (exits.PIPE, "")


@pytest.mark.parametrize("words", [["ls"], ["ls", "--such"], ["show"]], ids=" ".join)
def test_nor_is_one_of_standard_error_as_well(words, tmp_path, closed_pipe):
    assert ended(tmp_path, *words, stdout=closed_pipe, stderr=closed_pipe).returncode == exits.PIPE


def test_output_that_cannot_be_written_is_an_error(tmp_path):
    with open("/dev/full", "w") as full:
        done = ended(tmp_path, "ls", "--json", stdout=full.fileno(), stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (exits.FAILED, "[Errno 28] No space left on device\n")


def test_a_character_that_the_output_cannot_hold_ends_nothing(tmp_path):
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = ended(tmp_path, "show", ID, **streams, encoding="ascii")
    assert "gr\\xf6\\xdfe" in done.stdout, done.stderr
