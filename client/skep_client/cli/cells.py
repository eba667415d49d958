"""`skep cells`: what there is, what a virtual cluster owns, HiveD files in and out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from skep_client import exits
from skep_client.cli.common import Json, client, print_json, print_table, read_file, say

if TYPE_CHECKING:
    from skep_client.models import Cells, CheckedAssignment, VcCells

File = Annotated[str, typer.Argument(metavar="FILE", help="HiveD file; '-' reads stdin.")]
Assign = Annotated[
    bool, typer.Option("--assign", help="Also assign the cells that it gives to virtual clusters.")
]


def add_to(app: typer.Typer) -> None:
    cells = typer.Typer(
        no_args_is_help=True, help="Show the cells of the cluster and who owns them."
    )
    cells.command()(show)
    cells.command()(check)
    cells.command("import")(import_)
    cells.command()(export)
    app.add_typer(cells, name="cells")


def show(
    vc: Annotated[
        str, typer.Argument(metavar="[VC]", help="Virtual cluster; default: the whole cluster.")
    ] = "",
    as_json: Json = False,
) -> None:
    """Show the cells of a virtual cluster by type; without one, those of the cluster."""
    with client() as skep:
        found = skep.cells_of(vc) if vc else skep.cells()
    if as_json:
        print_json(found)
        return
    from skep_client.models import VcCells

    if isinstance(found, VcCells):
        _print_owned(found)
    else:
        _print_all(found)


def check(file: File, assign: Assign = False, as_json: Json = False) -> None:
    """Say what is wrong with a HiveD file, or what importing it would do (admin)."""
    text = read_file(file)
    with client() as skep:
        found = skep.check_hived(text, assign=assign)
    _show(found, as_json)
    if not found.fits:
        raise typer.Exit(exits.FAILED)


def import_(file: File, assign: Assign = False, as_json: Json = False) -> None:
    """Lay the nodes out as a HiveD file says. Moves and ends nothing that runs (admin)."""
    text = read_file(file)
    with client() as skep:
        found = skep.import_hived(text, assign=assign)
    _show(found, as_json)
    if not found.fits:
        raise typer.Exit(exits.FAILED)
    if not as_json:
        say(f"Imported; this is revision {found.revision}.")


def export(
    output: Annotated[
        str, typer.Option("--output", "-o", help="Output file; default: standard output.")
    ] = "",
) -> None:
    """Write all cells and who owns them as a HiveD file (admin)."""
    with client() as skep:
        text = skep.export_hived()
    if not output:
        sys.stdout.write(text)
        return
    try:
        with open(output, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {output}: {error}") from None


def _print_owned(found: VcCells) -> None:
    print_table(
        ("CELL TYPE", "", "GPUS", "OWNED", "USED", "FREE", "LENT", "BAD", "MISSING"),
        [
            (t.type, t.words, t.gpus, t.owned, t.used, t.free, t.borrowed_out, t.bad, t.missing)
            for chain in found.chains
            for t in chain.types
        ],
    )
    if found.borrowed_in:
        say(f"Its opportunistic jobs use {found.borrowed_in} GPUs of others.")
    for short in found.shortfalls:
        say(f"It was given {short.asked} x {short.cell_type}, the cluster has {short.got}.")


def _print_all(found: Cells) -> None:
    words = {level.type: level.words for chain in found.chains for level in chain.levels}
    print_table(
        ("CHAIN", "CELL TYPE", "", "TOTAL", "OWNED", "LEFT", "BAD"),
        [
            (chain.chain, t.type, words.get(t.type, ""), t.total, t.owned, _or_blank(t.left), t.bad)
            for chain in found.chains
            for t in chain.totals
        ],
    )
    for pin in found.pins:
        owner = f" of {pin.virtual_cluster}" if pin.virtual_cluster else ""
        say(f"Pinned cell {pin.name}{owner}: the {pin.cell_type} of {pin.node}")


def _or_blank(number: int | None) -> object:
    return "" if number is None else number


def _show(found: CheckedAssignment, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for error in found.errors:
        say(f"{error.path}: {error.message} ({error.code})" if error.path else error.message)
    for oddity in found.problems:
        say(f"{oddity.path}: note: {oddity.message}")
    for short in found.shortfalls:
        wanted = f"{short.asked} x {short.cell_type}"
        say(f"{short.virtual_cluster} was given {wanted}, there would be {short.got}.")
    for job in found.downgraded:
        say(f"{job.name} of {job.virtual_cluster} would run as opportunistic.")
    for job in found.restored:
        say(f"{job.name} of {job.virtual_cluster} would run with its guarantee again.")
    if found.fits:
        print_table(
            ("CHAIN", "CELL TYPE", "TOTAL", "LEFT"),
            [(row.chain, row.type, row.total, row.left) for row in found.left],
        )
