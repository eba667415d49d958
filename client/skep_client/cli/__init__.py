"""The command line `skep`. Commands import what they need when they run, so that help is quick."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from skep_client import exits
from skep_client.cli import (
    account,
    admin,
    apps,
    archive,
    audit,
    cells,
    check,
    cluster,
    copy,
    datasets,
    diagnose,
    fs,
    images,
    jobs,
    limits,
    logs,
    metrics,
    migrate,
    nodes,
    notifications,
    onebox,
    people,
    reach,
    registry,
    service_accounts,
    show,
    simulate,
    ssh_keys,
    steer,
    storages,
    submit,
    sweep,
    templates,
    top,
    usage,
    vcs,
    what_if,
)
from skep_client.cli.common import say
from skep_client.errors import SkepError

OUTPUT_FD, ERROR_FD = 1, 2


@contextmanager
def _until_output_closes() -> Iterator[None]:
    """Whoever read our output has enough (`| head`): nothing is left to say, nor to flush."""
    try:
        try:
            yield
        finally:
            _flush()
    except BrokenPipeError:
        _drop(OUTPUT_FD, ERROR_FD)
        raise typer.Exit(exits.PIPE) from None


def _flush() -> None:
    try:
        print(end="", flush=True)
    except OSError:  # it would fail again when Python ends, which then exits with 120
        _drop(OUTPUT_FD)
        raise


def _drop(*descriptors: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)


class CommandLine(TyperGroup):
    """Click would end with 1 when the output is closed, and at Ctrl-C while it asks for something;
    and 1 says that a job did not succeed."""

    def make_context(self, *args: Any, **extra: Any) -> Any:  # prints `--help`
        with _until_output_closes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        with _until_output_closes():
            try:
                return super().invoke(ctx)
            except typer.Abort as abort:
                if isinstance(abort.__context__, KeyboardInterrupt):
                    raise typer.Exit(exits.INTERRUPTED) from None
                if isinstance(abort.__context__, EOFError):
                    message = "The standard input ended at a question: see --help for an option."
                    raise typer.BadParameter(message) from None
                raise


app = typer.Typer(
    cls=CommandLine,
    help="Submit and follow jobs on a Skep GPU cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
PARTS = (
    *(account, submit, sweep, templates, check, jobs, steer, show, logs, metrics, top, reach, copy),
    *(diagnose, nodes, cluster, cells, people, vcs, service_accounts, limits, images, registry),
    *(ssh_keys, storages, datasets, fs, archive),
    *(audit, usage, notifications, migrate, admin, onebox, apps, simulate, what_if),
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
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Use a GPU cluster that is shared by many virtual clusters."""


def main() -> None:
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name or a line of a log may have characters that the encoding of the output has not.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except BrokenPipeError:  # of standard error, when a wrong option is reported
        _drop(OUTPUT_FD, ERROR_FD)
        sys.exit(exits.PIPE)
    except SkepError as error:
        _report(error)
        sys.exit(exits.of_error(error))
    except KeyboardInterrupt:
        sys.exit(exits.INTERRUPTED)
    # Of this machine: a file that cannot be read or is no text, a disk that is full.
    except (OSError, UnicodeError) as error:
        say(str(error), err=True)
        sys.exit(exits.FAILED)


def _report(error: SkepError) -> None:
    if "--json" in sys.argv:
        body = {"code": error.code, "message": error.message, "details": error.details}
        print(json.dumps(body), file=sys.stderr)
        return
    say(f"{error.message} ({error.code})", err=True)
    if error.status == 401:
        say("Log in with: skep login --server ADDRESS", err=True)
