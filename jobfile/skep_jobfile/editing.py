"""Putting other values into a job file, at their place in its text."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from skep_jobfile import yaml_text
from skep_jobfile.document import Document, read
from skep_jobfile.problems import InvalidJobFile

Change = tuple[yaml_text.Node | None, Any]  # what stands there now, and the new value


def edited(document: Document, changes: Iterable[Change], data: dict[str, Any]) -> str:
    """The text with these values, which then says `data`. It is read again: where it says something
    else (a place is not known, an anchor went), the whole file is written anew."""
    spans = {}
    for node, value in changes:
        if node is not None:
            written = json.dumps(value, ensure_ascii=False)
            spans[node.start_mark.index] = (node.end_mark.index, written)
    text = document.text
    for start in sorted(spans, reverse=True):
        end, written = spans[start]
        rest = len(text[start:end].rstrip())  # a block ends where the next one begins
        text = text[:start] + written + text[start + rest :]
    return text if _says(text, data) else json.dumps(data, indent=2, ensure_ascii=False)


def renamed(document: Document, name: str) -> str:
    """The text of a job of another name."""
    node = yaml_text.node_at(document.root, ("name",))
    return edited(document, [(node, name)], {**document.data, "name": name})


def _says(text: str, data: dict[str, Any]) -> bool:
    try:
        return read(text).data == data
    except InvalidJobFile:
        return False
