"""Many jobs in one request: several job files, or one job file with other parameters each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from uuid import UUID

from skep_platform.accounts.models import User
from skep_platform.core.errors import SkepError, TooMany
from skep_platform.core.failures import is_database_away, refusal_of_one
from skep_platform.jobs.models import Job
from skep_platform.jobs.submission.job_file import ReadJob, examine_all, read, revised
from skep_platform.jobs.submission.storing import Prepared, create_all
from skep_platform.jobs.submission.submitting import (
    MAX_TOKEN,
    accepted,
    digest_of,
    prepared,
    stored,
    submitted_before,
)

MOST_JOBS = 1_000  # of one request
AT_ONCE = 20  # read by one call and stored with one statement
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
    files, first, full = iter(files), 0, None
    while texts := list(islice(files, AT_ONCE)):
        chunk = _Chunk(user, ignore_storage, full)
        tokens = [f"{token}{index}" if token else "" for index in range(first, first + len(texts))]
        found = chunk.submit(texts, tokens)
        yield from (_result(index, one) for index, one in enumerate(found, first))
        first, full = first + len(texts), chunk.full


def _result(index: int, found: Job | SkepError) -> BatchResult:
    if isinstance(found, SkepError):
        return BatchResult(index, None, "", found.code, str(found), found.details)
    return BatchResult(index, found.pk, found.name)


class _Chunk:
    """Job files that are read by one call and stored with one statement. `full`: the error of a
    limit that is reached for all that follow."""

    def __init__(self, user: User, ignore_storage: bool, full: SkepError | None) -> None:
        self.full = full
        self._user, self._ignore_storage = user, ignore_storage
        self._found: list[Job | SkepError] = []
        self._waiting: dict[int, Prepared] = {}  # by their place in what is found

    def submit(self, texts: Sequence[str], tokens: Sequence[str]) -> list[Job | SkepError]:
        """Return the job or the error of each."""
        read = examine_all(texts, self._user.pk) if self.full is None else [self.full] * len(texts)
        for spec, token in zip(read, tokens, strict=True):
            try:
                self._submit(spec, token)
            except Exception as failed:
                error = refusal_of_one(failed, user=self._user.get_username())
                self._found.append(error)
                if isinstance(error, TooMany) and error.code in FOR_ALL:
                    self.full = error
        self._store()
        return self._found

    def _submit(self, spec: ReadJob | SkepError, token: str) -> None:
        if self.full is not None:
            raise self.full
        if isinstance(spec, SkepError):
            raise spec
        if token and (known := submitted_before(self._user, token, digest_of(spec.text))):
            self._found.append(known)
            return
        if spec.job.extras.skep.depends_on:  # perhaps on one of those before it
            self._store()
        vc, asked = accepted(self._user, spec, ignore_storage=self._ignore_storage)
        new = prepared(self._user, vc, spec, asked, token)
        self._waiting[len(self._found)] = new
        self._found.append(new.job)

    def _store(self) -> None:
        """Store those that wait, each by itself where they cannot be stored at once."""
        waiting, self._waiting = self._waiting, {}
        if not waiting or self._stored_at_once(list(waiting.values())):
            return
        for place, new in waiting.items():
            try:
                self._found[place] = stored(new)
            except Exception as error:
                self._found[place] = refusal_of_one(error, job=new.job.name, job_id=str(new.job.pk))

    def _stored_at_once(self, new: Sequence[Prepared]) -> bool:
        try:
            return create_all(new)
        except Exception as error:
            if is_database_away(error):
                raise
            return False  # each by itself then fails, or does not


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
