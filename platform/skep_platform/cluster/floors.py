"""The oldest versions of a node's own software that keep tenants apart, and the CVE behind each.

A component whose version is not reported (an agent in a container does not see NVIDIA's toolkit) is
not judged. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

Version = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Floor:
    """`fixed` has the first fixed version of each branch, oldest first; a branch is the first
    `branch` numbers of a version (0: there is one). `backports` are packages of distributions that
    have the fix in an older version: what their version begins with, and the first fixed number
    that follows it."""

    component: str
    name: str
    cve: str
    fixed: tuple[Version, ...]
    branch: int = 0
    backports: tuple[tuple[str, int], ...] = ()


FLOORS = (
    Floor(
        "runc",
        "runc",
        "CVE-2024-21626",
        ((1, 1, 12),),
        backports=(
            ("1.1.5+ds1-1+deb12u", 1),
            ("1.1.7-0ubuntu1~20.04.", 2),
            ("1.1.7-0ubuntu1~22.04.", 2),
        ),
    ),
    Floor("toolkit", "NVIDIA Container Toolkit", "CVE-2025-23266", ((1, 17, 8),)),
    Floor(
        "driver",
        "NVIDIA driver",
        "CVE-2024-0126",
        ((535, 216, 1), (550, 127, 5), (565, 57, 1)),
        branch=1,
    ),
)


@dataclass(frozen=True, slots=True)
class Below:
    """A component of a node that is older than its floor."""

    component: str
    version: str
    floor: str
    cve: str
    message: str


def below(versions: Mapping[str, str]) -> list[Below]:
    """Return the components whose versions, given by component, are below their floors."""
    return list(_below(tuple(versions.get(floor.component, "") for floor in FLOORS)))


@lru_cache(maxsize=1024)  # thousands of nodes have the same few versions
def _below(versions: tuple[str, ...]) -> tuple[Below, ...]:
    found = zip(FLOORS, versions, strict=True)
    return tuple(_describe(floor, text) for floor, text in found if not _is_fixed(floor, text))


def _is_fixed(floor: Floor, text: str) -> bool:
    version = _parsed(text)
    if not version or any(_backported(text, *known) for known in floor.backports):
        return True
    return version >= _wanted(floor, version)


def _wanted(floor: Floor, version: Version) -> Version:
    """Return the fix in the branch of the version, else the newest."""
    own = version[: floor.branch]
    return next((f for f in floor.fixed if f[: floor.branch] == own), floor.fixed[-1])


def _backported(text: str, prefix: str, first: int) -> bool:
    revision = re.match(r"\d+", text.removeprefix(prefix)) if text.startswith(prefix) else None
    return revision is not None and int(revision[0]) >= first


def _parsed(text: str) -> Version:
    """The numbers at its beginning; () where there are none."""
    number = re.match(r"v?(\d{1,9}(?:\.\d{1,9})*)", text)
    return tuple(int(part) for part in number[1].split(".")) if number else ()


def _describe(floor: Floor, text: str) -> Below:
    wanted = ".".join(map(str, _wanted(floor, _parsed(text))))
    message = (
        f"{floor.name} {text} is older than {wanted} ({floor.cve}): a task may break out of its"
        " container. Upgrade it and restart the agent."
    )
    return Below(floor.component, text, wanted, floor.cve, message)
