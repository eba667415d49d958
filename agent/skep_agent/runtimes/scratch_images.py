"""Scratch of a limited size where the engine's file system has no project quotas.

Each is an ext4 file system in a sparse file of the agent's own, mounted by a loop device as
storages are: the agent mounts it, the engine passes the mount on, and the kernel lets go of the
device when the container ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts, scratch_volume
from skep_agent.isolation.files import Owner
from skep_agent.protocol import AttemptSpec

MIB = 1024 * 1024
# What the file system itself takes, so that a task has the size that it asked for.
JOURNAL_MB, OVERHEAD_MB, OVERHEAD_PART = 8, 24, 64
BYTES_PER_INODE = 64 * 1024
PROGRAM_S = 300.0
LOOP_CONTROL = Path("/dev/loop-control")
SUFFIX = ".img"


class ScratchImages:
    """The files of one node, in `folder`; None has none and makes none."""

    def __init__(self, folder: Path | None, node: NodeFacts) -> None:
        self._folder = folder
        self._node = node

    @property
    def available(self) -> bool:
        """Whether this agent can make and mount them."""
        programs = all(shutil.which(name) for name in ("mkfs.ext4", "mount", "losetup"))
        return self._folder is not None and not os.geteuid() and LOOP_CONTROL.exists() and programs

    def find(self, spec: AttemptSpec) -> Path | None:
        """Return the file of a task's scratch, if there is one."""
        path = self._path(spec)
        return path if path is not None and path.exists() else None

    def make(self, spec: AttemptSpec) -> Path:
        """Make the file of a task's scratch. Raises RuntimeFailure "create_failed"."""
        path = self._path(spec)
        if path is None:
            raise RuntimeFailure("create_failed", "This agent has no folder for scratch.")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = path.with_name(f".{uuid.uuid4().hex}")
        try:
            with open(made, "xb") as file:
                os.fchmod(file.fileno(), 0o600)
                size_mb = spec.scratch_mb + spec.scratch_mb // OVERHEAD_PART + OVERHEAD_MB
                file.truncate(size_mb * MIB)
            _run(
                *("mkfs.ext4", "-q", "-F", "-m", "0", "-i", str(BYTES_PER_INODE)),
                *("-J", f"size={JOURNAL_MB}", "-E", "lazy_itable_init=1,lazy_journal_init=1"),
                str(made),
            )
            made.rename(path)
        except OSError as error:
            raise RuntimeFailure("create_failed", f"Scratch: {error.strerror}.") from None
        finally:
            made.unlink(missing_ok=True)
        return path

    def jobs(self) -> set[str]:
        """Return the ids of the jobs that have such scratch on this node."""
        return {path.name.split("_", 1)[0] for path in self._files()}

    def remove(self, job: str) -> None:
        """Remove the scratch of a job. What a container still uses stays for now."""
        for path in self._files():
            if path.name.split("_", 1)[0] == job and not _in_use(path):
                path.unlink(missing_ok=True)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*_*{SUFFIX}")) if self._folder else []

    def _path(self, spec: AttemptSpec) -> Path | None:
        name = f"{spec.job_id}_{scratch_volume(spec, self._node)}{SUFFIX}"
        return self._folder / name if self._folder else None


def mount_image(image: Path, point: Path, owner: Owner) -> None:
    """Mount a file of a task's scratch, whose folder is its user's. Raises RuntimeFailure
    "create_failed"."""
    _run("mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", str(image), str(point))
    with suppress(OSError):  # made by mkfs, of no use to a task
        os.rmdir(point / "lost+found")
    if os.stat(point).st_uid != owner.uid:
        os.chown(point, owner.uid, owner.gid)


def _in_use(image: Path) -> bool:
    found = subprocess.run(
        ["losetup", "--associated", str(image)], capture_output=True, check=False, timeout=PROGRAM_S
    )
    return bool(found.stdout.strip()) or found.returncode != 0


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=PROGRAM_S)
    except subprocess.TimeoutExpired:
        message = f"Scratch: {command[0]} did not end within {PROGRAM_S:.0f} s."
        raise RuntimeFailure("create_failed", message) from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise RuntimeFailure("create_failed", f"Scratch: {command[0]}: {lines[-1][:200]}")
