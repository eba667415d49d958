"""A full disk is told apart from a crowded one."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from skep_agent.runtimes.disk import FULL_BYTES, is_full

pytestmark = pytest.mark.docker


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Small, and of its own."""
    if os.geteuid():
        pytest.skip("needs root")
    folder = tmp_path / "disk"
    folder.mkdir()
    size = f"size={FULL_BYTES + 2 * 1024 * 1024},nr_inodes=20"
    subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_disk_is_full_of_bytes_or_of_files(disk: Path) -> None:
    assert not is_full(str(disk))
    (disk / "big").write_bytes(bytes(4 * 1024 * 1024))
    assert is_full(str(disk))
    (disk / "big").unlink()
    assert not is_full(str(disk))
    for number in range(19):
        (disk / str(number)).touch()
    assert is_full(str(disk))


def test_a_disk_that_cannot_be_seen_is_not_called_full() -> None:
    assert not is_full("/no/such/folder")
    assert not is_full("")
