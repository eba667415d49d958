"""What holds between fields: names that are referred to, names that are there twice.

Reads the raw data and passes over what has the wrong shape: that is told already, and an author
gets all problems at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from skep_jobfile.problems import Path, Trouble
from skep_jobfile.raw import did_you_mean, items, role_key, section

# Field of a role -> type of the prerequisite that it names.
NAMED = {"script": "script", "output": "output", "data": "data", "dockerImage": "dockerimage"}


def check(data: dict[str, Any]) -> list[Trouble]:
    roles = section(data, "taskRoles")
    return [
        *_prerequisites_twice(data),
        *_unknown_prerequisites(data, roles),
        *_deployments_twice(data),
        *_unknown_deployment(data),
        *_same_names(roles),
    ]


def _prerequisites_twice(data: dict[str, Any]) -> Iterator[Trouble]:
    seen = set()
    for index, item in items(data, "prerequisites"):
        key = (str(item.get("type")), str(item.get("name")))
        if key in seen:
            message = f"There is a {key[0][:50]} named {key[1][:100]} already."
            yield Trouble("duplicate_prerequisite", message, ("prerequisites", index, "name"))
        seen.add(key)


def _unknown_prerequisites(data: dict[str, Any], roles: dict[str, Any]) -> Iterator[Trouble]:
    known = [item for _, item in items(data, "prerequisites")]
    everything = _names(known)
    of_kind = {
        kind: _names(item for item in known if item.get("type") == kind) for kind in NAMED.values()
    }
    for name in roles:
        role = section(roles, name)
        for field, kind in NAMED.items():
            wanted, names = role.get(field), of_kind[kind]
            if isinstance(wanted, str) and wanted not in names:
                yield _unknown(("taskRoles", name, field), kind, wanted, names)
        asked = role.get("prerequisites")
        for index, wanted in enumerate(asked if isinstance(asked, list) else []):
            if isinstance(wanted, str) and wanted not in everything:
                path: Path = ("taskRoles", name, "prerequisites", index)
                yield _unknown(path, "", wanted, everything)


def _unknown(path: Path, kind: str, wanted: str, names: Iterable[str]) -> Trouble:
    code = "unknown_docker_image" if kind == "dockerimage" else "unknown_prerequisite"
    what = f"{kind} prerequisite" if kind else "prerequisite"
    message = f"No {what} is named {wanted[:100]}.{did_you_mean(wanted, names)}"
    return Trouble(code, message, path)


def _deployments_twice(data: dict[str, Any]) -> Iterator[Trouble]:
    seen = set()
    for index, item in items(data, "deployments"):
        name = str(item.get("name"))
        if name in seen:
            message = f"There is a deployment named {name[:100]} already."
            yield Trouble("duplicate_deployment", message, ("deployments", index, "name"))
        seen.add(name)


def _unknown_deployment(data: dict[str, Any]) -> Iterator[Trouble]:
    wanted = section(data, "defaults").get("deployment")
    names = _names(item for _, item in items(data, "deployments"))
    if isinstance(wanted, str) and wanted not in names:
        message = f"No deployment is named {wanted[:100]}.{did_you_mean(wanted, names)}"
        yield Trouble("unknown_deployment", message, ("defaults", "deployment"))


def _same_names(roles: dict[str, Any]) -> Iterator[Trouble]:
    first: dict[str, str] = {}
    for name in roles:
        other = first.setdefault(role_key(name), name)
        if other != name:
            message = f"{name[:100]} and {other[:100]} differ in case and underscores only."
            yield Trouble("same_role_names", message, ("taskRoles", name), at_key=True)


def _names(known: Iterable[dict[str, Any]]) -> dict[str, None]:
    """In their order, to be looked up."""
    names = (item.get("name") for item in known)
    return {name: None for name in names if isinstance(name, str)}
