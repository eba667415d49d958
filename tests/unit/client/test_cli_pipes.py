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
    f"{API}/nodes": {"json": {"results": [], "next": None}},
}
PRINTING = [["--help"], ["ls", "--help"], ["ls"], ["ls", "--json"], ["show", ID], ["logs", ID]]
SIMULATED = ["simulate", "--jobs", "3", "--cluster", "1x8xV100", "--policy", "fifo", "--json"]


def ended(
    tmp_path: Path,
    *words: str,
    stdout: int,
    stderr: int,
    encoding: str = "utf-8",
    term: str = "",
) -> subprocess.CompletedProcess[str]:
    environment = {"SKEP_SERVER": "https://skep.test", "SKEP_TOKEN": "t", "HOME": str(tmp_path)}
    environment |= {"PYTHONIOENCODING": encoding, "TERM": term}
    command = [sys.executable, "-c", PROGRAM, *words, json.dumps(ANSWERS)]
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        text=True,
    )


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


@pytest.fixture
def terminal():
    """Both ends of a terminal: that of its user, and that of a program."""
    ours, theirs = os.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


QUESTIONS = {
    "Username": ["login", "--server", "https://skep.test"],
    "Password": ["login", "--server", "https://skep.test", "--username", "ann"],
    "surely off?": ["nodes", "declare-lost", "node-1"],
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_ctrl_c_at_a_question_ends_as_ctrl_c(question, tmp_path, terminal):
    ours, theirs = terminal
    command = [sys.executable, "-c", PROGRAM, *QUESTIONS[question], json.dumps({})]
    environment = {"HOME": str(tmp_path), "SKEP_SERVER": "https://skep.test", "SKEP_TOKEN": "t"}
    program = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        env=environment | {"PATH": os.environ["PATH"]},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    shown = b""
    while question.encode() not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, b"\x03")
    assert program.wait(60) == exits.INTERRUPTED


def test_top_prints_one_table_at_a_terminal_that_cannot_be_drawn_anew(tmp_path, terminal):
    done = ended(tmp_path, "top", stdout=terminal[1], stderr=terminal[1], term="dumb")
    assert done.returncode == 0
    assert b"GPU MEMORY" in os.read(terminal[0], 100_000)


def test_the_end_of_the_input_at_a_question_is_wrong_use(tmp_path):
    done = ended(tmp_path, "nodes", "declare-lost", "node-1", stdout=-1, stderr=-1)
    assert done.returncode == exits.USAGE
    assert "ended at a question" in done.stderr
