"""`skep login`, `skep token`, `skep share`: who you are, and what others see."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skep_client.cli.common import JobName, Json, client, find_job, print_json, print_table, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from skep_client import models
    from skep_client.client import Skep

Scope = Literal["read", "submit", "admin"]
SCOPE_HELP = "read; submit: also work with jobs and files; admin: all that you may."
CODE_HELP = "Code of your authenticator app; asked for where MFA is set up."
DAY_S = 86_400

tokens = typer.Typer(help="List, make and revoke your API tokens.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.command()(login)
    app.command()(logout)
    app.command()(whoami)
    app.add_typer(tokens, name="token")
    app.command()(share)


def login(
    server: Annotated[str, typer.Option(help="Address, for example https://skep.example.org")] = "",
    username: Annotated[str, typer.Option(help="User name; asked for when not given.")] = "",
    token: Annotated[
        str,
        typer.Option(
            help="Log in with this API token; users of this machine may see it: --token-stdin."
        ),
    ] = "",
    token_stdin: Annotated[
        bool, typer.Option("--token-stdin", help="Log in with an API token, read from stdin.")
    ] = False,
    scope: Annotated[
        Scope,
        typer.Option(help="What the login may do: read; submit: also jobs and files; admin: all."),
    ] = "admin",
    password_stdin: Annotated[bool, typer.Option(help="Read the password from stdin.")] = False,
    code: Annotated[str, typer.Option(help=CODE_HELP)] = "",
    sso: Annotated[
        bool,
        typer.Option("--sso", help="Log in by the browser: single sign-on, passkeys and all else."),
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="With --sso: print the address, open nothing.")
    ] = False,
) -> None:
    """Log in, and remember server and token."""
    import sys

    from skep_client import config
    from skep_client.client import Skep

    if sum((bool(token), token_stdin, password_stdin, sso)) > 1:
        raise typer.BadParameter("--token, --token-stdin, --password-stdin and --sso: one of them.")
    if token_stdin and not (token := sys.stdin.read().strip()):
        raise typer.BadParameter("--token-stdin: there is no token on the standard input.")
    server = (server or config.login().server).rstrip("/")
    with Skep(server, token) as skep:
        name = f"skep on {socket.gethostname()}"[:100]
        if sso:
            token = _token_by_browser(skep, name, scope, open_it=not no_browser)
            skep.token = token
        if not token:
            username = username or typer.prompt("Username", err=True)
            password = sys.stdin.readline().rstrip("\n") if password_stdin else _ask_password()
            token = _new_token(skep, username, password, name, scope, code=code).token
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


def _token_by_browser(skep: Skep, name: str, scope: str, *, open_it: bool) -> str:
    """Wait until the user allows this program in a browser, which may be on another machine."""
    import time

    from skep_client import calls
    from skep_client.errors import SkepError
    from skep_client.flow import RETRY_STATUSES

    codes = skep.run(calls.start_device_login(name, scope))
    say(f"Open {codes.verification_uri_complete}", err=True)
    say(f"and allow the login with the code {codes.user_code}", err=True)
    if open_it:
        _open_browser(codes.verification_uri_complete)
    interval, deadline = max(codes.interval, 1), time.monotonic() + codes.expires_in
    while True:
        time.sleep(interval)
        try:
            return skep.run(calls.device_token(codes.device_code)).token
        except SkepError as error:
            passes = error.status in (0, *RETRY_STATUSES) and time.monotonic() < deadline
            if error.code not in ("authorization_pending", "slow_down") and not passes:
                raise
            if error.code == "slow_down" or error.status == 429:
                interval += 5


def _open_browser(address: str) -> None:
    """Open the address where there is a screen: a browser in the terminal would take it over."""
    import os
    import sys
    import webbrowser

    screen = sys.platform != "linux" or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    if screen and address.startswith(("https://", "http://")):
        webbrowser.open(address)


def _new_token(
    skep: Skep,
    username: str,
    password: str,
    name: str,
    scope: str,
    expires_in_s: int | None = None,
    *,
    code: str = "",
) -> models.NewToken:
    """Make a token by password."""
    from skep_client import calls

    def attempt(code: str) -> models.NewToken:
        call = calls.token(
            username, password, name, scope=scope, expires_in_s=expires_in_s, code=code
        )
        return skep.run(call)

    return with_code(attempt, code)


def with_code(attempt: Callable[[str], models.NewToken], code: str) -> models.NewToken:
    """Make a token by `attempt(code)`, and ask for the code where the server wants one."""
    from skep_client.errors import SkepError

    try:
        return attempt(code)
    except SkepError as error:
        if error.code != "mfa_required":
            raise
    return attempt(
        str(typer.prompt("Code of your authenticator app, or a recovery code", err=True))
    )


def ask_password(username: str, *, stdin: bool) -> str:
    """Read the password of a user who is logged in, from stdin or a prompt."""
    import sys

    return sys.stdin.readline().rstrip("\n") if stdin else _ask(username)


def _ask_password() -> str:
    return str(typer.prompt("Password", hide_input=True, err=True))


@tokens.command("list")
def list_tokens(
    everyone: Annotated[bool, typer.Option("--all", help="Those of all users (admin).")] = False,
    user: Annotated[str, typer.Option(help="Those of this user (admin).")] = "",
    as_json: Json = False,
) -> None:
    """List your tokens: what each may do, when it was used last, when it ends."""
    from skep_client import calls

    if everyone or user:
        _list_all(user, as_json=as_json)
        return
    with client() as skep:
        found = skep.run(calls.tokens())
    if as_json:
        print_json(found)
        return
    rows = [
        (t.name, f"…{t.last4}", t.scope, day(t.last_used_at), day(t.expires_at), t.id)
        for t in found
    ]
    print_table(("NAME", "TOKEN", "SCOPE", "LAST USED", "UNTIL", "ID"), rows)


def _list_all(user: str, *, as_json: bool) -> None:
    with client() as skep:
        found = list(skep.all_tokens(**({"user": user} if user else {})))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            t.owner,
            t.kind.replace("_", " "),
            t.name,
            t.scope,
            f"{t.created_at:%Y-%m-%d}",
            day(t.last_used_at),
            _end(t),
            t.id,
        )
        for t in found
    ]
    columns = ("OWNER", "KIND", "NAME", "SCOPE", "CREATED", "LAST USED", "UNTIL", "ID")
    print_table(columns, rows)


def _end(token: models.OwnedToken) -> str:
    return "end of job" if token.kind == "job" else day(token.expires_at)


@tokens.command("create")
def create_token(
    name: Annotated[
        str, typer.Argument(help="Name of the token, such as the program that uses it.")
    ],
    scope: Annotated[Scope, typer.Option(help=SCOPE_HELP)] = "submit",
    days: Annotated[float, typer.Option(min=0.001, help="Days until it expires.")] = 30,
    password_stdin: Annotated[bool, typer.Option(help="Read the password from stdin.")] = False,
    code: Annotated[str, typer.Option(help=CODE_HELP)] = "",
) -> None:
    """Make a token and print it, this once only. Asks for your password: a token makes none."""
    with client() as skep:
        username = skep.me().username
        password = ask_password(username, stdin=password_stdin)
        lifetime = int(days * DAY_S)
        say(_new_token(skep, username, password, name, scope, lifetime, code=code).token)


@tokens.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Name or ID of the token.")],
    of_any: Annotated[
        bool, typer.Option("--all", help="TOKEN is the ID of a token of any user (admin).")
    ] = False,
) -> None:
    """Revoke a token: whatever uses it is refused within a second."""
    from skep_client import calls

    with client() as skep:
        if of_any:
            skep.run(calls.revoke_token(token))
            say(f"Revoked {token}")
            return
        found = [t for t in skep.run(calls.tokens()) if token in (t.name, t.id)]
        if len(found) != 1:
            what = "several tokens; name one by its id" if found else "no token"
            raise typer.BadParameter(f"you have {what} named {token}")
        skep.run(calls.delete_token(found[0].id))
    say(f"Revoked {found[0].name}")


def share(
    job: JobName,
    whom: Annotated[
        Literal["owner", "members", "everyone", "default"] | None,
        typer.Argument(help="default: the setting of the virtual cluster."),
    ] = None,
    user: Annotated[list[str], typer.Option(help="Share it with a user.")] = [],  # noqa: B006
    group: Annotated[list[str], typer.Option(help="Share it with a group.")] = [],  # noqa: B006
    remove_user: Annotated[list[str], typer.Option(help="End that with a user.")] = [],  # noqa: B006
    remove_group: Annotated[list[str], typer.Option(help="End that with a group.")] = [],  # noqa: B006
) -> None:
    """Say who sees a job of yours besides VC admins and admins: file, logs and metrics. Without
    options, show it."""
    from skep_client import calls

    with client() as skep:
        found = skep.run(calls.job(find_job(skep, job).id))
        if whom is not None:
            wanted = None if whom == "default" else whom
            found = skep.run(calls.set_visibility(found.id, wanted))
        for kind, names in (("users", user), ("groups", group)):
            for name in names:
                skep.run(calls.share_job(found.id, kind, name))
        for kind, names in (("users", remove_user), ("groups", remove_group)):
            for name in names:
                skep.run(calls.unshare_job(found.id, kind, name))
        shares = skep.run(calls.job_shares(found.id)).shares
    say(f"{found.name} is seen by: {WORDS[found.seen_by]}")
    for one in shares:
        say(f"and by the {one.kind} {one.name}")


WORDS = {
    "owner": "its owner, VC admins and admins",
    "members": "the members of its virtual cluster",
    "everyone": "everybody",
}


def _ask(username: str) -> str:
    return str(typer.prompt(f"Password of {username}", hide_input=True, err=True))


def day(moment: datetime | None) -> str:
    """Return the day of a moment, or "never"."""
    return f"{moment:%Y-%m-%d}" if moment else "never"
