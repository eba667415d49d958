"""All reads of archives: each exists only for those who uploaded it."""

from __future__ import annotations

from typing import Any

from skep_platform.core.errors import NotFound
from skep_platform.files.models import Archive


def find(user: Any, sha256: str) -> Archive:
    """Raises NotFound, also when somebody else uploaded the same."""
    archive = Archive.objects.filter(owner=user, sha256=sha256).first()
    if archive is None:
        raise NotFound("You have uploaded no such archive.")
    return archive
