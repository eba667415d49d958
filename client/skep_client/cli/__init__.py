"""The command line `skep`. Commands import what they need when they run, so that help is quick."""

from __future__ import annotations

import json
import sys

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
    queue,
    reach,
    show,
    submit,
    top,
)
from skep_client.errors import SkepError

app = typer.Typer(
    help="Skep: one GPU cluster, many hives.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
PARTS = (
    *(account, submit, check, jobs, show, logs, top, queue, reach, copy, diagnose),
    *(nodes, cluster, cells, onebox),
)
for part in PARTS:
    part.add_to(app)


def main() -> None:
    try:
        app()
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
    print(f"{error.message} ({error.code})", file=sys.stderr)
    if error.status == 401:
        print("Log in with: skep login --server ADDRESS", file=sys.stderr)
