"""`skep datasets`: named, versioned folders of storages that jobs mount to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import Json, client, find_job, print_json, print_table, say
from skep_client.cli.words import size
from skep_client.errors import SkepError

if TYPE_CHECKING:
    from skep_client.models import Dataset

Name = Annotated[
    str, typer.Argument(metavar="DATASET", help="NAME@VERSION, or NAME for its newest version.")
]
NewName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the dataset.")]
Vc = Annotated[str, typer.Option("--vc", help="Virtual cluster; needed where several have it.")]


def add_to(app: typer.Typer) -> None:
    datasets = typer.Typer(
        invoke_without_command=True, help="List datasets that jobs can mount, and make them."
    )
    datasets.callback()(list_datasets)
    for command in (show, add, describe, remove):
        datasets.command()(command)
    datasets.command("list")(list_datasets)
    app.add_typer(datasets, name="datasets")


def list_datasets(
    context: typer.Context,
    vc: Annotated[str, typer.Option("--vc", help="Only of this virtual cluster.")] = "",
    name: Annotated[str, typer.Option(help="Only the versions of this one.")] = "",
    as_json: Json = False,
) -> None:
    """List the datasets of your virtual clusters, the newest first."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.datasets(virtual_cluster=vc, name=name))
    if as_json:
        print_json(found)
        return
    print_table(
        ("DATASET", "VC", "FOLDER", "SIZE", "OWNER", "DESCRIPTION"),
        [
            (f"{one.name}@{one.version}", one.virtual_cluster, f"{one.storage}:{one.path}",
             _size(one), one.owner or "", one.description.partition("\n")[0])
            for one in found
        ],
    )  # fmt: skip


def show(dataset: Name, vc: Vc = "", as_json: Json = False) -> None:
    """Show a dataset, and what a job file says to mount it."""
    with client() as skep:
        found = _find(skep, dataset, vc)
    if as_json:
        print_json(found)
        return
    name = f"{found.name}@{found.version}"
    rows = [
        ("Dataset", name),
        ("Virtual cluster", found.virtual_cluster),
        ("Folder", f"{found.storage}:{found.path}"),
        ("Size", _size(found)),
        ("Owner", found.owner or ""),
        ("Of the job", found.job_name),
        ("Description", found.description),
    ]
    print_table(("", ""), [row for row in rows if row[1]])
    say(f"In a job file, to find it at /datasets/{found.name}:")
    say(f"extras:\n  skep:\n    datasets: [{name}]")


def add(
    dataset: NewName,
    storage: Annotated[str, typer.Option(help="Storage that it lies in.")],
    path: Annotated[str, typer.Option(help="Folder of the storage, such as runs/42.")] = "",
    version: Annotated[str, typer.Option(help="Default: the next number.")] = "",
    description: Annotated[str, typer.Option(help="What it is.")] = "",
    job: Annotated[str, typer.Option(help="Job whose outputs it is, by name or id.")] = "",
    vc: Annotated[
        str, typer.Option("--vc", help="Virtual cluster whose jobs may mount it.")
    ] = "default",
    as_json: Json = False,
) -> None:
    """Make a dataset of a folder of a storage. Versions never change; files are not copied."""
    with client() as skep:
        fields: dict[str, Any] = {"version": version, "description": description}
        if job:
            fields["job"] = str(find_job(skep, job).id)
        made = skep.create_dataset(vc, dataset, storage, path, **fields)
    if as_json:
        print_json(made)
        return
    say(f"Made {made.name}@{made.version}.")


def describe(
    dataset: Name,
    description: Annotated[str, typer.Argument(help="What it is.", show_default=False)],
    vc: Vc = "",
) -> None:
    """Change the description of a dataset."""
    with client() as skep:
        skep.update_dataset(str(_find(skep, dataset, vc).id), description)
    say("Described.")


def remove(dataset: Name, vc: Vc = "") -> None:
    """Remove a dataset from the list, and nothing of its files."""
    if "@" not in dataset:
        raise typer.BadParameter("Name the version to remove, as NAME@VERSION.")
    with client() as skep:
        skep.delete_dataset(str(_find(skep, dataset, vc).id))
    say("Removed.")


def _find(skep: Any, dataset: str, vc: str) -> Dataset:
    name, _, version = dataset.partition("@")
    for one in skep.datasets(virtual_cluster=vc, name=name):
        if not version or one.version == version:
            found: Dataset = one
            return found
    message = f"There is no dataset {dataset}: see skep datasets."
    raise SkepError(404, "dataset_not_found", message)


def _size(one: Dataset) -> str:
    return "" if one.size is None else f"{size(one.size)} in {one.files} files"
