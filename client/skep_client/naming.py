"""Jobs by their names, and pages by their addresses."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

from skep_client import models
from skep_client.errors import SkepError
from skep_client.model import Page

MOST_NAMED = 20  # jobs of one name that are looked at


def filters_of(name: str, owner: str = "") -> dict[str, Any]:
    """Return the filters of the jobs of exactly this name; an older server knows only `search`."""
    return {"name": name, "search": name, "owner": owner, "limit": MOST_NAMED}


def the_one(name: str, found: Sequence[models.JobSummary]) -> models.JobSummary:
    """Return the only job of a name. Raises SkepError."""
    if not found:
        raise SkepError(404, "not_found", f"There is no job named {name}.")
    if len(found) > 1:
        owners = ", ".join(f"{job.owner}/{job.name}" for job in found)
        more = ", …" if len(found) == MOST_NAMED else ""
        message = f"Several people have a job {name}; name one: {owners}{more}"
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
