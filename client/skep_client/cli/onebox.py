"""`skep up`, `down`, `status`, `manage`, `backup`: a whole Skep here, where its server is."""

from __future__ import annotations

import importlib.util
import os
import sys

import typer

from skep_client import exits
from skep_client.cli.common import say

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
NEEDED = ("skep_platform", "django", "celery", "uvicorn")


def add_to(app: typer.Typer) -> None:
    for command in (up, down, status, manage, backup):
        app.command(context_settings=PASS_ON, add_help_option=False)(command)


def up(context: typer.Context) -> None:
    """Start a whole Skep on this machine; `skep up --help` lists its options."""
    _exec("up", context.args)


def down(context: typer.Context) -> None:
    """Stop it."""
    _exec("down", context.args)


def status(context: typer.Context) -> None:
    """Show which of its parts run."""
    _exec("status", context.args)


def manage(context: typer.Context) -> None:
    """Run an admin command in it, such as: changepassword admin."""
    _exec("manage", context.args)


def backup(context: typer.Context) -> None:
    """Make, list, verify and restore backups; `skep backup --help` lists the commands."""
    _exec("backup", context.args)


def _exec(command: str, arguments: list[str]) -> None:
    if not all(importlib.util.find_spec(name) for name in NEEDED):
        say(
            "Only the client is installed here. For a whole Skep on this machine: "
            "pip install 'skep[server,embedded]'",
            err=True,
        )
        raise typer.Exit(exits.USAGE)
    program = [sys.executable, "-m", "skep_platform.onebox", command, *arguments]
    os.execv(sys.executable, program)  # noqa: S606
