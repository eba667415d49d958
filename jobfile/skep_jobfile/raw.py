"""Looking into data that may have any shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from itertools import islice
from typing import Any


def section(data: dict[str, Any], *keys: str) -> dict[str, Any]:
    """The object below these keys; empty where there is none."""
    found: Any = data
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def items(data: dict[str, Any], key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects in the list below `key`, with their index."""
    found = data.get(key)
    for index, item in enumerate(found if isinstance(found, list) else []):
        if isinstance(item, dict):
            yield index, item


def role_key(name: str) -> str:
    """Return the name of a task role in a framework of OpenPAI: letters and digits, in lower
    case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


# Comparing words is slow, and a hostile file has thousands of them: only the first problems of a
# file get a suggestion, out of so many names, and long words get none.
SUGGESTIONS, COMPARED, LONGEST = 5, 100, 50
_left: ContextVar[list[int] | None] = ContextVar("suggestions left", default=None)


@contextmanager
def suggestions() -> Iterator[None]:
    """Allow the suggestions of one file in what runs inside."""
    token = _left.set([SUGGESTIONS])
    try:
        yield
    finally:
        _left.reset(token)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return " Did you mean NAME?", or "" where nothing is near or enough was suggested."""
    left = _left.get()
    if len(word) > LONGEST or left == [0]:
        return ""
    if left is not None:
        left[0] -= 1
    names = [name for name in islice(known, 10 * COMPARED) if len(name) <= LONGEST]
    near = get_close_matches(word, names[:COMPARED], n=1)
    return f" Did you mean {near[0]}?" if near else ""
