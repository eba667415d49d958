"""Templates `<% $parameters.x %>`, rendered to the letter as OpenPAI's server does.

It parses with mustache 2.3.0 and then prints texts and names only: sections, partials, comments and
unescaped tags vanish, a name without a value stays as it is written, and nothing is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from skep_jobfile.budget import Budget
from skep_jobfile.javascript import SPACE, WHITE_SPACE, right_trim, text_of, trim

OPEN, CLOSE = "<%", "%>"
INDEX = re.compile(r"\[([0-9]+)\]")
KIND = re.compile(r"[#^/>{&=!]")

Kind = Literal["text", "name", "other"]
Token = tuple[Kind, str]


class TemplateError(ValueError):
    """The text is no template; the message says why, and at which character."""


def render(template: str, values: Mapping[str, Any], budget: Budget | None = None) -> str:
    """Return the filled template without white space around it. Raises TemplateError and
    TooMuchText."""
    return trim(fill(template, values, budget))


def fill(template: str, values: Mapping[str, Any], budget: Budget | None = None) -> str:
    """Return the filled template. Raises TemplateError, and TooMuchText as soon as the budget is
    spent."""
    budget = budget or Budget()
    budget.read(template)
    return "".join(budget.write(_printed(kind, text, values)) for kind, text in _parse(template))


def names(template: str) -> Iterator[str]:
    """Those whose values it prints, with indexes as steps: `$parameters.list.0`. Raises
    TemplateError."""
    return (INDEX.sub(r".\1", text) for kind, text in _parse(template) if kind == "name")


def _printed(kind: Kind, text: str, values: Mapping[str, Any]) -> str:
    if kind == "text":
        return text
    if kind == "other":
        return ""
    name = INDEX.sub(r".\1", text)
    value = values if name == "." else lookup(name, values)
    return f"{OPEN} {name} {CLOSE}" if value is None else text_of(value)


def lookup(name: str, values: Mapping[str, Any]) -> Any:
    """None for what is not there."""
    value: Any = values
    for step in name.split(".") if name.find(".") > 0 else [name]:
        value = _member(value, step)
        if value is None:
            return None
    return value


def _member(value: Any, step: str) -> Any:
    """Return the member of an object, or of a list or text as in JavaScript: by index, or its
    length."""
    if isinstance(value, Mapping):
        return value.get(step)
    if not isinstance(value, str | list):
        return None
    if step == "length":
        return len(value)
    index = int(step) if re.fullmatch("0|[1-9][0-9]{0,8}", step) else -1
    return value[index] if 0 <= index < len(value) else None


def _parse(template: str) -> Iterator[Token]:
    """Yield the tokens outside of sections."""
    depth = 0
    for kind, mark, text in _Parser(template).tokens():
        if mark in ("#", "^"):
            depth += 1
        elif mark == "/":
            depth -= 1
        elif not depth:
            yield kind, text


@dataclass
class _Line:
    """A line that holds marks and no text vanishes with its white space, as in mustache."""

    tokens: list[tuple[Kind, str, str] | None]
    spaces: list[int] = field(default_factory=list)  # indexes of tokens
    has_mark: bool = False
    has_text: bool = False

    def end(self) -> None:
        if self.has_mark and not self.has_text:
            for index in self.spaces:
                self.tokens[index] = None
        self.spaces, self.has_mark, self.has_text = [], False, False


class _Parser:
    def __init__(self, template: str) -> None:
        self.template = template
        self.position = 0
        self.sections: list[str] = []
        self.found: list[tuple[Kind, str, str] | None] = []  # kind, mark, text
        self.line = _Line(self.found)
        self._use_tags(OPEN, CLOSE)

    def tokens(self) -> Iterator[tuple[Kind, str, str]]:
        while self.position < len(self.template):
            self._read_text()
            start = self.position
            if not self._skip(self.opening):
                break
            self._skip_spaces()
            self._read_tag(start)
        if self.sections:
            raise TemplateError(f'Unclosed section "{self.sections[-1]}" at {self.position}')
        return (token for token in self.found if token is not None)

    def _use_tags(self, opening: str, closing: str) -> None:
        """Plain texts, not patterns: a template may change its tags thousands of times."""
        self.opening, self.close = opening, closing

    def _read_text(self) -> None:
        found = self.template.find(self.opening, self.position)
        start, self.position = self.position, found if found >= 0 else len(self.template)
        text = self.template[start : self.position]
        for part in re.split(r"(\n)", text):
            for piece in re.findall(f"{SPACE}+|[^{SPACE[1:]}+", part):
                if re.fullmatch(f"{SPACE}+", piece):
                    self.line.spaces.append(len(self.found))
                else:
                    self.line.has_text = True
                self.found.append(("text", "", piece))
            if part == "\n":
                self.line.end()

    def _read_tag(self, start: int) -> None:
        self.line.has_mark = True
        kind = KIND.match(self.template, self.position)
        mark = kind.group() if kind else ""
        self.position += len(mark)
        self._skip_spaces()
        content = self._content(mark)
        self._skip_spaces()
        if not self._skip(self.close):
            raise TemplateError(f"Unclosed tag at {self.position}")
        self.found.append(("other" if mark else "name", mark, content))
        self._actions.get(mark, _Parser._ignore)(self, content, start)

    def _content(self, mark: str) -> str:
        if mark == "=":
            return self._inner("=", "=")
        if mark == "{":
            return self._inner("}" + self.close, "}")
        return self._before(self.close)

    def _inner(self, end: str, skipped: str) -> str:
        content = self._before(end)
        before = self.position
        self._skip_spaces()
        if not self._skip(skipped):
            self.position = before
        self._before(self.close)
        return content

    def _ignore(self, content: str, start: int) -> None:
        """Skip comments and partials."""

    def _print(self, content: str, start: int) -> None:
        self.line.has_text = True

    def _open(self, content: str, start: int) -> None:
        self.sections.append(content)

    def _close(self, content: str, start: int) -> None:
        if not self.sections:
            raise TemplateError(f'Unopened section "{content}" at {start}')
        opened = self.sections.pop()
        if opened != content:
            raise TemplateError(f'Unclosed section "{opened}" at {start}')

    def _change_tags(self, content: str, start: int) -> None:
        tags = re.split(f"{SPACE}+", content)[:2]
        if len(tags) != 2:
            raise TemplateError(f"Invalid tags: {content}")
        self._use_tags(*tags)

    _actions: Mapping[str, Callable[[_Parser, str, int], None]] = {
        "": _print,
        "{": _print,
        "&": _print,
        "#": _open,
        "^": _open,
        "/": _close,
        "=": _change_tags,
    }

    def _before(self, end: str) -> str:
        """What stands before `end` and the white space in front of it, or all that is left. In
        linear time, as a pattern for that white space would not be."""
        start, found = self.position, self.template.find(end, self.position)
        content = self.template[start:] if found < 0 else right_trim(self.template[start:found])
        self.position = start + len(content)
        return content

    def _skip(self, text: str) -> bool:
        if text and self.template.startswith(text, self.position):
            self.position += len(text)
            return True
        return False

    def _skip_spaces(self) -> None:
        position, end = self.position, len(self.template)
        while position < end and self.template[position] in WHITE_SPACE:
            position += 1
        self.position = position
