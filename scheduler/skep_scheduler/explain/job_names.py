"""What the jobs of others are called in a sentence.

Who reads a reason is not known when it is stored, and not every user may see every job.
So details name jobs by their ids only, and the stored sentence names none; whoever shows it
writes it again for its reader, with the names of the jobs which that reader may see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from skep_scheduler.explain import words

Details = Mapping[str, Any]
Names = Mapping[str, str]  # by the id of a job, for one reader

ANOTHER = "another job"


def mentioned(details: Details) -> set[str]:
    """The ids of the jobs that a sentence with these details is about."""
    ids: set[str] = set()
    for key in ("leaving", "victims"):
        if isinstance(listed := details.get(key), list):
            ids.update(listed)
    ids.update(holder["gang"] for holder in details.get("used_by") or ())
    if by := details.get("by"):
        ids.add(by)
    return ids


def jobs(ids: Sequence[str], names: Names, most: int = 3) -> str:
    """Return "bert, gpt and 2 others"; without names "2 jobs", or "another job" for one."""
    known = [names[gang_id] for gang_id in ids if gang_id in names][:most]
    others = len(ids) - len(known)
    if not known:
        return ANOTHER if others == 1 else words.count(others, "job")
    return words.listing([*known, words.count(others, "other")] if others else known)
