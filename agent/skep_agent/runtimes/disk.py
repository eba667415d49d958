"""Whether the disk that holds the containers is full."""

from __future__ import annotations

import os

FULL_BYTES = 64 * 1024 * 1024  # less room than this is none


def is_full(folder: str) -> bool:
    """Of bytes or of inodes. False where the folder cannot be seen from here."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < FULL_BYTES or (disk.f_files > 0 and disk.f_favail == 0)
