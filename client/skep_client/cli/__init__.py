"""The command line `skep`. Commands import what they need when they run, so that help is quick."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated

import typer

from skep_client import exits
from skep_client.cli import (
    account,
    cells,
    check,
    cluster,
    copy,
    diagnose,
    jobs,
    logs,
    nodes,
    onebox,
    people,
    queue,
    reach,
    show,
    submit,
    top,
)
from skep_client.cli.common import say
from skep_client.errors import SkepError

app = typer.Typer(
    help="Skep: one GPU cluster, many hives.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
PARTS = (
    *(account, submit, check, jobs, show, logs, top, queue, reach, copy, diagnose),
    *(nodes, cluster, cells, people, onebox),
)
for part in PARTS:
    part.add_to(app)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        say(f"skep {version('skep')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print it, and end."),
    ] = False,
) -> None:
    """Skep: one GPU cluster, many hives."""


def main() -> None:
    try:
        app()
    except BrokenPipeError:
        # Whoever read our output has enough (`| head`): nothing is left to say, nor to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(exits.PIPE)
    except SkepError as error:
        _tell(error)
        sys.exit(exits.of_error(error))
    except KeyboardInterrupt:
        sys.exit(exits.INTERRUPTED)


def _tell(error: SkepError) -> None:
    if "--json" in sys.argv:
        body = {"code": error.code, "message": error.message, "details": error.details}
        print(json.dumps(body), file=sys.stderr)
        return
    say(f"{error.message} ({error.code})", err=True)
    if error.status == 401:
        say("Log in with: skep login --server ADDRESS", err=True)
