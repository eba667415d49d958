"""scripts/house finds what it is for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HOUSE = ROOT / "scripts" / "house"

FILES = {
    "agent/skep_agent/words.py": '"""What the node was told."""\n\nrooms = 1  # nobody hears it\n',
    "agent/skep_agent/api_schema.py": '"""Say it."""\n\nraise ValueError("the room is full")\n',
    "agent/skep_agent/first.py": "from skep_agent import second\n",
    "agent/skep_agent/second.py": "from skep_agent.first import x\n",
    "agent/skep_agent/__init__.py": "",
    # Of a generated module, which is not measured; that makes no circle with the package.
    "client/skep_client/__init__.py": "from skep_client.calls import x\n",
    "client/skep_client/calls.py": "from skep_client import models\n",
    "client/skep_client/models.py": "x = 1\n",
    "scheduler/skep_scheduler/a.py": 'class Gang:\n    def f(self):\n        """By node."""\n',
    "scheduler/skep_scheduler/b.py": 'class Gang:\n    def f(self):\n        """Return it."""\n',
    "scheduler/skep_scheduler/long.py": "x = 1\n" * 501,
    "webui/src/api.ts": "// what the server told us\nconst p: Promise<void> = Promise.resolve();\n",
    "webui/src/View.tsx": "export const V = () => <p>Nobody runs here</p>;\n",
    "docs/jobs.md": "It is told.\n",
    "docs/page.md": "# Rooms\n\nIt tells all.\n",
}
EXPECTED = {
    "banned-words": [
        "agent/skep_agent/api_schema.py:3",
        "agent/skep_agent/words.py:1",
        "agent/skep_agent/words.py:3",
        "agent/skep_agent/words.py:3",
        "docs/jobs.md:1",
        "docs/page.md:1",
        "docs/page.md:3",
        "webui/src/View.tsx:1",
        "webui/src/api.ts:1",
    ],
    "old-names": ["agent/skep_agent/words.py:3"],
    "docstring-fragments": ["scheduler/skep_scheduler/a.py:2"],
    "same-class-names": ["scheduler/skep_scheduler/b.py:1"],
    "import-circles": ["agent/skep_agent/first.py:1", "agent/skep_agent/second.py:1"],
    "single-importers": [
        "agent/skep_agent/first.py:1",
        "agent/skep_agent/second.py:1",
        "client/skep_client/calls.py:1",
    ],
    "long-files": ["scheduler/skep_scheduler/long.py:1"],
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository with one breach of each rule."""
    root = tmp_path_factory.mktemp("checkout")
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


def house(*args: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, HOUSE, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)


@pytest.mark.parametrize("rule", EXPECTED)
def test_each_rule_lists_the_places_that_break_it(checkout: Path, rule: str) -> None:
    done = house("--root", checkout, "--list", rule)
    assert done.returncode == 0, done.stderr
    places = sorted(":".join(row.split(":", 2)[:2]) for row in done.stdout.splitlines())
    assert places == EXPECTED[rule]


def test_a_banned_word_in_a_clean_path_fails_the_check(checkout: Path) -> None:
    done = house("--root", checkout, "--check")
    assert done.returncode == 1
    assert "docs/jobs.md:1: told" in done.stdout
    assert "docs/page.md" not in done.stdout


@pytest.mark.parametrize(
    ("subject", "wrong"),
    [
        ("agent: stop a container whose lease is over", ""),
        ("jobs, docs: accept a description", ""),
        ("Fix things", "area"),
        ("agent: stops a container", "imperative"),
        ("agent: stopped a container", "imperative"),
        ("agent: stop it.", "full stop"),
        ("agent: report what a node was told", "told"),
        ("agent: " + "stop " * 30, "longer"),
    ],
)
def test_the_subject_of_a_commit_names_an_area_and_is_an_imperative(
    tmp_path: Path, subject: str, wrong: str
) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (
        ["init", "-q"],
        ["commit", "-q", "--allow-empty", "-m", "base"],
        ["tag", "92ea2c0"],
        ["commit", "-q", "--allow-empty", "-m", subject],
    ):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    listed = house("--root", tmp_path, "--list", "commit-subjects").stdout
    assert (wrong in listed) if wrong else listed == ""


def test_an_unknown_rule_is_refused_with_the_names_of_the_rules() -> None:
    done = house("--list", "nonsense")
    assert done.returncode == 2
    assert "banned-words" in done.stderr
