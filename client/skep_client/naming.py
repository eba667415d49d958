"""Jobs by their names, and pages by their addresses."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from skep_client import models
from skep_client.errors import SkepError
from skep_client.model import Page


def the_one(name: str, found: Sequence[models.JobSummary], me: str) -> models.JobSummary:
    """Return the only job of a name, or that of user `me` among several. Raises SkepError."""
    found = [job for job in found if job.owner == me] or list(found)
    if not found:
        raise SkepError(404, "not_found", f"There is no job named {name}.")
    if len(found) > 1:
        owners = ", ".join(f"{job.owner}/{job.name}" for job in found)
        message = f"Several people have a job {name}; name one: {owners}"
        raise SkepError(400, "ambiguous", message)
    return found[0]


def is_id(text: str) -> bool:
    """Whether the text is the id of a job, and not a name."""
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def next_cursor(page: Page[Any]) -> str | None:
    """Return the cursor inside the next page's address; None on the last page."""
    if page.next is None:
        return None
    return parse_qs(urlsplit(page.next).query)["cursor"][0]
