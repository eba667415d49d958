"""Looking into data that may have any shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any


def section(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The object below these keys; empty where there is none."""
    found: Any = data
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def items(data: dict[str, Any], key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in the list below `key`, with their index."""
    found = data.get(key)
    for index, item in enumerate(found if isinstance(found, list) else []):
        if isinstance(item, dict):
            yield index, item


def role_key(name: str) -> str:
    """The name of a task role in a framework of OpenPAI: letters and digits, in lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def did_you_mean(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word[:100], [name[:100] for name in known][:1000], n=1)
    return f" Did you mean {near[0]}?" if near else ""
