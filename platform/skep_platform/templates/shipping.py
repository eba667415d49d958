"""The templates that come with Skep: files of the folder `shipped`, written into the database
whenever it is migrated."""

from __future__ import annotations

from importlib.resources import files

from django.db import connection

from skep_jobfile import parse
from skep_platform.templates.models import Template

HEAD = "# "


def ship() -> None:
    """Write the shipped templates. Those that an admin hid stay hidden, and stars stay."""
    if Template._meta.db_table not in connection.introspection.table_names():
        return  # migrated back to before it
    for name, text in shipped().items():
        job, _ = parse(text)
        title, _, description = head(text).partition("\n")
        fields = {
            "title": title,
            "description": " ".join(description.split()),
            "text": body(text),
            "parameters": job.parameters,
            "gpus": job.gpus,
            "tasks": job.tasks,
        }
        made, new = Template.objects.get_or_create(name=name, shipped=True, defaults=fields)
        if not new:
            Template.objects.filter(pk=made.pk).update(**fields)


def shipped() -> dict[str, str]:
    """Return the texts of the files by the name of their template."""
    folder = files("skep_platform.templates").joinpath("shipped")
    return {
        file.name.removesuffix(".yaml"): file.read_text(encoding="utf-8")
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    }


def head(text: str) -> str:
    """Return the title, the first line of the comment that a file begins with, and behind it the
    description."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix(HEAD).removeprefix("#"))
    return "\n".join(lines)


def body(text: str) -> str:
    """Return the file without that comment."""
    lines = text.splitlines(keepends=True)
    first = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "".join(lines[first:])
