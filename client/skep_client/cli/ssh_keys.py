"""`skep ssh-keys`: public keys with which one logs in to tasks."""

from __future__ import annotations

from typing import Annotated

import typer

from skep_client.cli.common import Json, client, print_json, print_table, read_file, say


def add_to(app: typer.Typer) -> None:
    keys = typer.Typer(
        invoke_without_command=True,
        help="Your public ssh keys, for tasks whose ssh plugin asks for them.",
    )
    keys.callback()(list_keys)
    keys.command()(add)
    keys.command()(remove)
    keys.command("list")(list_keys)
    app.add_typer(keys, name="ssh-keys")


def list_keys(context: typer.Context, as_json: Json = False) -> None:
    """List your keys by their fingerprints."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = skep.ssh_keys().keys
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "TYPE", "FINGERPRINT", "ADDED"),
        [
            (one.name, one.public_key.split()[0], one.fingerprint, f"{one.created_at:%Y-%m-%d}")
            for one in found
        ],
    )


def add(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="Such as ~/.ssh/id_ed25519.pub; - reads stdin.")
    ],
    name: Annotated[str, typer.Option(help="Default: the comment of the key.")] = "",
    as_json: Json = False,
) -> None:
    """Add a public key."""
    text = read_file(file).strip()
    if "PRIVATE KEY" in text:
        raise typer.BadParameter(f"{file} is a private key: give the file that ends in .pub")
    name = name or " ".join(text.split()[2:]) or "key"
    with client() as skep:
        made = skep.add_ssh_key(name, text)
    if as_json:
        print_json(made)
    else:
        say(f"{made.name} is added ({made.fingerprint}). Tasks that start from now on know it.")


def remove(name: Annotated[str, typer.Argument(help="Name or fingerprint of the key.")]) -> None:
    """Remove one of your keys. Tasks that run keep it."""
    from skep_client.errors import SkepError

    with client() as skep:
        found = [one for one in skep.ssh_keys().keys if name in (one.name, one.fingerprint)]
        if not found:
            raise SkepError(404, "not_found", f"You have no key {name}.")
        skep.remove_ssh_key(found[0].id)
    say("Removed.")
