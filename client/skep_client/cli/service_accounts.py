"""`skep service-accounts`: users for programs, which a virtual cluster owns."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from skep_client.cli.account import CODE_HELP, DAY_S, ask_password, day, with_code
from skep_client.cli.common import Json, client, print_json, print_table, say

Vc = Annotated[str, typer.Argument(metavar="VC", help="Virtual cluster that owns it.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the service account.")]

accounts = typer.Typer(
    help="List and change the service accounts of a virtual cluster (VC admin).",
    no_args_is_help=True,
)


def add_to(app: typer.Typer) -> None:
    app.add_typer(accounts, name="service-accounts")


@accounts.command("list")
def list_accounts(vc: Vc, as_json: Json = False) -> None:
    """List the service accounts: role, tokens, and when one of these was used last."""
    with client() as skep:
        found = list(skep.service_accounts(vc))
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one.name,
            one.username,
            one.role,
            "yes" if one.is_active else "no",
            one.tokens,
            day(one.last_used_at),
            one.description,
        )
        for one in found
    ]
    print_table(("NAME", "USER", "ROLE", "ACTIVE", "TOKENS", "LAST USED", "DESCRIPTION"), rows)


@accounts.command()
def create(
    vc: Vc,
    name: Name,
    role: Annotated[
        Literal["viewer", "member"], typer.Option(help="A viewer reads; a member runs jobs.")
    ] = "member",
    description: Annotated[str, typer.Option(help="What it is for.")] = "",
) -> None:
    """Create a service account, which has no password and no token yet."""
    from skep_client import calls

    with client() as skep:
        made = skep.run(calls.create_service_account(vc, name, description, role))
    say(f"Created {made.username}. To make a token: skep service-accounts token {vc} {name}")


@accounts.command()
def disable(vc: Vc, name: Name) -> None:
    """Revoke all tokens of a service account and stop its jobs."""
    _set_active(vc, name, active=False)
    say(f"Disabled {name}: its tokens are revoked")


@accounts.command()
def enable(vc: Vc, name: Name) -> None:
    """Let a service account have tokens again."""
    _set_active(vc, name, active=True)
    say(f"Enabled {name}")


def _set_active(vc: str, name: str, *, active: bool) -> None:
    from skep_client import calls

    with client() as skep:
        skep.run(calls.update_service_account(vc, name, is_active=active))


@accounts.command()
def remove(vc: Vc, name: Name) -> None:
    """Remove a service account for good: its tokens end at once and its jobs stop."""
    from skep_client import calls

    with client() as skep:
        skep.run(calls.delete_service_account(vc, name))
    say(f"Removed {name}")


@accounts.command()
def tokens(vc: Vc, name: Name, as_json: Json = False) -> None:
    """List the tokens of a service account."""
    from skep_client import calls

    with client() as skep:
        found = skep.run(calls.service_account_tokens(vc, name))
    if as_json:
        print_json(found)
        return
    rows = [
        (t.name, f"…{t.last4}", t.scope, day(t.last_used_at), day(t.expires_at), t.id)
        for t in found
    ]
    print_table(("NAME", "TOKEN", "SCOPE", "LAST USED", "UNTIL", "ID"), rows)


@accounts.command()
def token(
    vc: Vc,
    name: Name,
    called: Annotated[
        str, typer.Option("--name", help="Name of the token, such as the program that uses it.")
    ] = "token",
    scope: Annotated[
        Literal["read", "submit"], typer.Option(help="read; submit: also work with jobs and files.")
    ] = "submit",
    days: Annotated[float, typer.Option(min=0.001, help="Days until it expires.")] = 30,
    password_stdin: Annotated[bool, typer.Option(help="Read the password from stdin.")] = False,
    code: Annotated[str, typer.Option(help=CODE_HELP)] = "",
) -> None:
    """Make a token of a service account and print it, this once only. Asks for your own password:
    a token makes none."""
    from skep_client import calls

    with client() as skep:
        password = ask_password(skep.me().username, stdin=password_stdin)
        made = with_code(
            lambda code: skep.run(
                calls.create_service_account_token(
                    vc,
                    name,
                    called,
                    scope=scope,
                    expires_in_s=int(days * DAY_S),
                    password=password,
                    code=code,
                )
            ),
            code,
        )
    say(made.token)


@accounts.command()
def revoke(
    vc: Vc,
    name: Name,
    token: Annotated[str, typer.Argument(metavar="TOKEN", help="Name or ID of the token.")],
) -> None:
    """Revoke a token of a service account: whatever uses it is refused within a second."""
    from skep_client import calls

    with client() as skep:
        known = skep.run(calls.service_account_tokens(vc, name))
        found = [one for one in known if token in (one.name, one.id)]
        if len(found) != 1:
            what = "several tokens; name one by its id" if found else "no token"
            raise typer.BadParameter(f"{name} has {what} named {token}")
        skep.run(calls.delete_service_account_token(vc, name, found[0].id))
    say(f"Revoked {found[0].name}")
