"""`skep sweep`: one job file, submitted once for each combination of parameters."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import Json, client, print_json, print_table, read_file, say

if TYPE_CHECKING:
    from skep_client.models import BatchResult

File = Annotated[str, typer.Argument(metavar="FILE", help="Job file; '-' reads stdin.")]
MOST_JOBS = 1_000
AT_A_TIME = 100  # jobs of one request, which takes a second or so


def add_to(app: typer.Typer) -> None:
    app.command()(sweep)


def sweep(
    file: File,
    values: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="PARAMETER=VALUE,...",
            help="Values of a parameter of the file, separated by commas; may be repeated: each "
            "combination is a job.",
        ),
    ],
    name: Annotated[
        str, typer.Option(help="Name of the jobs before their number; default: that of the file.")
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the combinations, and submit nothing.")
    ] = False,
    ignore_storage: Annotated[
        bool,
        typer.Option("--ignore-storage", help="Submit even if a storage is not mounted."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit a job file once for each combination of parameters."""
    from skep_client import exits

    text = read_file(file)
    combinations = combined(values)
    if dry_run:
        _print(combinations, [], as_json=as_json)
        return
    results: list[BatchResult] = []
    try:
        with client() as skep:
            for at in range(0, len(combinations), AT_A_TIME):
                some = combinations[at : at + AT_A_TIME]
                found = skep.sweep(text, some, name, first=at + 1, ignore_storage=ignore_storage)
                results += found.results
                if found.refused == len(some):
                    break  # it will not be otherwise for the next ones
    finally:  # also when the server stays away, or at Ctrl-C: those jobs are submitted
        accepted = sum(bool(one.id) for one in results)
        if results:
            _print(combinations, results, as_json=as_json)
            if not as_json:
                say(f"Submitted {accepted} of {len(combinations)} jobs.", err=True)
    if accepted < len(combinations):
        raise typer.Exit(exits.FAILED)


def combined(options: Sequence[str]) -> list[dict[str, Any]]:
    """Return the combinations of `PARAMETER=VALUE,...` options, the last one varying fastest.
    Values are numbers, true, false and null where they look like it, and texts otherwise.

    Raises typer.BadParameter."""
    choices: dict[str, list[Any]] = {}
    for option in options:
        parameter, equals, listed = option.partition("=")
        if not parameter or not equals or not listed:
            raise typer.BadParameter(f"--set {option}: write PARAMETER=VALUE,...")
        if parameter in choices:
            raise typer.BadParameter(f"--set {parameter} is given twice: separate values by commas")
        choices[parameter] = [_value(text) for text in listed.split(",")]
    count = 1
    for one in choices.values():
        count *= len(one)
    if count > MOST_JOBS:
        raise typer.BadParameter(f"{count} combinations; a sweep has at most {MOST_JOBS}")
    rows = itertools.product(*choices.values())
    return [dict(zip(choices, row, strict=True)) for row in rows]


def _value(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return text if isinstance(found, list | dict) else found


def _print(
    combinations: Sequence[Mapping[str, Any]],
    results: Sequence[BatchResult],
    *,
    as_json: bool,
) -> None:
    if as_json and results:
        print_json(results)
        return
    if as_json:
        print(json.dumps(combinations))
        return
    words = [" ".join(f"{key}={value}" for key, value in one.items()) for one in combinations]
    if not results:
        print_table(["Number", "Parameters"], enumerate(words, 1))
        return
    rows = [
        (one.name or "-", words[at], str(one.id or "") or f"{one.code}: {one.message}")
        for at, one in enumerate(results)
    ]
    print_table(["Job", "Parameters", "ID or why it was refused"], rows, cut_last=False)
