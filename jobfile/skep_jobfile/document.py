"""From text to plain data: JSON by the fast path, everything else as YAML, both bounded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from skep_jobfile import json_text, yaml_text
from skep_jobfile.problems import InvalidJobFile, Issue, Path, Problem, words

MAX_BYTES = 512 * 1024
MAX_DEPTH = 32
MAX_NODES = 10_000
MAX_KEY = 1000  # characters; ruamel looks no further for a key, and error messages repeat it


class Document:
    """The data of a job file, and where each piece of it stands in the text."""

    def __init__(
        self,
        text: str,
        data: dict[str, Any],
        yaml: yaml_text.Node | None,
        lines_above: int = 0,
    ) -> None:
        self.text = text
        self.lines_above = lines_above  # of this document, where it is one of several in a file
        self.data = data
        self.yaml = yaml  # None: it was read as JSON

    def locate(self, issue: Issue) -> Problem:
        line, column = yaml_text.place_of(self.root, issue.path, at_key=issue.at_key)
        line += self.lines_above
        return Problem(issue.code, issue.message, words(issue.path), line, column)

    @cached_property
    def root(self) -> yaml_text.Node | None:
        """JSON is YAML, so its places are found by reading it as YAML; only bad files pay that."""
        if self.yaml is not None:
            return self.yaml
        try:
            return yaml_text.compose(self.text, MAX_DEPTH, MAX_NODES)
        except InvalidJobFile:
            return None


def read(text: str, max_bytes: int = MAX_BYTES, lines_above: int = 0) -> Document:
    """Raises InvalidJobFile for what is not one bounded document with an object at its top.
    `lines_above`: lines of the file in front of `text`, which is a part of it."""
    try:
        document = _read(text, max_bytes)
    except InvalidJobFile as error:
        if not lines_above:
            raise
        moved = [replace(p, line=p.line + lines_above) for p in error.problems]
        raise InvalidJobFile(moved) from None
    document.lines_above = lines_above
    return document


def _read(text: str, max_bytes: int) -> Document:
    if len(text) > max_bytes:
        raise _refused("spec_too_large", f"A job file has at most {max_bytes} bytes.")
    document = _read_json(text) if text.lstrip()[:1] == "{" else None
    document = document or _read_yaml(text)
    if not isinstance(document.data, dict):
        raise _refused("not_an_object", "A job file is an object with `name`, `taskRoles`, …")
    issues = list(_bounded(document.data, (), [0]))
    if issues:
        raise InvalidJobFile([document.locate(issue) for issue in issues])
    return document


def _read_json(text: str) -> Document | None:
    """None for what is not JSON: it may be YAML in braces."""
    try:
        return Document(text, json_text.load(text), None)
    except json_text.DuplicateKey:
        return None  # YAML finds it again, and knows where
    except RecursionError:
        raise _refused("too_deep", f"At most {MAX_DEPTH} levels.") from None
    except ValueError:
        return None


def _read_yaml(text: str) -> Document:
    root = yaml_text.compose(text, MAX_DEPTH, MAX_NODES)
    return Document(text, yaml_text.construct(root), root)


def _bounded(value: Any, path: Path, seen: list[int]) -> Iterator[Issue]:
    """Issues with depth, number of values, and characters that PostgreSQL cannot hold. `seen`
    is a counter shared by the whole walk."""
    seen[0] += 1
    if seen[0] > MAX_NODES:
        if seen[0] == MAX_NODES + 1:
            yield Issue("too_many_values", f"At most {MAX_NODES} values.", path)
        return
    if len(path) > MAX_DEPTH:
        yield Issue("too_deep", f"At most {MAX_DEPTH} levels.", path)
    elif isinstance(value, dict):
        for key, child in value.items():
            if _unstorable(key) or len(key) > MAX_KEY:
                yield Issue("invalid_key", "This key is too long or not text.", path)
            else:
                yield from _bounded(child, (*path, key), seen)
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _bounded(child, (*path, index), seen)
    elif isinstance(value, str) and _unstorable(value):
        yield Issue("invalid_character", "Has a NUL or half a surrogate pair.", path)


def _unstorable(text: str) -> bool:
    if text.isascii():
        return "\0" in text
    return "\0" in text or any("\ud800" <= char <= "\udfff" for char in text)


def _refused(code: str, message: str) -> InvalidJobFile:
    return InvalidJobFile([Problem(code, message, "", 1, 1)])
