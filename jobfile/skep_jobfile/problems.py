"""What can be wrong with a job file: said with a stable code, a sentence and a place."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from skep_jobfile.plain import plain

Path = tuple[str | int, ...]
MAX_SHOWN = 100
NAMED = re.compile(r"[\w.$@/ -]{1,100}")


@dataclass(frozen=True, slots=True)
class Issue:
    """Something wrong at `path` of the data; `at_key`: with the key itself, not its value.
    `details` are the numbers behind the message, for a caller that answers with one issue only."""

    code: str
    message: str
    path: Path
    at_key: bool = False
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Problem:
    """An issue with its place in the text; line and column count from 1."""

    code: str
    message: str
    path: str
    line: int
    column: int

    def __post_init__(self) -> None:
        """What is repeated of the file steers no terminal."""
        object.__setattr__(self, "message", plain(self.message))
        object.__setattr__(self, "path", plain(self.path))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class InvalidJobFile(ValueError):
    """The job file cannot be accepted; `problems` has every reason at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = list(problems[:MAX_SHOWN])
        first = self.problems[0]
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        where = f"{first.path}: " if first.path else ""
        super().__init__(f"Line {first.line}: {where}{first.message}{more}")


def words(path: Path) -> str:
    """Return a path as people write it: `prerequisites[0].uri`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{named(step)}" if text else named(step)
    return text


def named(key: str) -> str:
    """A key as errors repeat it: what looks like no name may be a value in the wrong place, even
    a secret."""
    return key if NAMED.fullmatch(key) else "…"
