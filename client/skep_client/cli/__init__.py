"""The command line `skep`. Commands import what they need when they run, so that help is quick."""

from __future__ import annotations

import json
import sys

import typer

from skep_client import exits
from skep_client.cli import account, cells, cluster, diagnose, jobs, logs, nodes, onebox, queue
from skep_client.errors import SkepError

app = typer.Typer(
    help="Skep: one GPU cluster, many hives.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for part in (account, jobs, queue, logs, diagnose, nodes, cluster, cells, onebox):
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
