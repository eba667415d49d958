"""Patterns of files to leave out, as .gitignore has them. Pure, but for reading the file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

FILES = (".skepignore", ".gitignore")  # the first that is there counts


@dataclass(frozen=True, slots=True)
class Rule:
    pattern: re.Pattern[str]
    only_folders: bool
    takes_back: bool


@dataclass(frozen=True, slots=True)
class Ignores:
    """The last rule that fits a path decides. What is below a folder that is left out cannot be
    taken back, as in git."""

    rules: Sequence[Rule]

    @classmethod
    def of(cls, folder: Path, always: Iterable[str] = ()) -> Self:
        lines: list[str] = []
        for name in FILES:
            if (folder / name).is_file():
                lines = (folder / name).read_text(encoding="utf-8", errors="replace").splitlines()
                break
        return cls.read([*lines, *always])

    @classmethod
    def read(cls, lines: Iterable[str]) -> Self:
        return cls([rule for line in lines if (rule := _rule(line)) is not None])

    def match(self, path: str, is_folder: bool) -> bool:
        """`path` is relative, with `/`."""
        left_out = False
        for rule in self.rules:
            if (is_folder or not rule.only_folders) and rule.pattern.fullmatch(path):
                left_out = not rule.takes_back
        return left_out


def _rule(line: str) -> Rule | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    takes_back = line.startswith("!")
    line = line[takes_back:].removeprefix("\\")
    only_folders = line.endswith("/")
    line = line.rstrip("/")
    anchored = "/" in line
    line = line.removeprefix("/")
    if not line:
        return None
    where = "" if anchored else "(?:.*/)?"
    return Rule(re.compile(where + _regex(line), re.DOTALL), only_folders, takes_back)


def _regex(glob: str) -> str:
    """`**` goes over folders, `*` and `?` stay in one."""
    parts = re.split(r"(\*\*/|/\*\*$|\*+|\?|\[!?\]?[^\]]*\]|\\.)", glob)
    return "".join(_piece(part) for part in parts)


def _piece(part: str) -> str:
    known = {"**/": "(?:.*/)?", "/**": "/.+", "?": "[^/]"}
    if part in known:
        return known[part]
    if part and not part.strip("*"):
        return "[^/]*"
    if len(part) > 2 and part[0] == "[" and part[-1] == "]":
        inside = part[1:-1].replace("\\", "\\\\")
        inside = f"^{inside[1:]}" if inside[0] == "!" else inside.replace("^", "\\^")
        return f"(?!/)[{inside}]"
    return re.escape(part[1:] if len(part) == 2 and part[0] == "\\" else part)
