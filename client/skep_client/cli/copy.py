"""`skep cp`: files into and out of a running task."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from skep_client.cli.common import client, find_attempt, find_job, say

PLACE = "JOB:PATH, JOB:TASK:PATH, or a path here."


def add_to(app: typer.Typer) -> None:
    app.command("cp")(copy)


@dataclass(frozen=True, slots=True)
class Place:
    """`job` is "" for a path here."""

    job: str
    task: str
    path: str


def copy(
    source: Annotated[str, typer.Argument(help=PLACE)],
    target: Annotated[str, typer.Argument(help=PLACE)],
) -> None:
    """Copy a file or folder: train:/out/model.pt . or data train:worker-1:/data/"""
    one, other = place(source), place(target)
    if bool(one.job) == bool(other.job):
        raise typer.BadParameter("one of the two is in a task: JOB:/path")
    if one.job:
        _copy_out(one, Path(other.path))
    else:
        _copy_in(Path(one.path), other)


def place(text: str) -> Place:
    """Parse a path of this machine or of a task. Paths with a colon of their own begin with / or
    ./"""
    job, colon, rest = text.partition(":")
    if not colon or text.startswith((".", "/", "~")):
        return Place("", "", text)
    named = re.fullmatch(r"([A-Za-z_][A-Za-z0-9_]*-[0-9]+|[0-9]+):(.*)", rest, re.DOTALL)
    return Place(job, named[1], named[2]) if named else Place(job, "", rest)


def _copy_in(source: Path, target: Place) -> None:
    from skep_client.cli.progress import bar
    from skep_client.copying import copy_in, size_of

    if not source.exists():
        raise typer.BadParameter(f"there is no {source}")
    with client() as skep:
        _, attempt = find_attempt(skep, find_job(skep, target.job), target.task)
        with bar(f"Sending {source}", size_of(source)) as progress:
            copy_in(skep, attempt.id, source, target.path or "./", progress)


def _copy_out(source: Place, target: Path) -> None:
    from skep_client.cli.progress import bar
    from skep_client.copying import copy_out

    if not source.path:
        raise typer.BadParameter("name a path in the task: JOB:/path")
    if not target.is_dir() and not target.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {target.parent}: make it first")
    with client() as skep:
        _, attempt = find_attempt(skep, find_job(skep, source.job), source.task)
        with bar(f"Receiving {source.path}", None) as progress:
            try:
                left_out = copy_out(skep, attempt.id, source.path, target, progress)
            except OSError as error:
                raise typer.BadParameter(f"cannot write {target}: {error.strerror}") from None
    for name in left_out:
        say(f"Left out, no file or a link that leads out: {name}", err=True)
