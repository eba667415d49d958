"""What README and docs name exists, and the settings are documented."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
# Internal: what the one box gives its own processes, and debugging.
UNDOCUMENTED = {"SKEP_DEBUG"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_picture_and_page_that_is_linked_exists(page: Path) -> None:
    targets = LINK.findall(page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_variable_that_the_server_reads_is_in_the_operations_page() -> None:
    server = ROOT / "platform" / "skep_platform"
    sources = [server / "settings.py", server / "core" / "logs.py"]
    read = {name for path in sources for name in re.findall(r'"(SKEP_[A-Z_]+)"', path.read_text())}
    documented = set(re.findall(r"`(SKEP_[A-Z_]+)`", (ROOT / "docs" / "operations.md").read_text()))
    assert read - documented - UNDOCUMENTED == set()


@pytest.mark.parametrize(
    "script", ["audit-actions", "cli-reference", "diagnosis-table", "job-reference"]
)
def test_a_generated_page_is_what_its_script_writes(script: str) -> None:
    command = [sys.executable, ROOT / "scripts" / script, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_page_stands_in_the_navigation() -> None:
    """A page that is left out is not found by readers, and the strict build passes it over."""
    listed = set(re.findall(r": ([a-z0-9_/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages == listed


def test_the_documentation_builds_without_a_warning() -> None:
    command = [Path(sys.executable).with_name("zensical"), "build", "--clean", "--strict"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Placeholders of the pages, such as APP/models.py.
PLACEHOLDER = re.compile(r"[A-Z]{3,}")
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:css|json|md|mjs|py|sh|toml|tsx?|ya?ml))`")
FOLDER = re.compile(r"`((?:[\w.-]+/)+)`")
# Named because it must not exist.
ABSENT = {"platform/__init__.py"}
# Of an agent's state, and of an archive.
NOT_OURS = {"archives/", "masks/"}


@pytest.fixture(scope="module")
def paths() -> set[str]:
    """Every path of the repository, and each of its ends: pages leave out what is plain."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [Path(line) for line in listed.stdout.splitlines()]
    whole = {*files, *(parent for file in files for parent in file.parents)}
    return {"/".join(path.parts[at:]) for path in whole for at in range(len(path.parts))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(page: Path, paths: set[str]) -> None:
    text = page.read_text()
    named = {*FILE.findall(text), *FOLDER.findall(text)} - ABSENT - NOT_OURS
    named = {name for name in named if not PLACEHOLDER.search(name)}
    assert sorted(name for name in named if name.rstrip("/") not in paths) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_section_that_is_linked_exists(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:\s]*)#([^)\s]+)\)", page.read_text())
    assert [link for link in links if link[1] not in _anchors(page.parent / link[0], page)] == []


def test_every_section_that_the_web_ui_links_exists() -> None:
    table = (ROOT / "webui" / "src" / "ui" / "Documentation.tsx").read_text()
    targets = re.findall(r'"([a-z/-]+)\.html(?:#([^"]+))?"', table)
    assert len(targets) > 30
    pages = {name: ROOT / "docs" / f"{name}.md" for name, _ in targets}
    assert [name for name, page in pages.items() if not page.exists()] == []
    missing = [(n, s) for n, s in targets if s and s not in _anchors(pages[n], pages[n])]
    assert missing == []


def _anchors(target: Path, page: Path) -> set[str]:
    text = (page if target.is_dir() else target).read_text()
    titles = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def test_every_command_that_a_page_names_exists() -> None:
    made = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = set(
        re.findall(r"^### `skep ([a-z-]+)", (ROOT / "docs" / "cli.md").read_text(), re.M)
    )
    assert commands
    for page in PAGES:
        text = page.read_text()
        named = re.findall(r"(?:`|^)(make|skep) ([a-z][a-z-]+)", text, re.M)
        known = {"make": made, "skep": commands}
        assert [(page.name, *each) for each in named if each[1] not in known[each[0]]] == []
