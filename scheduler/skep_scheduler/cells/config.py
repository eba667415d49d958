"""Reads HiveD's configuration (`hivedscheduler.yaml` as plain data) and checks it whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from skep_scheduler.cells.feasible import shortages
from skep_scheduler.cells.read_physical import read_shapes, read_tops
from skep_scheduler.cells.read_virtual import read_vcs
from skep_scheduler.cells.shape import Config, Sku


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
        """`value` as a mapping with string keys; {} for null, and with a problem for others."""
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.add(path, "must be a mapping")
            return {}
        return {str(key): entry for key, entry in value.items()}

    def items(self, value: object, path: str) -> list[tuple[str, dict[str, Any]]]:
        """The mappings of a list, each with its path."""
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


def read_config(data: Mapping[str, Any]) -> Config:
    """Raises `ConfigError` with all problems; a VC assignment that does not fit is one of them."""
    problems = Problems()
    physical = problems.mapping(data.get("physicalCluster"), "physicalCluster")
    shapes = read_shapes(physical, problems)
    tops = read_tops(physical, shapes, problems)
    skus = read_skus(physical, problems)
    vcs = read_vcs(data.get("virtualClusters"), shapes, tops, problems)
    problems.raise_any()
    used = {chain for chain, _ in tops}
    config = Config({name: shapes[name] for name in sorted(used)}, tuple(tops), vcs, skus)
    check_feasible(config)
    return config


def check_feasible(config: Config) -> None:
    """Raises `ConfigError` with the numbers where the VCs' cells do not all fit."""
    problems = Problems()
    for shortage in shortages(config):
        problems.add("virtualClusters", str(shortage))
    problems.raise_any()


def read_skus(physical: Mapping[str, Any], problems: Problems) -> dict[str, Sku]:
    path = "physicalCluster.skuTypes"
    skus = {}
    for name, value in problems.mapping(physical.get("skuTypes"), path).items():
        entry = problems.mapping(value, f"{path}.{name}")
        skus[name] = Sku(
            problems.number(entry.get("gpu", 0), f"{path}.{name}.gpu", 0),
            problems.number(entry.get("cpu", 0), f"{path}.{name}.cpu", 0),
            str(entry.get("memory", "")),
        )
    return skus
