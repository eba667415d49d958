"""`skep templates`: job files that others published."""

from __future__ import annotations

from typing import Annotated

import typer

from skep_client.cli.common import Json, client, print_json, print_table, read_file, say

Name = Annotated[
    str,
    typer.Argument(
        metavar="TEMPLATE", help="OWNER.NAME; NAME alone is your own, or came with Skep."
    ),
]


def add_to(app: typer.Typer) -> None:
    templates = typer.Typer(
        invoke_without_command=True, help="Find, use and publish templates of jobs."
    )
    templates.callback()(list_templates)
    for command in (show, publish, delete, hide, star):
        templates.command()(command)
    templates.command("list")(list_templates)
    app.add_typer(templates, name="templates")


def list_templates(
    context: typer.Context,
    search: Annotated[
        str, typer.Option(help="Only templates with these words in name, title or description.")
    ] = "",
    mine: Annotated[bool, typer.Option("--mine", help="Only your own.")] = False,
    starred: Annotated[
        bool, typer.Option("--starred", help="Only those that you starred.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the templates that you may use, those with the most stars first."""
    if context.invoked_subcommand is not None:
        return
    asked = {"mine": "true" if mine else "", "starred": "true" if starred else ""}
    with client() as skep:
        found = list(skep.templates(search=search, limit=200, **asked))
    if as_json:
        print_json(found)
        return
    print_table(
        ("NAME", "STARS", "GPUS", "TASKS", "FOR", "BY", "TITLE"),
        [
            (
                one.name,
                one.stars,
                one.gpus,
                one.tasks,
                one.virtual_cluster or "everybody",
                "Skep" if one.shipped else one.owner,
                one.title + ("" if one.listed else " (hidden)"),
            )
            for one in found
        ],
        cut_last=True,
    )


def show(
    template: Name,
    parameters: Annotated[
        list[str],
        typer.Option(
            "--set",
            "-p",
            metavar="NAME=VALUE",
            help="Set a parameter of the job file. May be repeated.",
        ),
    ] = [],  # noqa: B006
    as_json: Json = False,
) -> None:
    """Print the job file of a template: `skep templates show NAME | skep submit -`."""
    with client() as skep:
        found = skep.template(template)
    if as_json:
        print_json(found)
        return
    text = found.text
    if parameters:
        text = _with_parameters(text, parameters)
    print(text, end="" if text.endswith("\n") else "\n")


def publish(
    template: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A job file without secrets.")],
    title: Annotated[str, typer.Option(help="What it does, in a few words.")],
    description: Annotated[str, typer.Option(help="How it is used.")] = "",
    vc: Annotated[str, typer.Option(help="Only for the members of this virtual cluster.")] = "",
    as_json: Json = False,
) -> None:
    """Publish a job file to a virtual cluster, or to every user."""
    text = read_file(file)
    with client() as skep:
        made = skep.create_template(template, title, text, description, vc)
    if as_json:
        print_json(made)
    else:
        say(f"{made.name} is published for {made.virtual_cluster or 'everybody'}")


def delete(template: Name) -> None:
    """Delete a template. For its owner and admins."""
    with client() as skep:
        skep.delete_template(template)
    say(f"{template} is deleted")


def hide(
    template: Name,
    undo: Annotated[bool, typer.Option("--undo", help="Show it again.")] = False,
) -> None:
    """Hide a template from all but its owner. For admins."""
    with client() as skep:
        skep.update_template(template, listed=undo)
    say(f"{template} is {'shown' if undo else 'hidden'}")


def star(
    template: Name,
    remove: Annotated[bool, typer.Option("--remove", help="Take your star back.")] = False,
) -> None:
    """Star a template, so that you and others find it."""
    with client() as skep:
        found = skep.unstar_template(template) if remove else skep.star_template(template)
    say(f"{template} has {found.stars} {'star' if found.stars == 1 else 'stars'}")


def _with_parameters(text: str, parameters: list[str]) -> str:
    """Return the job file with other values of parameters that it has. Raises BadParameter."""
    import json

    from skep_jobfile import InvalidJobFile, read, revised

    changes: list[tuple[tuple[str | int, ...], object]] = []
    for parameter in parameters:
        name, found, value = parameter.partition("=")
        if not found:
            raise typer.BadParameter(f"{parameter} is not NAME=VALUE")
        try:
            changes.append((("parameters", name), json.loads(value)))
        except ValueError:
            changes.append((("parameters", name), value))
    try:
        return revised(read(text), changes)
    except InvalidJobFile as error:
        raise typer.BadParameter(str(error)) from None
