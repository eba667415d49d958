"""Many jobs in one request: several job files, or one job file with other parameters each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError, TooMany
from skep_platform.jobs.submission.job_file import read, revised
from skep_platform.jobs.submission.submitting import MAX_TOKEN, submit

MOST_JOBS = 1_000  # of one request
# A limit that the next jobs of the request would exceed as well.
FOR_ALL = {"too_many_submits", "too_many_waiting_jobs", "too_many_jobs_of_user"}


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of one job of a request. `id` and `name` where it was accepted; else `code`,
    `message` and `details` say why not."""

    index: int
    id: UUID | None = None
    name: str = ""
    code: str = ""
    message: str = ""
    details: Mapping[str, Any] | None = None


def submit_all(
    user: User,
    files: Iterable[str],
    *,
    client_token: str = "",
    ignore_storage: bool = False,
) -> Iterator[BatchResult]:
    """Submit each job file; those that are accepted stay so when another one is refused.

    A request that is repeated with the same `client_token` returns the same jobs, and submits
    those that were refused. Once a limit is reached that holds for the jobs behind it, too, they
    are refused with the same code and not read. Raises SkepError `client_token_invalid`."""
    token = client_token and f"{client_token}."
    if len(token) + len(str(MOST_JOBS)) > MAX_TOKEN:
        message = f"An idempotency key of a batch has at most {MAX_TOKEN - 5} characters."
        raise SkepError(message, code="client_token_invalid")
    return _submitted(user, files, token, ignore_storage)


def _submitted(
    user: User, files: Iterable[str], token: str, ignore_storage: bool
) -> Iterator[BatchResult]:
    full: SkepError | None = None
    for index, text in enumerate(files):
        try:
            if full is not None:
                raise full
            own = f"{token}{index}" if token else ""
            job = submit(user, text, client_token=own, ignore_storage=ignore_storage)
        except SkepError as error:
            full = error if isinstance(error, TooMany) and error.code in FOR_ALL else full
            yield BatchResult(index, None, "", error.code, str(error), error.details)
        else:
            yield BatchResult(index, job.pk, job.name)


def sweep(
    user: User, text: str, values: Sequence[Mapping[str, Any]], name: str = "", first: int = 1
) -> Iterator[str]:
    """Return the job file once for each object of `values`, with these values of its `parameters`,
    under `name` (default: its own) with a number from `first` on.

    Raises InvalidJobFile for the file as it is, and SkepError `unknown_parameter` before any of
    them is made."""
    job = read(text, user.pk).job
    asked = {key for one in values for key in one}
    if unknown := sorted(asked - job.parameters.keys()):
        known = ", ".join(sorted(job.parameters)) or "none"
        message = (
            f"The job file has no parameter {unknown[0]} (it has: {known}). Add it with a default "
            "to `parameters`, and use it as <% $parameters.NAME %>."
        )
        raise SkepError(message, code="unknown_parameter", parameters=unknown)
    base = name or job.name
    return (_variant(user, text, f"{base}-{n}", one) for n, one in enumerate(values, first))


def _variant(user: User, text: str, name: str, values: Mapping[str, Any]) -> str:
    changes: list[tuple[tuple[str, ...], Any]] = [(("name",), name)]
    changes += [(("parameters", key), value) for key, value in values.items()]
    return revised(text, changes, user.pk)
