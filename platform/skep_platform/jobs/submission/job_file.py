"""Job files as the platform reads them: in a worker process, with all problems at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import skep_jobfile
from skep_jobfile import Issue, JobFile, Path, Problem
from skep_platform.core.errors import SkepError
from skep_platform.core.parse_pool import InputTooCostly, pool


class InvalidJobFile(SkepError):
    """The job file cannot be accepted; `problems` has every reason at once."""

    code = "invalid_job"

    def __init__(self, problems: Sequence[Problem]) -> None:
        cause = skep_jobfile.InvalidJobFile(problems)
        self.problems = cause.problems
        super().__init__(str(cause), errors=[problem.as_dict() for problem in cause.problems])


@dataclass(frozen=True, slots=True)
class ReadJob:
    """A job file. `auths` hold secrets, by name of the image; `commands`, `environment` and
    `spec_text` do not. With `errors`, the job is what is left of the file without what they blame:
    good for further checks of the rest, never to be stored; `mended` are the paths of that."""

    text: str = field(repr=False)
    job: JobFile
    spec_text: str
    commands: dict[str, str]
    environment: dict[str, str]
    auths: dict[str, dict[str, str]] = field(repr=False)
    notes: list[Problem]  # what its author should know, in the order of the text
    errors: list[Problem] = field(default_factory=list)
    mended: list[Path] = field(default_factory=list)

    @property
    def secrets(self) -> dict[str, Any]:
        return self.job.secrets

    def problems(self, issues: Sequence[Issue]) -> list[Problem]:
        """Return the issues with line and column, in the order of the text, without those that
        concern what is known to be wrong."""
        asked = [t for t in issues if not _concerns(t.path, self.mended)]
        if not asked:
            return []
        found = pool.call(
            "locate", text=self.text, issues=[(t.code, t.message, t.path) for t in asked]
        )
        return _problems(found)


def read(text: str, user: object = None) -> ReadJob:
    """Read a job file. Raises InvalidJobFile for anything that cannot become a job, InputTooCostly,
    and what says that the server is busy."""
    found = examine(text, user)
    if found.errors:
        raise InvalidJobFile(found.errors)
    return found


def examine(text: str, user: object = None) -> ReadJob:
    """Return the job file with all that is wrong with it in `errors`. Raises InvalidJobFile where
    not even a part of it makes a job, and what `read` raises otherwise."""
    try:
        found = pool.call("read", user=user, text=text)
    except SkepError as error:
        if error.code == InvalidJobFile.code:
            raise InvalidJobFile(_problems(error.details["errors"])) from None
        raise
    return _read_job(text, found)


def examine_all(texts: Sequence[str], user: object = None) -> list[ReadJob | SkepError]:
    """Return what `examine` returns or raises for each text, by one call of a worker. Where they
    cost more together than one request may, each is read by itself."""
    try:
        answers = pool.call("read_all", user=user, texts=list(texts))
    except InputTooCostly:
        return [_examined(text, user) for text in texts]
    return [_answered(text, answer) for text, answer in zip(texts, answers, strict=True)]


def _examined(text: str, user: object) -> ReadJob | SkepError:
    try:
        return examine(text, user)
    except SkepError as error:
        return error


def _answered(text: str, answer: dict[str, Any]) -> ReadJob | SkepError:
    if "ok" not in answer:
        return InvalidJobFile(_problems(answer["problems"]))
    try:
        return _read_job(text, answer["ok"])
    except InvalidJobFile as error:
        return error


def _read_job(text: str, found: dict[str, Any]) -> ReadJob:
    """Return what a worker read of a text. Raises InvalidJobFile."""
    errors = _problems(found["problems"])
    if found["data"] is None or "commands" not in found:
        raise InvalidJobFile(errors)
    return ReadJob(
        text=text,
        job=JobFile.model_validate(found["data"]),
        spec_text=found.get("spec_text", ""),
        commands=found["commands"],
        environment=found["environment"],
        auths=found["auths"],
        notes=_problems(found.get("notes", [])),
        errors=errors,
        mended=[tuple(path) for path in found["mended"]],
    )


def renamed(text: str, name: str, user: object = None) -> str:
    """Return the text of the job under another name."""
    return str(pool.call("rename", user=user, text=text, name=name))


def revised(text: str, changes: Sequence[tuple[Path, Any]], user: object = None) -> str:
    """Return the text of the job with other values at these paths, which it has."""
    listed = [[list(path), value] for path, value in changes]
    return str(pool.call("revise", user=user, text=text, changes=listed))


def published(text: str, user: object = None) -> str | None:
    """Return the text of the job for others to start from; None where it has secrets."""
    found: str | None = pool.call("publish", user=user, text=text)
    return found


def converted(text: str, format: str, user: object = None) -> dict[str, Any]:
    """Make a job file out of another format: `text` and `notes`. Raises InvalidJobFile."""
    try:
        found: dict[str, Any] = pool.call("convert", user=user, text=text, format=format)
    except SkepError as error:
        if error.code == InvalidJobFile.code:
            raise InvalidJobFile(_problems(error.details["errors"])) from None
        raise
    return found


def _problems(found: Sequence[dict[str, Any]]) -> list[Problem]:
    return [Problem(**problem) for problem in found]


def _concerns(path: Path, mended: Sequence[Path]) -> bool:
    return any(path[: len(other)] == other or other[: len(path)] == path for other in mended)
