"""Requests about users and groups of users."""

from __future__ import annotations

from typing import Any

from skep_client import models
from skep_client.calls.request import Call, given, named
from skep_client.model import Page


def users(**params: Any) -> Call[Page[models.User]]:
    """Iterate over the users, by name. For admins."""
    return Call("GET", "users", Page[models.User], params=given(params))


def user(username: str) -> Call[models.User]:
    """Return a user. For admins."""
    return Call("GET", f"users/{named(username)}", models.User)


def create_user(username: str, password: str, **fields: Any) -> Call[models.User]:
    """Create a user. `fields`: email, is_admin. For admins."""
    body = {"username": username, "password": password, **fields}
    return Call("POST", "users", models.User, json=body, repeatable=False)


def update_user(username: str, /, **fields: Any) -> Call[models.User]:
    """Change a user. `fields`: email, password, is_admin, is_active. For admins."""
    return Call("PATCH", f"users/{named(username)}", models.User, json=fields)


def delete_user(username: str) -> Call[None]:
    """Delete a user for good. The user's jobs stop. For admins."""
    return Call("DELETE", f"users/{named(username)}", None)


def create_password_reset_link(username: str) -> Call[models.ResetLink]:
    """Create a link at which a user sets a new password, once. For admins."""
    path = f"users/{named(username)}/reset-link"
    return Call("POST", path, models.ResetLink, repeatable=False)


def import_users(text: str, *, dry_run: bool = False) -> Call[models.Import]:
    """Create the users of a CSV file and add users to groups and virtual clusters: all of it or
    nothing. For admins."""
    body = {"csv": text, "dry_run": dry_run}
    return Call("POST", "user-imports", models.Import, json=body, repeatable=False)


def groups(**params: Any) -> Call[Page[models.Group]]:
    """Iterate over the groups of users, by name. For admins."""
    return Call("GET", "groups", Page[models.Group], params=given(params))


def create_group(name: str, description: str = "", external_name: str = "") -> Call[models.Group]:
    """Create an empty group. For admins."""
    body = {"name": name, "description": description, "external_name": external_name}
    return Call("POST", "groups", models.Group, json=body, repeatable=False)


def group(name: str) -> Call[models.Group]:
    """Return a group. For admins."""
    return Call("GET", f"groups/{named(name)}", models.Group)


def update_group(group: str, /, **fields: Any) -> Call[models.Group]:
    """Change a group. `fields`: name, description, external_name. For admins."""
    path = f"groups/{named(group)}"
    return Call("PATCH", path, models.Group, json=fields, repeatable="name" not in fields)


def delete_group(name: str) -> Call[None]:
    """Delete a group. Jobs of users who lose a role by that stop. For admins."""
    return Call("DELETE", f"groups/{named(name)}", None)


def group_members(name: str, **params: Any) -> Call[Page[models.GroupMember]]:
    """Iterate over the users of a group, by name. For admins."""
    return Call(
        "GET", f"groups/{named(name)}/members", Page[models.GroupMember], params=given(params)
    )


def add_group_member(name: str, username: str) -> Call[models.GroupMember]:
    """Add a user to a group. For admins."""
    return Call("PUT", f"groups/{named(name)}/members/{named(username)}", models.GroupMember)


def remove_group_member(name: str, username: str) -> Call[None]:
    """Remove a user from a group. For admins."""
    return Call("DELETE", f"groups/{named(name)}/members/{named(username)}", None)
