"""OpenPAI's job protocol v2, pure: from the text of a job file to what OpenPAI's server makes of
it, or all of its problems at once, each with its place in the text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from skep_jobfile import (
    demands,
    facts,
    framework,
    masking,
    placing,
    references,
    rendering,
    scripts,
)
from skep_jobfile.document import Document, read
from skep_jobfile.editing import renamed, revised
from skep_jobfile.explain import explain
from skep_jobfile.facts import ClusterFacts
from skep_jobfile.masking import masked, published
from skep_jobfile.models import JobFile, TaskRole
from skep_jobfile.notes import STORAGE, notes
from skep_jobfile.problems import InvalidJobFile, Issue, Path, Problem
from skep_jobfile.raw import suggestions
from skep_jobfile.secret_values import names_secrets, render_secrets, secret_texts

__all__ = [
    "STORAGE",
    "ClusterFacts",
    "Document",
    "InvalidJobFile",
    "Issue",
    "JobFile",
    "Path",
    "Problem",
    "TaskRole",
    "compile_job",
    "examine",
    "explain",
    "located",
    "masked",
    "names_secrets",
    "notes",
    "parse",
    "published",
    "read",
    "read_facts",
    "renamed",
    "render_secrets",
    "revised",
    "schema",
    "secret_texts",
]

MAX_LOCATED = 500
SUBMITTER = "alice"  # the default owner of a job
DIALECT = "https://json-schema.org/draft/2020-12/schema"
SCHEMA_ID = "urn:skep:job-file:2"
read_facts = facts.read


def parse(text: str) -> tuple[JobFile, Document]:
    """The checked job file, and the document that knows the place of everything in the text.
    Raises InvalidJobFile for anything else, never another error."""
    document = read(text)
    job, issues = examine(document)
    if job is None or issues:
        raise InvalidJobFile(located(document, issues))
    return job, document


def examine(document: Document) -> tuple[JobFile | None, list[Issue]]:
    """What is wrong with a document, all at once; and the job, unless that has the wrong shape.
    Raises InvalidJobFile where an alias would show a secret."""
    if issues := masking.check(document):
        raise InvalidJobFile(located(document, issues))
    with suggestions():
        job, issues = explain(JobFile, document.data)
        issues += references.check(document.data) + demands.check(document.data)
        issues += references.check_own_fields(document.data)
    return job, issues


def compile_job(
    text: str, *, user: str = SUBMITTER, cluster: ClusterFacts | None = None
) -> dict[str, Any]:
    """What OpenPAI makes of it: `entrypoints` by role, and the framework without HiveD
    (`default_scheduler`) and with it (`hived`). Raises InvalidJobFile, also for what this cluster
    has not."""
    job, document = parse(text)
    entrypoints, _ = rendering.entrypoints(job, document.data)
    with suggestions():
        placed = placing.place(job, user, cluster or ClusterFacts())
    issues = scripts.build(job, document.data).issues + rendering.auths(document.data)[1]
    issues += placed.issues + placing.fractions(job)
    if issues:
        raise InvalidJobFile(located(document, issues))
    return {
        "entrypoints": entrypoints,
        "default_scheduler": framework.describe(job, user),
        "hived": framework.differences(job, placed.specs),
    }


@lru_cache(maxsize=1)
def schema() -> dict[str, Any]:
    """Return the JSON Schema of a job file, for editors."""
    found = JobFile.model_json_schema(by_alias=True)
    return {"$schema": DIALECT, "$id": SCHEMA_ID, **found}


def located(document: Document, issues: list[Issue]) -> list[Problem]:
    """The issues with line and column, in the order of the text; the first MAX_LOCATED, because
    finding a place takes time in proportion to the file."""
    problems = [document.locate(issue) for issue in issues[:MAX_LOCATED]]
    return sorted(problems, key=lambda problem: (problem.line, problem.column))
