"""`skep login`, `skep whoami`."""

from __future__ import annotations

import socket
from typing import Annotated, Literal

import typer

from skep_client.cli.common import Json, client, print_json, say


def add_to(app: typer.Typer) -> None:
    app.command()(login)
    app.command()(logout)
    app.command()(whoami)


def login(
    server: Annotated[str, typer.Option(help="Address, for example https://skep.example.org")] = "",
    username: Annotated[str, typer.Option(help="Asked for when not given.")] = "",
    token: Annotated[str, typer.Option(help="Use this API token, no password.")] = "",
    scope: Annotated[
        Literal["read", "submit", "admin"],
        typer.Option(help="What the login may do: read; submit: also jobs and files; admin: all."),
    ] = "admin",
    password_stdin: Annotated[bool, typer.Option(help="Read the password from stdin.")] = False,
) -> None:
    """Log in, and remember server and token."""
    import sys

    from skep_client import calls, config
    from skep_client.client import Skep

    server = (server or config.login().server).rstrip("/")
    with Skep(server, token) as skep:
        if not token:
            username = username or typer.prompt("Username")
            password = sys.stdin.readline().rstrip("\n") if password_stdin else _ask_password()
            name = f"skep on {socket.gethostname()}"[:100]
            token = skep.run(calls.token(username, password, name, scope=scope)).token
            skep.token = token
        me = skep.me()
    path = config.remember(config.Login(server, token))
    say(f"Logged in to {server} as {me.username} ({path})")


def logout() -> None:
    """End the remembered login: its token is of no more use, here or elsewhere."""
    from skep_client import calls, config
    from skep_client.errors import SkepError

    login = config.login()
    with client() as skep:
        try:
            skep.run(calls.logout())
        except SkepError as error:
            if error.status not in (0, 401, 404):
                raise
            if error.status == 0:
                say(f"{login.server} did not answer: the token is forgotten here only.", err=True)
    config.forget(login.server)
    say(f"Logged out of {login.server}")


def whoami(as_json: Json = False) -> None:
    """Who you are, and the virtual clusters you belong to."""
    with client() as skep:
        me = skep.me()
        if as_json:
            print_json(me)
            return
        role = " (admin)" if me.is_admin else ""
        say(f"{me.username}{role} at {skep.server}")
        for membership in me.virtual_clusters:
            say(f"  {membership.name}  {membership.role}")


def _ask_password() -> str:
    return str(typer.prompt("Password", hide_input=True))
