"""What holds between fields: images that are referred to, names that are there twice, totals.

Reads the raw data and passes over what has the wrong shape: that is told already, and an author
gets all problems at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from skep_platform.jobs.hostnames import host_of
from skep_platform.jobs.protocol.models import MAX_COMMAND_BYTES, MAX_TASKS
from skep_platform.jobs.protocol.problems import Path, Trouble


def check(data: dict[str, Any]) -> list[Trouble]:
    prerequisites, roles = data.get("prerequisites"), data.get("taskRoles")
    given = prerequisites if isinstance(prerequisites, list) else []
    named = roles if isinstance(roles, dict) else {}
    return [
        *_twice(given),
        *_unknown_images(named, _images(given)),
        *_same_hosts(named),
        *_too_many_tasks(named),
        *_too_long_commands(named),
    ]


def _images(prerequisites: list[Any]) -> list[str]:
    return [
        p["name"]
        for p in prerequisites
        if isinstance(p, dict) and p.get("type") == "dockerimage" and isinstance(p.get("name"), str)
    ]


def _twice(prerequisites: list[Any]) -> Iterator[Trouble]:
    seen = set()
    for index, item in enumerate(prerequisites):
        if not isinstance(item, dict):
            continue
        key = (str(item.get("type")), str(item.get("name")))
        if key in seen:
            message = f"There is a {key[0][:50]} named {key[1][:100]} already."
            yield Trouble("duplicate_prerequisite", message, ("prerequisites", index, "name"))
        seen.add(key)


def _unknown_images(roles: dict[str, Any], images: list[str]) -> Iterator[Trouble]:
    for name, role in roles.items():
        image = role.get("dockerImage") if isinstance(role, dict) else None
        if isinstance(image, str) and image not in images:
            near = get_close_matches(image[:100], images[:100], n=1)
            hint = f" Did you mean {near[0][:100]}?" if near else ""
            message = f"No dockerimage prerequisite is named {image[:100]}.{hint}"
            path: Path = ("taskRoles", name, "dockerImage")
            yield Trouble("unknown_docker_image", message, path)


def _same_hosts(roles: dict[str, Any]) -> Iterator[Trouble]:
    first: dict[str, str] = {}
    for name in roles:
        other = first.setdefault(host_of(name), name)
        if other != name:
            message = f"Its tasks would have the same host names as those of {other[:100]}."
            yield Trouble("same_host_names", message, ("taskRoles", name), at_key=True)


def _too_many_tasks(roles: dict[str, Any]) -> Iterator[Trouble]:
    counts = [role.get("instances", 1) for role in roles.values() if isinstance(role, dict)]
    total = sum(count for count in counts if type(count) is int and 0 < count <= MAX_TASKS)
    if total > MAX_TASKS:
        message = f"{total} tasks; a job has at most {MAX_TASKS}."
        yield Trouble("too_many_tasks", message, ("taskRoles",))


def _too_long_commands(roles: dict[str, Any]) -> Iterator[Trouble]:
    for name, role in roles.items():
        commands = role.get("commands") if isinstance(role, dict) else None
        lines = commands if isinstance(commands, list) else []
        size = sum(len(line.encode("utf-8", "replace")) + 1 for line in lines if type(line) is str)
        if size > MAX_COMMAND_BYTES:
            message = f"The commands have {size} bytes together, at most {MAX_COMMAND_BYTES}."
            yield Trouble("command_too_long", message, ("taskRoles", name, "commands"))
