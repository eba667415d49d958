"""Reading job files for the platform: its own bounds, and problems as the API tells them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import skep_jobfile
from skep_jobfile import Document, JobFile, Problem, Trouble, located, rendering, scripts
from skep_platform.core.errors import SkepError
from skep_platform.jobs.intake import bounds


class InvalidJobFile(SkepError):
    """The job file cannot be accepted; `problems` has every reason at once."""

    code = "invalid_job"

    def __init__(self, problems: Sequence[Problem]) -> None:
        cause = skep_jobfile.InvalidJobFile(problems)
        self.problems = cause.problems
        super().__init__(str(cause), errors=[problem.as_dict() for problem in cause.problems])


@dataclass(frozen=True, slots=True)
class ReadJob:
    """A good job file. `auths` hold secrets, by name of the image; `commands` and `environment` do
    not."""

    job: JobFile
    document: Document
    commands: dict[str, str]
    environment: dict[str, str]
    auths: dict[str, dict[str, str]] = field(repr=False)

    @property
    def secrets(self) -> dict[str, Any]:
        return self.job.secrets

    @property
    def notes(self) -> list[Problem]:
        """What its author should know, in the order of the text."""
        return located(self.document, skep_jobfile.notes(self.job, self.document.data))

    def problems(self, troubles: Sequence[Trouble]) -> list[Problem]:
        return located(self.document, list(troubles))


def read(text: str) -> ReadJob:
    """Raises InvalidJobFile for anything that cannot become a job, never another error."""
    try:
        job, document = skep_jobfile.parse(text)
    except skep_jobfile.InvalidJobFile as error:
        raise InvalidJobFile(error.problems) from None
    built = scripts.build(job, document.data)
    auths, unread = rendering.auths(document.data)
    troubles = built.troubles + unread + bounds.check(job, built.commands, built.environment)
    if troubles:
        raise InvalidJobFile(located(document, troubles))
    return ReadJob(job, document, built.commands, built.environment, auths)
