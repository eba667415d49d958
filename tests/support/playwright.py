"""Runs a scenario of `tests/browser/scenarios` in Chromium."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support import components

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "test-results" / "browser"
COMMAND = (
    "node",
    str(ROOT / "webui/node_modules/@playwright/test/cli.js"),
    *("test", "--config", str(ROOT / "tests/browser/playwright.config.mjs")),
)


def play(scenario: str, **environment: str) -> str:
    """Return the report of a scenario that failed; empty for one that passed."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    given = {"SKEP_SHOTS": str(SHOTS), "CHROMIUM": components.chromium()}
    done = subprocess.run(
        [*COMMAND, f"/{scenario}.spec.mjs"],
        env={**os.environ, **given, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    if os.environ.get("SKEP_SHOW"):
        print(done.stdout)
    return f"{scenario}: {done.stdout}{done.stderr}; see {SHOTS}" if done.returncode else ""
