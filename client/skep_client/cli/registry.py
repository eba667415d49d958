"""`skep registry`: credentials for private images, and which images may be used."""

from __future__ import annotations

from typing import Annotated

import typer

from skep_client.cli.common import Json, client, print_json, print_table, say

Registry = Annotated[
    str, typer.Argument(metavar="REGISTRY", help="Such as registry.example.org:5000 or docker.io.")
]
Vc = Annotated[
    str, typer.Option("--vc", help="For all jobs of this virtual cluster; VC admins may.")
]


def add_to(app: typer.Typer) -> None:
    registry = typer.Typer(
        no_args_is_help=True, help="Credentials for private images, and which images may be used."
    )
    registry.command()(login)
    registry.command("list")(list_credentials)
    registry.command()(logout)
    registry.command()(rules)
    app.add_typer(registry, name="registry")


def login(
    registry: Registry,
    username: Annotated[str, typer.Option(help="User name; asked for when not given.")] = "",
    password_stdin: Annotated[bool, typer.Option(help="Read the password from stdin.")] = False,
    vc: Vc = "",
) -> None:
    """Store a user name and a password or token, which your jobs use to pull images."""
    import sys

    username = username or typer.prompt("Username", err=True)
    if password_stdin:
        password = sys.stdin.read().rstrip("\r\n")
    else:
        password = str(typer.prompt("Password or token", hide_input=True, err=True))
    with client() as skep:
        made = skep.set_registry_credential(_name(registry), username, password, vc=vc)
    say(f"Stored for {made.registry}. Jobs use it at their next start; it was not tried yet.")


def list_credentials(vc: Vc = "", as_json: Json = False) -> None:
    """List your credentials, or those of a virtual cluster; passwords are not shown."""
    with client() as skep:
        found = list(skep.registry_credentials(vc=vc))
    if as_json:
        print_json(found)
        return
    print_table(
        ("REGISTRY", "USERNAME", "SET"),
        [(one.registry, one.username, f"{one.updated_at:%Y-%m-%d}") for one in found],
    )


def logout(registry: Registry, vc: Vc = "") -> None:
    """Remove credentials; tasks that run keep running."""
    with client() as skep:
        skep.delete_registry_credential(_name(registry), vc=vc)
    say("Removed.")


def rules(
    vc: Annotated[str, typer.Argument(metavar="VC", help="Name of a virtual cluster.")],
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Pattern such as 'pytorch/*'. Replaces all; may be repeated."),
    ] = None,
    clear: Annotated[bool, typer.Option("--clear", help="Allow every image again.")] = False,
    test: Annotated[
        str, typer.Option(metavar="IMAGE", help="Show whether this image may be used.")
    ] = "",
    as_json: Json = False,
) -> None:
    """List the images that jobs of a virtual cluster may use; change them, if you manage it."""
    if sum(map(bool, (allow, clear, test))) > 1:
        raise typer.BadParameter("Give one of --allow, --clear and --test.")
    if test:
        with client() as skep:
            tried = skep.check_image_rules(vc, test)
        if as_json:
            print_json(tried)
        else:
            matching = f" by {', '.join(tried.patterns)}" if tried.patterns else ""
            say(f"Allowed{matching}." if tried.allowed else f"Not allowed. {tried.reason}")
        return
    with client() as skep:
        found = skep.set_image_rules(vc, allow or []) if allow or clear else skep.image_rules(vc)
    if as_json:
        print_json(found)
        return
    for pattern in found.patterns or ["every image"]:
        say(pattern)


def _name(registry: str) -> str:
    """Return the host of an address as people copy it: https://index.docker.io/v1/."""
    return registry.removeprefix("https://").removeprefix("http://").partition("/")[0]
