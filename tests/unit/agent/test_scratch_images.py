"""Scratch in files of the agent's own: their space, and what happens when programs are missing."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts
from skep_agent.protocol import AttemptSpec, ImageSpec
from skep_agent.runtimes import scratch_images
from skep_agent.runtimes.scratch_images import MIB, ScratchImages
from skep_agent.shell import scratch
from skep_agent.statedir import Identity

NODE = NodeFacts("cluster", "node-1")
needs_mkfs = pytest.mark.skipif(not shutil.which("mkfs.ext4"), reason="needs mkfs.ext4")


def spec(scratch_mb: int, job: str = "job-1") -> AttemptSpec:
    return AttemptSpec(
        attempt_id="attempt-1",
        epoch=1,
        job_id=job,
        job_name="train",
        task_role="worker",
        task_index=0,
        image=ImageSpec(reference="busybox"),
        command="true",
        cpus=1,
        memory_mb=64,
        scratch_mb=scratch_mb,
    )


@needs_mkfs
def test_31_space_of_scratch_is_its_own_from_the_start(tmp_path: Path):
    images = ScratchImages(tmp_path / "scratch", NODE)
    made = images.make(spec(64))
    found = made.stat()
    assert found.st_blocks * 512 >= 64 * MIB
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert list(made.parent.iterdir()) == [made]
    assert (images.find(spec(64)), images.jobs()) == (made, {"job-1"})


@needs_mkfs
def test_scratch_that_is_there_is_not_made_anew(tmp_path: Path):
    images = ScratchImages(tmp_path, NODE)
    made = images.make(spec(32))
    made.write_bytes(b"of the attempt before")
    assert images.make(spec(32)) == made
    assert made.read_bytes() == b"of the attempt before"
    assert list(tmp_path.iterdir()) == [made]


def test_31_scratch_that_the_disk_has_no_room_for_is_refused_and_leaves_nothing(tmp_path: Path):
    disk = os.statvfs(tmp_path)
    free_mb = disk.f_bavail * disk.f_frsize // MIB
    with pytest.raises(RuntimeFailure, match="no room") as refused:
        ScratchImages(tmp_path, NODE).make(spec(free_mb))
    assert refused.value.code == "disk_full"
    assert list(tmp_path.iterdir()) == []


def test_31_scratch_never_takes_what_the_agent_itself_needs(tmp_path: Path, monkeypatch):
    disk = os.statvfs(tmp_path)
    monkeypatch.setattr(scratch_images, "RESERVE_BYTES", disk.f_blocks * disk.f_frsize)
    monkeypatch.setattr(scratch_images, "RESERVE_PART", 1)
    with pytest.raises(RuntimeFailure, match="no room"):
        ScratchImages(tmp_path, NODE).make(spec(1))


def test_what_an_agent_that_was_killed_had_begun_is_removed(tmp_path: Path):
    (tmp_path / ".0123").write_bytes(b"x")
    (tmp_path / "job-1_a.img").write_bytes(b"x")
    assert ScratchImages(tmp_path, NODE).jobs() == {"job-1"}
    assert [path.name for path in tmp_path.iterdir()] == ["job-1_a.img"]


@pytest.mark.parametrize("program", ["", "#!/nowhere\n", "no program"])
def test_scratch_stays_while_its_use_cannot_be_found_out(tmp_path: Path, monkeypatch, program):
    programs, folder = tmp_path / "bin", tmp_path / "scratch"
    programs.mkdir()
    folder.mkdir()
    if program:
        (programs / "losetup").write_text(program)
        (programs / "losetup").chmod(0o700)
    monkeypatch.setenv("PATH", str(programs))
    (folder / "job-1_a.img").touch()
    images = ScratchImages(folder, NODE)
    images.remove("job-1")
    assert images.jobs() == {"job-1"}


async def test_agent_goes_on_when_its_disk_fails_while_scratch_is_tidied(tmp_path: Path):
    class Broken:
        asked = 0

        async def scratch_jobs(self) -> set[str]:
            self.asked += 1
            raise OSError(errno.EIO, "Input/output error")

        async def remove_scratch(self, jobs: Collection[str]) -> None:
            raise AssertionError

    identity: Any = Identity
    broken: Any = Broken()
    await scratch.tidy(broken, identity)
    assert broken.asked == 1


@needs_mkfs
def test_a_file_system_that_a_crash_damaged_is_mended_before_it_is_mounted(tmp_path: Path):
    image = ScratchImages(tmp_path, NODE).make(spec(32))
    scratch_images.check_image(image)
    whole = image.read_bytes()
    # The bitmaps and the inode table, as of writes that the disk took and lost.
    for request in ("clri <11>", "set_inode_field / links_count 9", "ssv state 2"):
        subprocess.run(["debugfs", "-w", "-R", request, image], check=True, capture_output=True)
    damaged = subprocess.run(["e2fsck", "-n", "-f", image], capture_output=True)
    assert damaged.returncode == 4
    scratch_images.check_image(image)
    assert subprocess.run(["e2fsck", "-n", "-f", image], capture_output=True).returncode == 0
    with image.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RuntimeFailure, match="still being checked"):
            scratch_images.check_image(image)
    image.write_bytes(b"no file system".ljust(len(whole), b"\0"))
    with pytest.raises(RuntimeFailure, match="cannot mend") as caught:
        scratch_images.check_image(image)
    assert caught.value.code == "create_failed"
