"""The unit of systemd that the documentation gives for an agent, and for one box."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent


def unit() -> str:
    [text] = re.findall(r"```ini\n(.*?)```", (ROOT / "docs/operations.md").read_text(), re.DOTALL)
    return text.replace("/opt/skep/bin", str(BIN))


def test_systemd_accepts_the_unit(tmp_path):
    file = tmp_path / "skep-agent.service"
    file.write_text(unit())
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stop_leaves_the_watchdog_and_the_engine_alone():
    """By default systemd kills every process of the unit, and with the watchdog the one that ends
    tasks of a node whose lease is over."""
    assert "KillMode=process" in unit().splitlines()
    assert not re.search(r"^(Requires|BindsTo|PartOf)=", unit(), re.MULTILINE)
