"""`skep check`: the dry run of a job file."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client import exits
from skep_client.cli.common import Json, client, print_json, problem_line, say, until
from skep_client.cli.words import number

if TYPE_CHECKING:
    from skep_client.models import Check, Reason

Files = Annotated[list[str], typer.Argument(metavar="FILE", help="Job files; '-' reads stdin.")]


def add_to(app: typer.Typer) -> None:
    app.command()(check)


def check(
    files: Files,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no server.")] = False,
    cluster: Annotated[
        str, typer.Option(metavar="FILE", help="Offline: its virtual clusters and SKU types.")
    ] = "",
    user: Annotated[str, typer.Option(help="Offline: whose job it is.")] = "alice",
    as_json: Json = False,
) -> None:
    """Say what is wrong with job files, or when they would start; submits nothing. Offline, with
    --json, tell what each compiles to."""
    from skep_client.cli.offline import check_offline

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
    if isinstance(start, int | float):
        say(f"Expected start: {until(datetime.fromtimestamp(start, UTC))}")
    if at_once:
        say("With jobPriorityClass oppo it would start at once.")
