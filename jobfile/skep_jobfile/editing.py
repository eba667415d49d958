"""Putting other values into a job file, at their place in its text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from skep_jobfile import yaml_text
from skep_jobfile.document import Document, read
from skep_jobfile.problems import InvalidJobFile, Path, Problem

Change = tuple[int, int, str]  # from one character to another, and what stands there instead


def edited(document: Document, changes: Iterable[Change], data: dict[str, Any]) -> str:
    """The text with these values, which then says `data`. It is read again: where it says something
    else (a place is not known, an anchor went), the whole file is written anew."""
    text = document.text
    for start, end, written in sorted(set(changes), reverse=True):
        rest = len(text[start:end].rstrip())  # a block ends where the next one begins
        text = text[:start] + written + text[start + rest :]
    return text if _says(text, data) else json.dumps(data, indent=2, ensure_ascii=False)


def renamed(document: Document, name: str) -> str:
    """Return the text of the same job with another name."""
    change = replaced(document, ("name",), name)
    return edited(document, change, {**document.data, "name": name})


def revised(document: Document, changes: Sequence[tuple[Path, Any]]) -> str:
    """Return the text of the same job with other values at these paths, which it has. Raises
    InvalidJobFile for a path that is not there."""
    data = deepcopy(document.data)
    edits: list[Change] = []
    for path, value in changes:
        parent: Any = data
        try:
            for step in path[:-1]:
                parent = parent[step]
            parent[path[-1]]
        except (LookupError, TypeError):
            where = ".".join(map(str, path))
            raise InvalidJobFile(
                [Problem("unknown_field", f"The job file has no {where}.", where, 1, 1)]
            ) from None
        parent[path[-1]] = value
        edits += replaced(document, path, value)
    return edited(document, edits, data)


def replaced(document: Document, path: Path, value: Any) -> Iterator[Change]:
    """Another value at `path`, if that is somewhere in the text."""
    node = yaml_text.node_at(document.root, path)
    if node is not None:
        written = json.dumps(value, ensure_ascii=False)
        yield node.start_mark.index, node.end_mark.index, written


def _says(text: str, data: dict[str, Any]) -> bool:
    try:
        return read(text).data == data
    except InvalidJobFile:
        return False
