"""The tables of docs/api.md, the reference of the REST API, from its OpenAPI schema."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import generated

PAGE = generated.ROOT / "docs/api.md"
MARK = "<!-- From here on written by scripts/openapi. -->\n"
METHODS = ("get", "post", "put", "patch", "delete")
PREFIX = "/api/v1/"
# Tags that are one subject, in the order of the page.
SECTIONS = {
    "Jobs": ("jobs", "attempts"),
    "Files and images": ("files", "images"),
    "Virtual clusters": ("virtual-clusters",),
    "Cells": ("cells",),
    "Nodes and cluster": ("nodes", "cluster", "info"),
    "Users and log-in": ("auth", "me", "users"),
}

Schema = dict[str, Any]


def text(schema: Schema) -> str:
    """Return the page: its introduction as it stands, then a table for each subject."""
    return generated.below(PAGE, MARK, "\n".join(_lines(schema)) + "\n")


def _lines(schema: Schema) -> Iterator[str]:
    operations = defaultdict(list)
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                operations[methods[method]["tags"][0]].append((path, method, methods[method]))
    known = {tag for tags in SECTIONS.values() for tag in tags}
    sections = SECTIONS | {tag.capitalize(): (tag,) for tag in sorted(operations.keys() - known)}
    for title, tags in sections.items():
        yield f"\n## {title}\n"
        yield "| Request | What it does | Query parameters | Body |"
        yield "|---|---|---|---|"
        for tag in tags:
            for path, method, operation in operations[tag]:
                yield _row(schema, path, method, operation)


def _row(schema: Schema, path: str, method: str, operation: Schema) -> str:
    query = ", ".join(
        f"`{item['name']}`" for item in operation.get("parameters", ()) if item["in"] == "query"
    )
    request = f"`{method.upper()} {path.removeprefix(PREFIX)}`"
    cells = (request, _meaning(operation), query, _body(schema, operation))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _meaning(operation: Schema) -> str:
    """Return the first paragraph of the description, or the operation's name as words."""
    first = " ".join(operation.get("description", "").split("\n\n")[0].split())
    return first or operation["operationId"].replace("_", " ").capitalize() + "."


def _body(schema: Schema, operation: Schema) -> str:
    """Return the names of the fields of a JSON body, required ones in bold."""
    content = operation.get("requestBody", {}).get("content", {})
    found = content.get("application/json", {}).get("schema", {})
    if "$ref" in found:
        found = schema["components"]["schemas"][found["$ref"].rpartition("/")[2]]
    required = found.get("required", ())
    fields = found.get("properties", {}).items()
    if not fields:
        return ", ".join(kind for kind in content if kind != "application/json")
    return ", ".join(
        f"**`{name}`**" if name in required else f"`{name}`"
        for name, value in fields
        if not value.get("readOnly")
    )
