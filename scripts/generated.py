"""Files that are written from code and checked in: written anew, or checked with --check."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]


def settle(files: Mapping[Path, str], command: str) -> int:
    """Write the files; with --check among the arguments only name those that are not up to date,
    and what writes them. Returns the exit code."""
    stale = [path for path, text in files.items() if _text(path) != text]
    if "--check" not in sys.argv:
        for path in stale:
            path.write_text(files[path], encoding="utf-8")
        return 0
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not up to date: {command}", file=sys.stderr)
    return 1 if stale else 0


def below(path: Path, mark: str, text: str) -> str:
    """Return the file's text up to the mark, as people wrote it, and below it `text`."""
    return path.read_text(encoding="utf-8").partition(mark)[0] + mark + text


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None
