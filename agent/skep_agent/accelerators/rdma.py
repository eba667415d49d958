"""The InfiniBand devices of this node that tasks may be given."""

from __future__ import annotations

import re
import stat
from pathlib import Path

FOLDER = Path("/dev/infiniband")
# uverbsN: verbs of one adapter; rdma_cm: connections by address. Never umadN and issmN, by which
# one manages the whole fabric.
ALLOWED = re.compile(r"uverbs\d{1,4}|rdma_cm")


def rdma_devices() -> tuple[str, ...]:
    """Return the paths of the devices, none where the node has no adapter."""
    try:
        found = [entry for entry in FOLDER.iterdir() if ALLOWED.fullmatch(entry.name)]
        devices = [str(e) for e in found if stat.S_ISCHR(e.stat(follow_symlinks=False).st_mode)]
    except OSError:
        return ()
    return tuple(sorted(devices)) if any("uverbs" in device for device in devices) else ()
