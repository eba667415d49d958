"""How full the disk is that holds the containers."""

from __future__ import annotations

import os

FULL_BYTES = 64 * 1024 * 1024  # less room than this is none


def space_mb(folder: str) -> tuple[int, int] | None:
    """Free and total MiB; None where the folder cannot be seen from here. May hang as the disk
    does: not to be called on the event loop."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize >> 20, disk.f_blocks * disk.f_frsize >> 20


def is_full(folder: str) -> bool:
    """Of bytes or of inodes. False where the folder cannot be seen from here."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_BYTES or (disk.f_files > 0 and disk.f_favail == 0)
