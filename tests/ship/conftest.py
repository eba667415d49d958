"""Helm, for the tests of the chart."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

CHARTS = Path(__file__).resolve().parents[2] / "charts"


@pytest.fixture(scope="session")
def helm() -> str:
    binary = CHARTS / "node_modules" / ".bin" / "helm"
    if not binary.exists():
        subprocess.run(["npm", "ci", "--prefix", str(CHARTS)], check=True)
    return str(binary)
