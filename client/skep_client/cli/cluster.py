"""`skep vc`, `skep join-token`."""

from __future__ import annotations

from typing import Annotated

import typer

from skep_client.cli.common import Json, client, print_json, print_table, say

ForNode = Annotated[
    str,
    typer.Option("--node", help="Only for this name, also in the place of a lost node."),
]


def add_to(app: typer.Typer) -> None:
    app.command("vc")(virtual_clusters)
    app.command()(join_token)


def virtual_clusters(as_json: Json = False) -> None:
    """List your virtual clusters: what they own and what is in use."""
    from skep_client import cell_calls
    from skep_client.cells import owned_gpus

    with client() as skep:
        found = list(skep.virtual_clusters())
        cells = skep.run(cell_calls.overview())
    if as_json:
        print_json(found)
        return
    owned = {vc.name: owned_gpus(vc, cells) for vc in found}
    print_table(
        ("NAME", "GPU MODEL", "USED", "OWNS", "ROLE"),
        [
            (vc.name, model, vc.used.get(model, 0), owned[vc.name].get(model, 0), vc.role or "")
            for vc in found
            for model in sorted(owned[vc.name].keys() | vc.used.keys()) or [""]
        ],
    )


def join_token(node: ForNode = "", as_json: Json = False) -> None:
    """Make a token that lets one machine join as a node (admin)."""
    from skep_client import calls

    with client() as skep:
        token = skep.run(calls.create_join_token(node))
    if as_json:
        print_json(token)
        return
    say(token.command or token.token)
