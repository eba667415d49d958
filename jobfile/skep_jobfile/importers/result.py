"""What an importer returns, and how it writes a script inside of a script."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from skep_jobfile import writing
from skep_jobfile.problems import InvalidJobFile, Problem

OPENING = "<%"  # of a template's tag
PARAMETER = "tag"
MAX_NOTES = 500


@dataclass(frozen=True, slots=True)
class Note:
    """Something that did not come along as it was; `line` counts from 1 in the given text."""

    code: str
    message: str
    line: int


@dataclass(frozen=True, slots=True)
class Converted:
    """A job file, and what its author should know about it, by line."""

    text: str
    notes: tuple[Note, ...]


def refused(code: str, message: str, line: int = 1) -> InvalidJobFile:
    return InvalidJobFile([Problem(code, message, "", line, 1)])


def finished(data: dict[str, Any], notes: list[Note]) -> Converted:
    """Raises InvalidJobFile where the result breaks a bound of job files."""
    from skep_jobfile import parse

    data = _literal(data)
    text = writing.dump(data)
    parse(text)
    unique = sorted(dict.fromkeys(notes), key=lambda note: note.line)
    if len(unique) > MAX_NOTES:
        message = f"{len(unique) - MAX_NOTES} more notes of this kind are not listed."
        unique[MAX_NOTES:] = [Note("more_notes", message, unique[MAX_NOTES].line)]
    return Converted(text, tuple(unique))


def _literal(data: dict[str, Any]) -> dict[str, Any]:
    """Escape the beginning of a template's tag in commands that happen to hold it: a parameter
    prints it."""
    tag = f"{OPENING} $parameters.{PARAMETER} %>"
    found = False

    def walk(value: Any) -> Any:
        nonlocal found
        if isinstance(value, dict):
            return {key: walk(item) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item) for item in value]
        if isinstance(value, str) and OPENING in value:
            found = True
            return value.replace(OPENING, tag)
        return value

    walked: dict[str, Any] = walk(data)
    return {**walked, "parameters": {PARAMETER: OPENING}} if found else walked


def nested_script(program: Sequence[str], text: str, end: str) -> str:
    """Return a shell command that runs `program` (such as `bash -c`) with the text as its next
    word, read as it is written; `end` is a word for the line behind it."""
    lines = {line for line in text.split("\n") if line.startswith(end)}
    while end in lines:
        end += "_"
    return f"{shlex.join(program)} \"$(cat <<'{end}'\n{text}\n{end}\n)\""
