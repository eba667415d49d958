"""`skep nodes`, `skep vc`, `skep cluster`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from skep_client.cli.common import Json, ago, client, print_json, print_table

if TYPE_CHECKING:
    from skep_client.models import Node


def add_to(app: typer.Typer) -> None:
    app.command()(nodes)
    app.command("vc")(virtual_clusters)
    app.command()(cordon)
    app.command()(uncordon)
    app.command()(join_token)


def nodes(as_json: Json = False) -> None:
    """List the nodes and their GPUs."""
    with client() as skep:
        found = list(skep.nodes())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "STATE", "GPUS", "USED", "MODEL", "CPUS", "MEMORY", "HEARTBEAT"),
        [_node_row(node) for node in found],
    )


def virtual_clusters(as_json: Json = False) -> None:
    """List your virtual clusters: what they own and what is in use."""
    with client() as skep:
        found = list(skep.virtual_clusters())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "GPU MODEL", "USED", "OWNS", "ROLE"),
        [
            (vc.name, model, vc.used.get(model, 0), vc.quotas.get(model, 0), vc.role or "")
            for vc in found
            for model in sorted(vc.quotas.keys() | vc.used.keys()) or [""]
        ],
    )


def cordon(node: str) -> None:
    """Place nothing new on a node; what runs there goes on (admin)."""
    from skep_client import calls

    with client() as skep:
        skep.run(calls.cordon(node))


def uncordon(node: str) -> None:
    """Use a node again (admin)."""
    from skep_client import calls

    with client() as skep:
        skep.run(calls.uncordon(node))


def join_token(as_json: Json = False) -> None:
    """Make a token that lets one machine join as a node (admin)."""
    from skep_client import calls

    with client() as skep:
        token = skep.run(calls.create_join_token())
    if as_json:
        print_json(token)
        return
    print(token.command or token.token)


def _node_row(node: Node) -> tuple[object, ...]:
    used = sum(gpu.used_by is not None for gpu in node.gpus)
    models = ", ".join(sorted({gpu.model for gpu in node.gpus}))
    state = f"{node.state}, cordoned" if node.cordoned else node.state
    memory = f"{node.memory_mb // 1024} GiB"
    heartbeat = f"{ago(node.last_heartbeat_at)} ago" if node.last_heartbeat_at else ""
    return (node.name, state, len(node.gpus), used, models, f"{node.cpus:g}", memory, heartbeat)
