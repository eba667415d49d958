"""Guards of the repository's layout: source roots, imports, lock files."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SOURCE_ROOTS = ("platform", "agent", "scheduler", "client", "jobfile", "diagnosis")
NPM_LOCKS = [
    "webui/package-lock.json",
    "charts/package-lock.json",
    "tests/clients/package-lock.json",
]


def test_source_roots_are_not_packages():
    """A `platform/__init__.py` would shadow the standard library's module."""
    assert not [root for root in SOURCE_ROOTS if (ROOT / root / "__init__.py").exists()]
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_each_source_root_holds_one_package():
    for root in SOURCE_ROOTS:
        assert (ROOT / root / f"skep_{root}" / "__init__.py").exists()


def test_the_standard_librarys_platform_wins_from_the_root():
    code = "import platform; print(platform.__file__)"
    command = [sys.executable, "-c", code]
    seen = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == platform.__file__
    assert platform.__file__.startswith(sysconfig.get_paths()["stdlib"])


def test_packages_are_imported_in_one_direction_only():
    command = [Path(sys.executable).with_name("lint-imports")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", NPM_LOCKS)
def test_npm_packages_are_locked_by_hash_and_without_a_registry_host(name):
    packages = json.loads((ROOT / name).read_text())["packages"]
    del packages[""]
    assert packages
    assert not [path for path, entry in packages.items() if "resolved" in entry]
    unlocked = {path for path, entry in packages.items() if "integrity" not in entry}
    assert not [path for path in unlocked if not is_for_other_machines(packages[path])]


def is_for_other_machines(entry):
    """Binaries of development tools for platforms that Skep is not built on: `npm ci` wants them
    in the lock, and not every registry has them to compute their hash from."""
    here = "linux" in entry.get("os", ["linux"]) and {"x64", "arm64"} & set(
        entry.get("cpu", ["x64"])
    )
    return entry.get("dev") and entry.get("optional") and not here


def pins(lock):
    lines = (ROOT / lock).read_text().splitlines()
    return [line for line in lines if line and not line.startswith((" ", "#"))]


@pytest.mark.parametrize("lock", [path.name for path in ROOT.glob("requirements*.lock")])
def test_python_packages_are_locked_to_one_version_each(lock):
    """No registry host either: options such as --index-url are no pins."""
    assert pins(lock)
    assert all(re.match(r"[a-z0-9._-]+==[^ ]+( ; .+)?$", pin) for pin in pins(lock))


@pytest.mark.parametrize("image", ["server", "agent"])
def test_images_hold_the_versions_that_are_tested(image):
    tested = {pin.split(" ")[0] for pin in pins("requirements.lock")}
    assert {pin.split(" ")[0] for pin in pins(f"requirements-{image}.lock")} <= tested


def test_scripts_that_people_run_are_executable():
    for name in ("scripts/bootstrap", "scripts/demo", "scripts/lint", "scripts/test", ".ci/run"):
        assert (ROOT / name).stat().st_mode & 0o111, name
