"""`skep vcs`: the virtual clusters, what they own and who is in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from skep_client.cli import people
from skep_client.cli.cluster import Vc, owned_gpus
from skep_client.cli.common import (
    Json,
    client,
    given_fields,
    print_json,
    print_table,
    say,
    say_deleted,
)

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import VirtualCluster

Description = Annotated[str | None, typer.Option(help="What it is for.")]
Gpus = Annotated[
    list[str] | None,
    typer.Option("--gpus", metavar="MODEL=N", help="GPUs that it owns. May be repeated."),
]


def add_to(app: typer.Typer) -> None:
    vcs = typer.Typer(
        invoke_without_command=True, help="List your virtual clusters; create and change them."
    )
    vcs.callback()(list_vcs)
    vcs.command("list")(list_vcs)
    for command in (show, create, update, delete, people.members):
        vcs.command()(command)
    app.add_typer(vcs, name="vcs")
    app.command("vc", hidden=True)(list_vcs)  # as it was called before


def list_vcs(context: typer.Context, as_json: Json = False) -> None:
    """List your virtual clusters: what they own and what is in use."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.virtual_clusters())
        if as_json:
            print_json(found)
            return
        cells = skep.cells()
    owned = {vc.name: owned_gpus(vc, cells) for vc in found}
    print_table(
        ("NAME", "GPU MODEL", "USED", "OWNS", "ROLE"),
        [
            (vc.name, model, vc.used.get(model, 0), owned[vc.name].get(model, 0), vc.role or "")
            for vc in found
            for model in sorted(owned[vc.name].keys() | vc.used.keys()) or [""]
        ],
    )


def show(vc: Vc, as_json: Json = False) -> None:
    """Show a virtual cluster."""
    with client() as skep:
        found = skep.virtual_cluster(vc)
        if as_json:
            print_json(found)
            return
        owned = owned_gpus(found, skep.cells())
    for name, value in _rows(found, owned):
        say(f"{name + ':':16}{value}")


def create(
    vc: Vc, description: Description = None, gpus: Gpus = None, as_json: Json = False
) -> None:
    """Create a virtual cluster (admin)."""
    with client() as skep:
        made = skep.create_virtual_cluster(vc, description or "", _quotas(gpus or []))
    if as_json:
        print_json(made)
        return
    say(f"Created. To add its first VC admin: skep vcs members {made.name} --vc-admin USER")


def update(
    vc: Vc,
    name: Annotated[str | None, typer.Option(help="New name (admin).")] = None,
    description: Description = None,
    job_visibility: Annotated[
        Literal["owner", "members", "everyone"] | None,
        typer.Option(help="Who sees jobs that do not say otherwise."),
    ] = None,
    default_image: Annotated[
        str | None, typer.Option(help="Of jobs that are written without an image.")
    ] = None,
    gpus: Gpus = None,
    as_json: Json = False,
) -> None:
    """Change a virtual cluster, if you manage it. `--gpus` replaces all its quotas (admin)."""
    quotas = None if gpus is None else _quotas(gpus)
    fields = given_fields(
        name=name,
        description=description,
        job_visibility=job_visibility,
        default_image=default_image,
        quotas=quotas,
    )
    fields.pop("quotas", None)
    with client() as skep:
        if quotas is not None:
            before = skep.virtual_cluster(vc).quotas
            changed = _set_quotas(skep, vc, quotas, before)
            if not as_json:
                _say_quotas(before, changed.quotas)
        if fields:
            changed = skep.update_virtual_cluster(vc, **fields)
    if as_json:
        print_json(changed)
    else:
        say(f"Changed {changed.name}")


def _set_quotas(
    skep: Skep, vc: str, quotas: dict[str, int], before: dict[str, int]
) -> VirtualCluster:
    """Replace the quotas unless they are no longer those of `before`."""
    from skep_client.errors import SkepError, unknown_fields

    try:
        return skep.set_quotas(vc, quotas, before)
    except SkepError as error:
        if "before" not in unknown_fields(error):
            raise
    return skep.set_quotas(vc, quotas)  # a server of the version before cannot check it


def _say_quotas(before: dict[str, int], after: dict[str, int]) -> None:
    for model in sorted(before.keys() | after.keys()):
        was, now = before.get(model, 0), after.get(model, 0)
        say(f"{model}: {was} -> {now}" if was != now else f"{model}: {now}")


def delete(vc: Vc, as_json: Json = False) -> None:
    """Delete a virtual cluster that has no jobs (admin)."""
    with client() as skep:
        skep.delete_virtual_cluster(vc)
    say_deleted(vc, as_json=as_json)


def _rows(vc: VirtualCluster, owned: dict[str, int]) -> Iterator[tuple[str, object]]:
    yield "Name", vc.name
    yield "Description", vc.description or "–"
    for model in sorted(owned.keys() | vc.used.keys()):
        yield model, f"{vc.used.get(model, 0):,} used of {owned.get(model, 0):,}"
    yield "Members", vc.members
    yield "Your role", vc.role or "none"
    yield "Jobs seen by", vc.job_visibility
    yield "Default image", vc.default_image or "–"
    yield "Policy", vc.policy.name if vc.policy else "–"


def _quotas(pairs: list[str]) -> dict[str, int]:
    quotas = {}
    for pair in pairs:
        model, _, number = pair.rpartition("=")
        if not model or not number.isdecimal():
            raise typer.BadParameter(f"{pair} is not MODEL=N, such as A100=8.")
        quotas[model] = int(number)
    return quotas
