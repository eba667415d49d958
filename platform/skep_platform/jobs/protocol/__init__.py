"""OpenPAI's job protocol v2: from the text of a job file to a checked `JobFile`, or all of its
problems at once, each with its place in the text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from skep_platform.jobs.protocol import placing, references
from skep_platform.jobs.protocol.document import Document, read
from skep_platform.jobs.protocol.explain import explain
from skep_platform.jobs.protocol.models import JobFile, TaskRole
from skep_platform.jobs.protocol.problems import InvalidJobFile, Problem, Trouble

__all__ = [
    "InvalidJobFile",
    "JobFile",
    "Problem",
    "TaskRole",
    "Trouble",
    "located",
    "notes",
    "parse",
]


def parse(text: str) -> tuple[JobFile, Document]:
    """The checked job file, and the document that knows the place of everything in the text.
    Raises InvalidJobFile for anything else, never another error."""
    document = read(text)
    job, troubles = explain(JobFile, document.data)
    troubles += references.check(document.data) + placing.check(document.data)
    if job is None or troubles:
        raise InvalidJobFile(located(document, troubles))
    return job, document


def notes(document: Document) -> list[Problem]:
    """What the author should know of a good file: fields that change nothing."""
    return located(document, placing.unused(document.data))


def located(document: Document, troubles: list[Trouble]) -> list[Problem]:
    """The troubles with line and column, in the order of the text."""
    problems = [document.locate(trouble) for trouble in troubles]
    return sorted(problems, key=lambda problem: (problem.line, problem.column))


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """JSON Schema of a job file, for editors."""
    return JobFile.model_json_schema(by_alias=True)
