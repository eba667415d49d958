"""`skep images`: images by name, and what their registries say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from skep_client.cli.common import (
    JobName,
    Json,
    TaskName,
    client,
    find_attempt,
    find_job,
    print_json,
    print_table,
    say,
    state_text,
)

if TYPE_CHECKING:
    from skep_client.client import Skep
    from skep_client.models import Image, ImageSave, NodePrefetch

ENDED = ("DONE", "FAILED")
LOOK_S = 1.0  # between two looks at how far a save is

Name = Annotated[str, typer.Argument(metavar="IMAGE", help="Name in the catalogue.")]
Reference = Annotated[str, typer.Argument(help="What nodes pull, such as pytorch/pytorch:2.9.")]
Description = Annotated[str | None, typer.Option(help="What it is for.")]
Framework = Annotated[str | None, typer.Option(help="Such as 'PyTorch 2.9'.")]
Cuda = Annotated[str | None, typer.Option(help="Version of CUDA in it.")]
Driver = Annotated[
    str | None, typer.Option(help="Least version of NVIDIA's driver, such as 570.26.")
]


def add_to(app: typer.Typer) -> None:
    images = typer.Typer(
        invoke_without_command=True, help="List images that job files can name, and keep the list."
    )
    images.callback()(list_images)
    commands = (show, add, edit, inspect, remove, nodes, prefetch, prefetches, save, saved)
    for command in commands:
        images.command()(command)
    images.command("list")(list_images)
    app.add_typer(images, name="images")


def list_images(context: typer.Context, as_json: Json = False) -> None:
    """List the images that your job files can name."""
    if context.invoked_subcommand is not None:
        return
    with client() as skep:
        found = list(skep.images())
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "REFERENCE", "FRAMEWORK", "CUDA", "DRIVER", "SIZE", "FOR"),
        [
            (one.name, one.reference, one.framework, one.cuda_version, _driver(one), _size(one),
             ", ".join(one.virtual_clusters) or "everyone")
            for one in found
        ],
    )  # fmt: skip


def show(image: Name, as_json: Json = False) -> None:
    """Show an image and what its registry said of it last."""
    with client() as skep:
        found = skep.image(image)
    _print(found, as_json)


def add(
    image: Name,
    reference: Reference,
    description: Description = None,
    framework: Framework = None,
    cuda: Cuda = None,
    driver: Driver = None,
    vc: Annotated[
        list[str] | None,
        typer.Option(help="Only for this virtual cluster. May be repeated (admin)."),
    ] = None,
    managed_by: Annotated[
        str,
        typer.Option(metavar="VC", help="For this virtual cluster, whose VC admins may change it."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Add an image (admin; VC admins with --managed-by)."""
    fields = _given(description, framework, cuda, driver)
    if vc:
        fields["virtual_clusters"] = vc
    if managed_by:
        fields["managed_by"] = managed_by
    with client() as skep:
        found = skep.create_image(image, reference, **fields)
    _print(found, as_json)


def edit(
    image: Name,
    reference: Annotated[str | None, typer.Option(help="What nodes pull.")] = None,
    description: Description = None,
    framework: Framework = None,
    cuda: Cuda = None,
    driver: Driver = None,
    as_json: Json = False,
) -> None:
    """Change an image. Jobs keep the reference that they were submitted with."""
    fields = _given(description, framework, cuda, driver)
    if reference is not None:
        fields["reference"] = reference
    if not fields:
        raise typer.BadParameter("Give at least one option to change.")
    with client() as skep:
        found = skep.update_image(image, **fields)
    _print(found, as_json)


def inspect(image: Name, as_json: Json = False) -> None:
    """Ask the registry for digest and size of an image now."""
    with client() as skep:
        found = skep.inspect_image(image)
    _print(found, as_json)


def remove(image: Name) -> None:
    """Remove a name. The image itself stays where it is, and so do jobs that use it."""
    with client() as skep:
        skep.delete_image(image)
    say("Removed.")


def nodes(image: Name, as_json: Json = False) -> None:
    """List the nodes that hold an image."""
    with client() as skep:
        found = list(skep.image_nodes(image))
    if as_json:
        print_json(found)
        return
    print_table(("NODE", "SIZE"), [(one.node, _bytes(one.size)) for one in found])


def prefetch(
    image: Name,
    vc: Annotated[
        str, typer.Option(help="To the nodes on which this virtual cluster has its cells.")
    ] = "",
    node: Annotated[
        list[str] | None,
        typer.Option(help="To this node. May be repeated; without --vc for admins."),
    ] = None,
    hours: Annotated[int, typer.Option(help="What is not pulled by then is given up.")] = 24,
    as_json: Json = False,
) -> None:
    """Have nodes pull an image before jobs need it (admin; VC admins with --vc)."""
    if not vc and not node:
        raise typer.BadParameter("Give --vc or --node.")
    fields = {"virtual_cluster": vc, "nodes": node or [], "hours": hours}
    with client() as skep:
        found = skep.prefetch_image(image, **{k: v for k, v in fields.items() if v})
    if as_json:
        print_json(found)
        return
    say(f"{found.waiting} nodes pull {found.reference}: skep images prefetches {found.id}")


def prefetches(
    prefetch: Annotated[str, typer.Argument(help="Its id: show each node.")] = "",
    cancel: Annotated[bool, typer.Option("--cancel", help="Give up what is not pulled.")] = False,
    as_json: Json = False,
) -> None:
    """List prefetches and how far they are, or cancel one."""
    if cancel and not prefetch:
        raise typer.BadParameter("Give the id of what to cancel.")
    with client() as skep:
        if cancel:
            skep.cancel_prefetch(prefetch)
            say("Cancelled.")
            return
        if prefetch:
            _print_nodes(list(skep.prefetch_nodes(prefetch)), as_json)
            return
        found = list(skep.prefetches())
    if as_json:
        print_json(found)
        return
    print_table(
        ("ID", "IMAGE", "VC", "WAITING", "PULLING", "DONE", "FAILED"),
        [
            (one.id, one.image, one.virtual_cluster, one.waiting, one.pulling, one.done, one.failed)
            for one in found
        ],
    )


def save(
    job: JobName,
    reference: Annotated[
        str,
        typer.Argument(metavar="NAME:TAG", help="In a registry that your credential may push to."),
    ],
    task: TaskName = "",
    wait: Annotated[
        bool, typer.Option("--wait", help="Return when it has ended; exit code 1 for a failure.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Save the container of a running task as an image, without its secrets and variables."""
    with client() as skep:
        found = find_job(skep, job)
        rank = find_attempt(skep, found, task)[0].rank
        made = skep.save_image(found.id, reference, rank)
        if wait:
            made = _ended(skep, found.id, made)
    if as_json:
        print_json(made)
    elif made.state == "FAILED":
        say(f"{made.message} ({made.code})", err=True)
    elif made.state == "DONE":
        say(f"Saved {made.task} as {made.reference} ({made.digest}).")
    else:
        say(f"{made.task} is being saved as {made.reference}: skep images saved {job}")
    if made.state == "FAILED":
        raise typer.Exit(1)


def saved(
    job: Annotated[
        str, typer.Argument(help="Show the saves of this job, with those that failed.")
    ] = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Give up those of the job that are under way.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the images that you saved from containers, or cancel the saves of a job."""
    if cancel and not job:
        raise typer.BadParameter("Give the job whose saves to cancel.")
    with client() as skep:
        if cancel:
            _cancel(skep, find_job(skep, job).id)
            return
        found = list(skep.image_saves(find_job(skep, job).id) if job else skep.saved_images())
    if as_json:
        print_json(found)
        return
    print_table(
        ("REFERENCE", "STATE", "PUSHED", "TASK", "JOB", ""),
        [
            (one.reference, state_text(one.state), f"{one.percent} %", one.task, one.job_name,
             one.message)
            for one in found
        ],
    )  # fmt: skip


def _cancel(skep: Skep, job_id: str) -> None:
    """Cancel what is under way of a job; a save may end by itself meanwhile."""
    from skep_client.errors import SkepError

    under_way = [one for one in skep.image_saves(job_id) if one.state not in ENDED]
    for one in under_way:
        try:
            skep.cancel_image_save(one.id)
        except SkepError as error:
            if error.code != "save_ended":
                raise
        else:
            say(f"Cancelled {one.task} as {one.reference}.")
    if not under_way:
        say("No save is under way.")


def _ended(skep: Skep, job_id: str, made: ImageSave) -> ImageSave:
    import time

    from skep_client import calls

    while made.state not in ENDED:
        time.sleep(LOOK_S)
        saves = skep.all(lambda at: calls.following(calls.image_saves(job_id, cursor=at)))
        made = next((one for one in saves if one.id == made.id), made)
    return made


def _print_nodes(found: list[NodePrefetch], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    print_table(
        ("NODE", "STATE", "PERCENT", ""),
        [(one.node, state_text(one.state), one.percent, one.message) for one in found],
    )


def _given(
    description: str | None, framework: str | None, cuda: str | None, driver: str | None
) -> dict[str, Any]:
    fields = {
        "description": description,
        "framework": framework,
        "cuda_version": cuda,
        "min_driver": driver,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _print(found: Image, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    rows = [
        ("Name", found.name),
        ("Reference", found.reference),
        ("Description", found.description),
        ("Framework", found.framework),
        ("CUDA", found.cuda_version),
        ("Driver", _driver(found)),
        ("Size", _size(found)),
        ("Digest", found.digest),
        ("Registry", found.problem),
        ("Virtual clusters", ", ".join(found.virtual_clusters) or "everyone"),
        ("Managed by", found.managed_by or "admins"),
        ("On nodes", str(found.nodes)),
    ]
    print_table(("", ""), [row for row in rows if row[1]])


def _driver(image: Image) -> str:
    return f"{image.min_driver} or newer" if image.min_driver else ""


def _size(image: Image) -> str:
    """Return the size as registries count it: of the compressed layers."""
    return "" if image.size is None else _bytes(image.size)


def _bytes(number: int) -> str:
    size, unit = float(number), "B"
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
