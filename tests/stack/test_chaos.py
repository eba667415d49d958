"""A whole Skep is broken again and again, by a seed, and loses nothing: see docs/chaos.md."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# One of each family, without those that wait for the end of a lease.
SHORT = [
    *("kill gateway", "kill scheduler", "kill postgres", "kill agent", "emptied Valkey"),
    *("wiped agent", "cut connections", "silent connections", "doubled agent"),
]

pytestmark = [pytest.mark.stack, pytest.mark.long]


def chaos(tmp_path: Path, *options: str) -> dict:
    """Run it; returns its report. In a process of its own, with mounts of its own."""
    report = tmp_path / "report.json"
    command = [sys.executable, "-m", "chaos", f"--report={report}", "--patience=2", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert report.exists(), said
    found = json.loads(report.read_text())
    assert found["violations"] == [], said
    assert done.returncode == 0, said
    return found


def test_a_short_run_loses_nothing(tmp_path):
    only = [f"--only={name}" for name in SHORT]

    report = chaos(tmp_path, "--seed=1", f"--faults={len(SHORT)}", "--nodes=2", *only)

    assert {outcome["fault"] for outcome in report["outcomes"]} == set(SHORT)
    assert report["jobs"] > 10
    assert report["attempts"] > 20


@pytest.mark.timeout(2400)
def test_a_long_run_with_every_fault_loses_nothing(tmp_path):
    report = chaos(tmp_path, "--seed=2", "--faults=100", "--seconds=1800")

    assert len({outcome["fault"] for outcome in report["outcomes"]}) > 30
