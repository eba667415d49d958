"""What one reader may know of other people's jobs, in reasons and events.

What is stored names nobody else: it has the ids of jobs in its details, and sentences that say
"another job". The names are put in here, for a reader who may see those jobs; the ids of the others
are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skep_platform.core.models import Event
from skep_platform.jobs import queries
from skep_platform.jobs.life import stories
from skep_platform.jobs.life.stories import Reason
from skep_platform.jobs.models import Job
from skep_platform.tenancy.queries import AnyUser
from skep_scheduler.queue import sentences
from skep_scheduler.queue.names import mentioned

Names = Mapping[str, str]
# Of a job's row: reasons that may be about other jobs.
REASONS = ("wait_reason", "downgraded", "exit_reason")
# What older rows have beside or instead of ids.
OLDER = ("name", "by_name", "virtual_cluster", "named")


def jobs_for_reader(user: AnyUser, jobs: Sequence[Job]) -> Sequence[Job]:
    """The same jobs, with the reasons in their rows as this reader may know them; one query, and
    only where other jobs are meant. The rows are to be shown, not saved."""
    told = [reason for job in jobs for name in REASONS if (reason := getattr(job, name))]
    names = _names(user, (reason["details"] for reason in told))
    for job in jobs:
        for name in REASONS:
            setattr(job, name, _reason(getattr(job, name), names))
    return jobs


def reasons_for_reader(user: AnyUser, reasons: Sequence[Reason | None]) -> list[Reason | None]:
    """The reasons, which may be missing, as this reader may know them."""
    names = _names(user, (reason["details"] for reason in reasons if reason))
    return [_reason(reason, names) for reason in reasons]


def for_reader(user: AnyUser, events: Sequence[Event]) -> list[Event]:
    """The events of a job as this reader may know them. Nothing is stored."""
    names = _names(user, (event.data for event in events))
    for event in events:
        event.message = _message("", event.message, event.data, names)
        event.data = _details(event.data, names)
    return list(events)


def _names(user: AnyUser, details: Iterable[Mapping[str, Any]]) -> Names:
    return queries.names_for(user, {pk for one in details for pk in _jobs(one)})


def _jobs(details: Mapping[str, Any]) -> set[str]:
    """The ids of the jobs in it; `by` is a user where a person stopped the job."""
    return {pk for pk in mentioned(details) if UUID_TEXT.fullmatch(pk)}


UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _reason(reason: Reason | None, names: Names) -> Reason | None:
    if reason is None or not _jobs(reason["details"]):
        return reason
    details = reason["details"]
    message = _message(reason["code"], reason["message"], details, names)
    return {**reason, "message": message, "details": _details(details, names)}


def _message(code: str, message: str, details: Mapping[str, Any], names: Names) -> str:
    if "told_at" in details and "needs" in details:  # the scheduler's: why it waits
        return sentences.sentence(code, details, names)
    return stories.naming(message, details, names)


def _details(details: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """Ids and names of those jobs only that the reader may see."""
    ids = _jobs(details)
    if not ids:
        return dict(details)
    told = {key: value for key, value in details.items() if key not in OLDER}
    if "used_by" in details:
        told["used_by"] = [_holder(holder, names) for holder in details["used_by"]]
    for key in ("leaving", "victims"):
        if isinstance(details.get(key), list):
            told[key] = [names.get(pk) for pk in details[key]]
    if (by := details.get("by")) in ids:
        del told["by"]
        if by in names:
            told |= {"by": by, "by_name": names[by]}
    return told


def _holder(holder: Mapping[str, Any], names: Names) -> dict[str, Any]:
    gang = holder["gang"] if holder["gang"] in names else None
    return {**holder, "gang": gang, "name": names.get(holder["gang"])}
