"""Requests about templates of jobs."""

from __future__ import annotations

from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given
from skep_client.model import Page


def templates(**params: Any) -> Call[Page[models.TemplateSummary]]:
    """Iterate over the templates that you may use, those with the most stars first. `params`:
    search, mine, starred, ordering."""
    return Call("GET", "templates", Page[models.TemplateSummary], params=given(params))


def template(name: str) -> Call[models.Template]:
    """Return a template with its job file."""
    return Call("GET", f"templates/{name}", models.Template)


def create_template(
    name: str, title: str, text: str, description: str = "", virtual_cluster: str = ""
) -> Call[models.Template]:
    """Publish a job file without secrets to a virtual cluster, or to every user."""
    body: dict[str, Any] = {"name": name, "title": title, "text": text, "description": description}
    if virtual_cluster:
        body["virtual_cluster"] = virtual_cluster
    return Call("POST", "templates", models.Template, json=body, repeatable=False)


def update_template(name: str, **changes: Any) -> Call[models.Template]:
    """Change a template. `changes`: title, description, text, virtual_cluster, listed."""
    return Call("PATCH", f"templates/{name}", models.Template, json=changes)


def delete_template(name: str) -> Call[None]:
    """Delete a template. For its owner and admins."""
    return Call("DELETE", f"templates/{name}", None)


def star_template(name: str) -> Call[models.Template]:
    """Star a template."""
    return Call("PUT", f"templates/{name}/star", models.Template)


def unstar_template(name: str) -> Call[models.Template]:
    """Take your star of a template back."""
    return Call("DELETE", f"templates/{name}/star", models.Template)
