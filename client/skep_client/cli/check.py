"""`skep check`: the dry run of a job file, by a server or without one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client import exits
from skep_client.cli.common import Json, client, print_json, problem_line, read_file, say, until
from skep_client.cli.words import number

if TYPE_CHECKING:
    from skep_client.models import Check, Reason
    from skep_jobfile import ClusterFacts

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Job files; '-' reads stdin.")]


def add_to(app: typer.Typer) -> None:
    app.command()(check)


def check(
    files: Files,
    offline: Annotated[bool, typer.Option("--offline", help="Check without a server.")] = False,
    cluster: Annotated[
        str,
        typer.Option(
            metavar="FILE", help="With --offline: a file with virtual clusters and SKU types."
        ),
    ] = "",
    user: Annotated[str, typer.Option(help="With --offline: the owner of the job.")] = "alice",
    as_json: Json = False,
) -> None:
    """Say what is wrong with job files, or when they would start; submits nothing. Offline, with
    --json, print what each compiles to."""
    from skep_client.cli.check import check_offline

    if offline:
        good = check_offline(files, cluster=cluster, user=user, as_json=as_json)
    else:
        good = _check_online(files, as_json)
    if not good:
        raise typer.Exit(exits.FAILED)


def _check_online(files: list[str], as_json: bool) -> bool:
    from skep_client.cli.submit import as_job_file

    good = True
    with client() as skep:
        for file in files:
            found = skep.check(as_job_file(file))
            good = good and found.valid
            if as_json:
                print_json(found)
            else:
                _print_check(found, file)
    return good


def _print_check(found: Check, file: str) -> None:
    for problem in found.errors:
        say(problem_line(file, problem.model_dump()))
    if found.valid and found.summary:
        s = found.summary
        size = f"{number(s.tasks, 'task')}, {number(s.gpus, 'GPU')} of {s.virtual_cluster}"
        say(f"{s.name} is valid: {size}")
    for note in found.notes:
        place = "".join(f":{n}" for n in (note.line, note.column) if n is not None)
        say(f"{file}{place}: note: {note.message}")
    if found.forecast:
        say(found.forecast.message)
        if found.forecast.code != "starts_now":
            _print_start(found.forecast)


def _print_start(forecast: Reason) -> None:
    start, at_once = (forecast.details.get(key) for key in ("expected_start", "opportunistic_now"))
    span = forecast.details.get("expected_interval")
    if isinstance(span, list) and len(span) == 2:
        low, high = (until(datetime.fromtimestamp(at, UTC)) for at in span)
        say(f"Expected start: {low} to {high}, in 80 % of cases")
    elif isinstance(start, int | float):
        say(f"Expected start: {until(datetime.fromtimestamp(start, UTC))}")
    if at_once:
        say("With jobPriorityClass oppo it would start at once.")


def check_offline(files: Iterable[str], *, cluster: str, user: str, as_json: bool) -> bool:
    """Prints a line per file, or per problem. True when all are valid."""
    facts, good = _facts(cluster), True
    for file in files:
        found = _compiled(file, user, facts)
        good = good and found["valid"]
        if as_json:
            print(json.dumps(found))
        else:
            _print_result(found)
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


def _print_result(found: dict[str, Any]) -> None:
    if found["valid"]:
        say(f"{found['file']} is valid")
    for problem in found.get("errors", ()):
        say(problem_line(found["file"], problem))
