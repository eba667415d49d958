"""The problems of a configuration, collected while it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """`path` is where in the file, such as `virtualClusters.vc1.virtualCells[0].cellType`."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class ConfigError(ValueError):
    """`problems` has every error of the file, not only the first one."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


class Problems:
    """Collects problems while a file is read."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, path: str, message: str) -> None:
        self.found.append(Problem(path, message))

    def raise_any(self) -> None:
        if self.found:
            raise ConfigError(self.found)

    def mapping(self, value: object, path: str) -> dict[str, Any]:
        """Return `value` as a mapping with string keys; {} for null, and with a problem for
        others."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, "must be a mapping")
            return {}
        return {str(key): entry for key, entry in value.items()}

    def items(self, value: object, path: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the mappings of a list, each with its path."""
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add(path, "must be a list")
            return []
        paths = [f"{path}[{i}]" for i in range(len(value))]
        return [(p, self.mapping(entry, p)) for p, entry in zip(paths, value, strict=True)]

    def number(self, value: object, path: str, least: int) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and value >= least:
            return value
        self.add(path, f"must be a whole number of at least {least}, not {value!r}")
        return least
