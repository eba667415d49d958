"""Where something is mounted in a container: what an image that is saved of it leaves out.

For each mount point that its image lacks, a runtime makes an empty file or folder in the container:
for storages, and for the libraries, programs and devices of a GPU's driver, which nvidia's runtime
mounts from the node. With them in an image, the driver of another node may find its names taken.
"""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any

from skep_agent.runtimes.processes import PROC, sees_host

MAX_BYTES = 4 * 1024**2
_MOUNT_POINT = 4  # the field of a line of mountinfo
_ESCAPED = re.compile(r"\\([0-7]{3})")


def of_container(found: dict[str, Any]) -> frozenset[str]:
    """Return the mount points of a running container, as the engine describes it, without their
    leading slash. What a GPU runtime mounted the kernel alone knows: an agent that does not see the
    processes of the host does not see it."""
    known = {str(mount.get("Destination", "")) for mount in found.get("Mounts") or ()}
    pid = found["State"].get("Pid") or 0
    if sees_host(found["Id"], pid):
        try:
            with (PROC / str(pid) / "mountinfo").open("rb") as file:
                known |= points_in(file.read(MAX_BYTES).decode("utf-8", "surrogateescape"))
        except OSError:  # it has ended
            pass
    return frozenset({path.strip("/") for path in known} - {""})


def points_in(mountinfo: str) -> set[str]:
    """Return the mount points of a text as /proc/PID/mountinfo has it."""
    rows = [line.split(" ") for line in mountinfo.splitlines()]
    return {
        _ESCAPED.sub(lambda code: chr(int(code[1], 8)), row[_MOUNT_POINT])
        for row in rows
        if len(row) > _MOUNT_POINT
    }


def folders_of(points: frozenset[str]) -> frozenset[str]:
    """Return all folders in which mount points lie."""
    return frozenset({str(folder) for path in points for folder in PurePosixPath(path).parents})


def libraries_in(points: frozenset[str]) -> frozenset[str]:
    """Return the libraries among them without their versions: "usr/lib/libcuda.so"."""
    return frozenset({found for path in points if (found := library_of(path))})


def library_of(path: str) -> str:
    """Return the path of a shared library up to its ".so"; "" for what is none."""
    stem, dot, _ = path.rpartition("/")[2].partition(".so")
    return f"{path[: len(path) - len(path.rpartition('/')[2])]}{stem}.so" if dot and stem else ""
