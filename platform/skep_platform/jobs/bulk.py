"""The same change to several jobs, one after the other: those that work stay done when another one
is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from skep_platform.accounts.models import User
from skep_platform.core.failures import refusal_of_one
from skep_platform.jobs import queries, services
from skep_platform.jobs.lifecycle.stopping import lock_found

MOST_JOBS = 100  # of one request


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of one job. `code` and `message`: why it was refused; empty: it was done."""

    id: UUID
    done: bool
    code: str = ""
    message: str = ""


def stop(user: User, job_ids: Iterable[UUID]) -> list[BulkResult]:
    """Stop jobs; stopping an ended one changes nothing."""
    return _each(job_ids, lambda job_id: services.stop(user, job_id))


def change_tags(
    user: User, job_ids: Iterable[UUID], add: Sequence[str], remove: Sequence[str]
) -> list[BulkResult]:
    """Add tags to jobs and remove others; the rest of their tags stay."""
    return _each(job_ids, lambda job_id: change_job_tags(user, job_id, add, remove))


def _each(job_ids: Iterable[UUID], change: Callable[[UUID], object]) -> list[BulkResult]:
    results = []
    for job_id in dict.fromkeys(job_ids):
        try:
            change(job_id)
        except Exception as error:
            refused = refusal_of_one(error, job_id=str(job_id))
            results.append(BulkResult(job_id, False, refused.code, str(refused)))
        else:
            results.append(BulkResult(job_id, True))
    return results


@transaction.atomic
def change_job_tags(user: User, job_id: UUID, add: Sequence[str], remove: Sequence[str]) -> None:
    """Add tags to a job and remove others. Raises what `services.set_tags` does."""
    job = queries.find(user, job_id)
    lock_found(user, job)
    job.refresh_from_db(fields=["tags"])
    wanted = [tag for tag in dict.fromkeys([*job.tags, *add]) if tag not in remove]
    services.set_tags(user, job_id, wanted)
