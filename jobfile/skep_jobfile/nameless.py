"""Parameters and secrets that templates name and that are not there. OpenPAI accepts such a file,
and the tag stays in the script as it is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from skep_jobfile.problems import Path, Trouble, named
from skep_jobfile.raw import did_you_mean, section
from skep_jobfile.templates import OPEN, TemplateError, lookup, names

CODE = "unknown_name"
ROOTS = ("parameters", "secrets")
TEMPLATES = ("taskRoles", "deployments", "prerequisites", "extras")
MOST = 20  # finding what is meant is slow


def notes(data: dict[str, Any]) -> Iterator[Trouble]:
    values = {f"${root}": data.get(root) for root in ROOTS}
    return islice(_unknown(data, values), MOST)


def _unknown(data: dict[str, Any], values: Mapping[str, Any]) -> Iterator[Trouble]:
    for key in TEMPLATES:
        for path, text in _templates(data.get(key), (key,)):
            for name in dict.fromkeys(_names(text)):
                root, _, rest = name.partition(".")
                if root in values and lookup(name, values) is None:
                    near = did_you_mean(rest, _known(section(data, root[1:])))
                    message = f"{named(name)} has no value: the tag stays as it is written.{near}"
                    yield Trouble(CODE, message, path)


def _templates(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        if OPEN in value:
            yield path, value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _templates(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _templates(child, (*path, index))


def _names(text: str) -> Iterator[str]:
    """None of a text that is a template only together with its neighbours."""
    try:
        yield from names(text)
    except TemplateError:
        return


def _known(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _known(value, f"{prefix}{key}.")
