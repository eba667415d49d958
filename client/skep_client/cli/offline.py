"""`skep check --offline`: what is wrong with job files, and what OpenPAI's server would make of
them, without a server."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import typer

from skep_client.cli.common import problem_line, read_file, say

if TYPE_CHECKING:
    from skep_jobfile import ClusterFacts


def check_offline(files: Iterable[str], *, cluster: str, user: str, as_json: bool) -> bool:
    """Prints a line per file, or per problem. True when all are valid."""
    facts, good = _facts(cluster), True
    for file in files:
        found = _compiled(file, user, facts)
        good = good and found["valid"]
        if as_json:
            print(json.dumps(found))
        else:
            _tell(found)
    return good


def _compiled(file: str, user: str, facts: ClusterFacts | None) -> dict[str, Any]:
    from skep_jobfile import InvalidJobFile, compile_job
    from skep_jobfile.importers import convert, detect

    text = read_file(file)
    try:
        text = convert(text).text if detect(text) else text
        return {"file": file, "valid": True, **compile_job(text, user=user, cluster=facts)}
    except InvalidJobFile as error:
        problems = [problem.as_dict() for problem in error.problems]
        return {"file": file, "valid": False, "errors": problems}


def _facts(path: str) -> ClusterFacts | None:
    from skep_jobfile import InvalidJobFile, read_facts

    if not path:
        return None
    try:
        return read_facts(read_file(path))
    except InvalidJobFile as error:
        raise typer.BadParameter(f"{path}: {error}") from None


def _tell(found: dict[str, Any]) -> None:
    if found["valid"]:
        say(f"{found['file']} is valid")
    for problem in found.get("errors", ()):
        say(problem_line(found["file"], problem))
