"""OpenPAI's job protocol v2, pure: from the text of a job file to what OpenPAI's server makes of
it, or all of its problems at once, each with its place in the text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from skep_jobfile import facts, framework, placing, references, rendering
from skep_jobfile.document import Document, read
from skep_jobfile.explain import explain
from skep_jobfile.facts import ClusterFacts
from skep_jobfile.models import JobFile, TaskRole
from skep_jobfile.problems import InvalidJobFile, Problem, Trouble
from skep_jobfile.secret_values import names_secrets, render_secrets, secret_texts

__all__ = [
    "ClusterFacts",
    "InvalidJobFile",
    "JobFile",
    "Problem",
    "TaskRole",
    "compile_job",
    "names_secrets",
    "parse",
    "read_facts",
    "render_secrets",
    "schema",
    "secret_texts",
]

SUBMITTER = "alice"  # whose job it is, where nobody says
read_facts = facts.read


def parse(text: str) -> tuple[JobFile, Document]:
    """The checked job file, and the document that knows the place of everything in the text.
    Raises InvalidJobFile for anything else, never another error."""
    document = read(text)
    job, troubles = explain(JobFile, document.data)
    troubles += references.check(document.data) + placing.check(document.data)
    if job is None or troubles:
        raise InvalidJobFile(_located(document, troubles))
    return job, document


def compile_job(
    text: str, *, user: str = SUBMITTER, cluster: ClusterFacts | None = None
) -> dict[str, Any]:
    """`entrypoints` by role, and the framework without HiveD (`default_scheduler`) and with it
    (`hived`). Raises InvalidJobFile, also for what this cluster has not."""
    job, document = parse(text)
    scripts, troubles = rendering.entrypoints(job, document.data)
    placed = placing.place(job, user, cluster or ClusterFacts())
    troubles += rendering.auths(document.data)[1] + placed.troubles
    if troubles:
        raise InvalidJobFile(_located(document, troubles))
    return {
        "entrypoints": scripts,
        "default_scheduler": framework.describe(job, user),
        "hived": framework.differences(job, placed.specs),
    }


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """JSON Schema of a job file, for editors."""
    return JobFile.model_json_schema(by_alias=True)


def _located(document: Document, troubles: list[Trouble]) -> list[Problem]:
    """The troubles with line and column, in the order of the text."""
    problems = [document.locate(trouble) for trouble in troubles]
    return sorted(problems, key=lambda problem: (problem.line, problem.column))
