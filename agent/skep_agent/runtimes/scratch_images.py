"""Scratch of a limited size where the engine's file system has no project quotas.

Each is an ext4 file system in a file of the agent's own, mounted by a loop device as storages are:
the agent mounts it, the engine passes the mount on, and the kernel lets go of the device when the
container ends. The file takes its whole size from the start: a disk that filled up later would be
an I/O error in the task. Only a job that asks for scratch, by its size, has any, so nothing is
reserved that was not asked for.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import uuid
from contextlib import suppress
from pathlib import Path

import structlog

from skep_agent.containers import RuntimeFailure
from skep_agent.isolation.create import NodeFacts, scratch_volume
from skep_agent.isolation.files import Owner
from skep_agent.protocol import AttemptSpec

MIB = 1024 * 1024
# What the file system itself takes, so that a task has the size that it asked for.
JOURNAL_MB, OVERHEAD_MB, OVERHEAD_PART = 8, 24, 64
BYTES_PER_INODE = 64 * 1024
# What stays free for the agent itself, on the disk of its state: the lesser of the two.
RESERVE_BYTES, RESERVE_PART = 1024 * MIB, 50
PROGRAM_S = 300.0
CHECK_S = 1800.0  # of terabytes with many files
FIXED = 2  # the highest code of e2fsck for a file system without errors
LOOP_CONTROL = Path("/dev/loop-control")
SUFFIX = ".img"

log = structlog.get_logger(__name__)


class ScratchImages:
    """The files of one node, in `folder`; None has none and makes none."""

    def __init__(self, folder: Path | None, node: NodeFacts) -> None:
        self._folder = folder
        self._node = node
        for left in folder.glob(".*") if folder else ():  # by an agent that was killed
            _unlink(left)

    @property
    def available(self) -> bool:
        """Whether this agent can make and mount them."""
        programs = all(shutil.which(name) for name in ("mkfs.ext4", "e2fsck", "mount", "losetup"))
        return self._folder is not None and not os.geteuid() and LOOP_CONTROL.exists() and programs

    def find(self, spec: AttemptSpec) -> Path | None:
        """Return the file of a task's scratch, if there is one."""
        path = self._path(spec)
        return path if path is not None and path.exists() else None

    def make(self, spec: AttemptSpec) -> Path:
        """Make the file of a task's scratch, unless it is there. Raises RuntimeFailure
        "create_failed", and "disk_full" where the disk has no space for all of it."""
        path = self._path(spec)
        if path is None:
            raise RuntimeFailure("create_failed", "This agent has no folder for scratch.")
        made = path.with_name(f".{uuid.uuid4().hex}")
        size_mb = spec.scratch_mb + spec.scratch_mb // OVERHEAD_PART + OVERHEAD_MB
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _reserve(made, size_mb * MIB)
            options = "nodiscard,lazy_itable_init=1,lazy_journal_init=1"  # else it gives space back
            _run(
                *("mkfs.ext4", "-q", "-F", "-m", "0", "-i", str(BYTES_PER_INODE)),
                *("-J", f"size={JOURNAL_MB}", "-E", options, str(made)),
            )
            _publish(made, path)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                message = f"The node's disk has no room for {spec.scratch_mb} MiB of scratch."
                raise RuntimeFailure("disk_full", message) from None
            raise RuntimeFailure("create_failed", f"Scratch: {error.strerror}.") from None
        finally:
            _unlink(made)
        return path

    def jobs(self) -> set[str]:
        """Return the ids of the jobs that have such scratch on this node."""
        return {path.name.split("_", 1)[0] for path in self._files()}

    def remove(self, job: str) -> None:
        """Remove the scratch of a job. What a container still uses stays for now."""
        for path in self._files():
            if path.name.split("_", 1)[0] == job and not _in_use(path):
                _unlink(path)

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"*_*{SUFFIX}")) if self._folder else []

    def _path(self, spec: AttemptSpec) -> Path | None:
        name = f"{spec.job_id}_{scratch_volume(spec, self._node)}{SUFFIX}"
        return self._folder / name if self._folder else None


def mount_image(image: Path, point: Path, owner: Owner) -> None:
    """Mount a file of a task's scratch, whose folder is its user's. Raises RuntimeFailure
    "create_failed"."""
    check_image(image)
    _run("mount", "-t", "ext4", "-o", "loop,nosuid,nodev,noatime", str(image), str(point))
    with suppress(OSError):  # made by mkfs, of no use to a task
        os.rmdir(point / "lost+found")
    if os.stat(point).st_uid != owner.uid:
        os.chown(point, owner.uid, owner.gid)


def check_image(image: Path) -> None:
    """Mend a file system that a machine left as it crashed, unless a container uses it: replaying
    its journal, as mounting does, is not all where the disk lost what it had taken. Raises
    RuntimeFailure "create_failed" for one that cannot be mended."""
    if _in_use(image):
        return
    with open(image, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "The task's scratch is still being checked after a crash of the machine."
            raise RuntimeFailure("create_failed", message) from None
        _mend(image, file.fileno())


def _mend(image: Path, lock: int) -> None:
    # What is clean is not read. -p mends what needs no decision; -y decides, as an operator would:
    # what lost its name is in lost+found.
    if _checked(image, "-p", lock) <= FIXED:
        return
    log.warning("scratch_damaged", file=image.name)
    if _checked(image, "-y", lock) > FIXED:
        raise RuntimeFailure(
            "create_failed", "The task's scratch is damaged, and e2fsck cannot mend it."
        )


def _checked(image: Path, how: str, lock: int) -> int:
    """Return the exit code of e2fsck(8), which shares the lock: two at once would destroy what they
    mend, and one may outlive the agent."""
    command = ["e2fsck", how, str(image)]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=CHECK_S,
            pass_fds=(lock,),
        )
    except (OSError, subprocess.SubprocessError) as error:
        message = f"The task's scratch cannot be checked: {str(error)[:200]}"
        raise RuntimeFailure("create_failed", message) from None
    return done.returncode


def _reserve(made: Path, size: int) -> None:
    """Make a file that has its space on the disk. Raises OSError."""
    disk = os.statvfs(made.parent)
    kept = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // RESERVE_PART)
    if size + kept > disk.f_bavail * disk.f_frsize:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with open(made, "xb") as file:
        os.fchmod(file.fileno(), 0o600)
        os.posix_fallocate(file.fileno(), 0, size)


def _publish(made: Path, path: Path) -> None:
    """Give a whole file its name; one that has the name already stays. Raises OSError."""
    with open(made, "rb") as file:
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        os.link(made, path)


def _unlink(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        log.warning("scratch_not_removed", file=path.name, problem=str(error))


def _in_use(image: Path) -> bool:
    """Return whether a container may use it: also when that cannot be found out."""
    command = ["losetup", "--associated", str(image)]
    try:
        found = subprocess.run(command, capture_output=True, check=False, timeout=PROGRAM_S)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("scratch_use_not_known", file=image.name, problem=str(error)[:300])
        return True
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
