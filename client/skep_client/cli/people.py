"""`skep token`, `skep members`, `skep share`: who may do and see what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skep_client.cli.common import JobName, Json, client, find_job, print_json, print_table, say

if TYPE_CHECKING:
    from datetime import datetime

Scope = Literal["read", "submit", "admin"]
SCOPE_HELP = "read; submit: also work with jobs and files; admin: all that you may."
DAY_S = 86_400

tokens = typer.Typer(help="List, make and revoke your API tokens.", no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    app.add_typer(tokens, name="token")
    app.command()(members)
    app.command()(share)


@tokens.command("list")
def list_tokens(as_json: Json = False) -> None:
    """List your tokens: what each may do, when it was used last, when it ends."""
    from skep_client import calls

    with client() as skep:
        found = skep.run(calls.tokens())
    if as_json:
        print_json(found)
        return
    rows = [
        (t.name, f"…{t.last4}", t.scope, _day(t.last_used_at), _day(t.expires_at), t.id)
        for t in found
    ]
    print_table(("NAME", "TOKEN", "SCOPE", "LAST USED", "UNTIL", "ID"), rows)


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Where it will be used.")],
    scope: Annotated[Scope, typer.Option(help=SCOPE_HELP)] = "submit",
    days: Annotated[float, typer.Option(min=0.001, help="How long it lives.")] = 30,
    password_stdin: Annotated[bool, typer.Option(help="Read the password from stdin.")] = False,
) -> None:
    """Make a token and print it, this once only. Asks for your password: a token makes none."""
    import sys

    from skep_client import calls

    with client() as skep:
        username = skep.me().username
        password = sys.stdin.readline().rstrip("\n") if password_stdin else _ask(username)
        made = calls.token(username, password, name, scope=scope, expires_in_s=int(days * DAY_S))
        say(skep.run(made).token)


@tokens.command("revoke")
def revoke_token(
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Its name or id.")],
) -> None:
    """Revoke a token: whatever uses it is refused at once."""
    from skep_client import calls

    with client() as skep:
        found = [t for t in skep.run(calls.tokens()) if token in (t.name, t.id)]
        if len(found) != 1:
            what = "several tokens; name one by its id" if found else "no token"
            raise typer.BadParameter(f"you have {what} named {token}")
        skep.run(calls.delete_token(found[0].id))
    say(f"Revoked {found[0].name}")


def members(
    vc: Annotated[str, typer.Argument(metavar="VC", help="Virtual cluster.")],
    add: Annotated[list[str], typer.Option(help="Make a user a member.")] = [],  # noqa: B006
    manager: Annotated[list[str], typer.Option(help="Make a user a manager.")] = [],  # noqa: B006
    remove: Annotated[list[str], typer.Option(help="Take a user out; its jobs stop.")] = [],  # noqa: B006
    confirm: Annotated[bool, typer.Option(help="Also when no manager is left.")] = False,
    as_json: Json = False,
) -> None:
    """List the members of a virtual cluster; change them, if you manage it."""
    from skep_client import calls

    with client() as skep:
        for role, names in (("member", add), ("manager", manager)):
            for name in names:
                skep.run(calls.set_member(vc, name, role, confirm=confirm))
        for name in remove:
            skep.run(calls.remove_member(vc, name, confirm=confirm))
        found = list(skep.all(lambda cursor: calls.members(vc, cursor=cursor)))
    if as_json:
        print_json(found)
        return
    print_table(("USER", "ROLE"), [(member.username, member.role) for member in found])


def share(
    job: JobName,
    whom: Annotated[
        Literal["owner", "members", "everyone", "default"],
        typer.Argument(help="default: as its virtual cluster says."),
    ],
) -> None:
    """Say who sees a job of yours besides managers and admins: file, logs and metrics."""
    from skep_client import calls

    with client() as skep:
        found = find_job(skep, job)
        wanted = None if whom == "default" else whom
        changed = skep.run(calls.set_visibility(found.id, wanted))
    say(f"{changed.name} is seen by: {WORDS[changed.seen_by]}")


WORDS = {
    "owner": "its owner, managers and admins",
    "members": "the members of its virtual cluster",
    "everyone": "everybody",
}


def _ask(username: str) -> str:
    return str(typer.prompt(f"Password of {username}", hide_input=True))


def _day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else "never"
