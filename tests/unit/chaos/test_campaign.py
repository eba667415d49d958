"""What a chaos run draws, and what it counts as a violation."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest
from chaos import clocks
from chaos.campaign import Outcome, Report
from chaos.checks import goes_back
from chaos.faults import FAULTS, drawn
from chaos.workload import KINDS, Draw, Job

WHOLE = SimpleNamespace(disks={"data": "/somewhere"})


def names(seed: str, number: int, only: list[str] | None = None) -> list[str]:
    return [f.name for f in drawn(random.Random(seed), WHOLE, number, only or [])]


def test_a_seed_draws_the_same_faults_each_time():
    assert names("7", 60) == names("7", 60)
    assert names("7", 60) != names("8", 60)


def test_a_long_run_has_every_fault_and_first_each_of_them_once():
    first = names("1", len(FAULTS))

    assert sorted(first) == sorted(fault.name for fault in FAULTS)
    assert len(names("1", 500)) == 500


def test_a_run_may_be_of_chosen_faults_alone():
    assert set(names("1", 20, ["kill web", "kill agent"])) == {"kill web", "kill agent"}


def test_a_machine_without_small_disks_fills_none():
    bare = SimpleNamespace(disks={})

    assert not [f for f in drawn(random.Random(1), bare, 200, []) if "disk" in f.name]


@pytest.mark.parametrize("kind", [kind for _, kind in KINDS])
def test_a_seed_draws_the_same_jobs_each_time(kind):
    def one() -> Job:
        upstream = Job("single", {}, {"SUCCEEDED"}, id="1")
        return kind(Draw(random.Random(3), gpus_per_node=4, earlier=[upstream]))

    assert one() == one()
    assert one().expected


@pytest.mark.parametrize(
    ("kind", "before", "after", "back"),
    [
        ("jobs_job", "WAITING", "RUNNING", False),
        ("jobs_job", "RUNNING", "WAITING", False),
        ("jobs_job", "RUNNING", "SUCCEEDED", False),
        ("jobs_job", "STOPPING", "RUNNING", True),
        ("jobs_job", "SUCCEEDED", "FAILED", True),
        ("jobs_job", "STOPPED", "WAITING", True),
        ("jobs_taskattempt", "ASSIGNED", "LOST", False),
        ("jobs_taskattempt", "RUNNING", "PREPARING", True),
        ("jobs_taskattempt", "LOST", "SUCCEEDED", True),
    ],
)
def test_states_go_forward(kind, before, after, back):
    assert goes_back(kind, before, after) is back


def test_the_table_has_count_median_and_maximum_of_each_fault():
    outcomes = [Outcome("kill web", t) for t in (1.0, 2.0, 6.0)] + [Outcome("cut", 0.5)]

    table = Report(1, outcomes).table().splitlines()

    assert table[2:] == [
        "| cut | 1 | 0.5 | 0.5 |",
        "| kill web | 3 | 2.0 | 6.0 |",
        "| **all** | 4 | 1.5 | 6.0 |",
    ]


@pytest.mark.skipif(clocks.library() is None, reason="no C compiler")
def test_the_wall_clock_of_a_process_jumps_and_its_monotonic_clock_does_not(tmp_path):
    clock = tmp_path / "clock"
    environment = {**os.environ, **clocks.environment(clock)}
    clocks.set_offset(clock, 7200)
    code = "import time; print(time.time(), time.monotonic())"

    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)

    wall, monotonic = map(float, said.split())
    assert 7000 < wall - time.time() < 7400
    assert abs(monotonic - time.monotonic()) < 200
