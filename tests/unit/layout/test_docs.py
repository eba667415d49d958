"""What README and docs name is there, and what the settings read is told."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
# Internal: what the one box gives its own processes, and debugging.
UNTOLD = {"SKEP_DEBUG"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_picture_and_page_that_is_linked_exists(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_variable_that_the_server_reads_is_in_the_operations_page() -> None:
    server = ROOT / "platform" / "skep_platform"
    sources = [server / "settings.py", server / "core" / "logs.py"]
    read = {name for path in sources for name in re.findall(r'"(SKEP_[A-Z_]+)"', path.read_text())}
    told = set(re.findall(r"`(SKEP_[A-Z_]+)`", (ROOT / "docs" / "operations.md").read_text()))
    assert read - told - UNTOLD == set()


@pytest.mark.parametrize("script", ["cli-reference", "diagnosis-table", "job-reference"])
def test_a_generated_page_is_what_its_script_writes(script: str) -> None:
    command = [sys.executable, ROOT / "scripts" / script, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
