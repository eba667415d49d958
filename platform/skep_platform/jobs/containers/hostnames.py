"""What tasks of a job are called in their private network."""

from __future__ import annotations


def host_of(role: str) -> str:
    """A role's part of its tasks' host names: names of the DNS have no underscores."""
    return role.replace("_", "-").strip("-") or "task"


def hostname(role: str, index: int) -> str:
    return f"{host_of(role)}-{index}"
