"""Reads HiveD's configuration (`hivedscheduler.yaml` as plain data) and checks it whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from skep_scheduler.cells.feasible import infeasible_claims
from skep_scheduler.cells.problems import Problems
from skep_scheduler.cells.read_physical import read_shapes, read_tops
from skep_scheduler.cells.shape import CellSpec, Config, Shape, Share, Sku, VcSpec


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
    for claim in infeasible_claims(config):
        problems.add("virtualClusters", str(claim))
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


def read_vcs(
    data: object,
    shapes: Mapping[str, Shape],
    tops: Sequence[tuple[str, CellSpec]],
    problems: Problems,
) -> dict[str, VcSpec]:
    chains = {chain: shapes[chain] for chain, _ in tops}
    pins = {cell.pin: cell for _, top in tops for cell in walk(top) if cell.pin is not None}
    owners: dict[str, str] = {}
    vcs = {}
    for name, value in problems.mapping(data, "virtualClusters").items():
        path = f"virtualClusters.{name}"
        entry = problems.mapping(value, path)
        shares = _shares(entry, path, chains, problems)
        vcs[name] = VcSpec(name, shares, _pins(entry, path, pins, owners, problems))
    _check_overlaps(pins, owners, problems)
    return vcs


def walk(cell: CellSpec) -> Iterator[CellSpec]:
    yield cell
    for child in cell.children:
        yield from walk(child)


def _shares(
    entry: Mapping[str, Any], path: str, chains: Mapping[str, Shape], problems: Problems
) -> tuple[Share, ...]:
    shares = []
    for where, cell in problems.items(entry.get("virtualCells"), f"{path}.virtualCells"):
        number = problems.number(cell.get("cellNumber"), f"{where}.cellNumber", 0)
        found = _locate(str(cell.get("cellType", "")), f"{where}.cellType", chains, problems)
        if found is not None:
            shares.append(Share(*found, number))
    return tuple(shares)


def _locate(
    name: str, path: str, chains: Mapping[str, Shape], problems: Problems
) -> tuple[str, int] | None:
    """Return chain and level of `chain.type.….type`."""
    if name in chains:
        return name, chains[name].top
    for chain in sorted(chains, key=len, reverse=True):  # a type's name may have dots itself
        if name.startswith(f"{chain}."):
            break
    else:
        problems.add(path, f"{name!r} does not begin with the type of a physical cell")
        return None
    levels, rest, above = chains[chain].level_of, name[len(chain) + 1 :], chains[chain].top
    while rest:
        fits = [t for t in levels if rest == t or rest.startswith(f"{t}.")]
        if not fits or levels[max(fits, key=len)] >= above:
            problems.add(path, f"{rest!r} is no path of cell types within {chain}")
            return None
        step = max(fits, key=len)
        above, rest = levels[step], rest[len(step) + 1 :]
    return chain, above


def _pins(
    entry: Mapping[str, Any],
    path: str,
    known: Mapping[str, CellSpec],
    owners: dict[str, str],
    problems: Problems,
) -> tuple[str, ...]:
    pins = []
    for where, cell in problems.items(entry.get("pinnedCells"), f"{path}.pinnedCells"):
        pin, at = str(cell.get("pinnedCellId", "")), f"{where}.pinnedCellId"
        if pin not in known:
            problems.add(at, f"no physical cell is pinned as {pin!r}")
        elif owners.setdefault(pin, at) != at:
            problems.add(at, f"pinned cell {pin} was given already at {owners[pin]}")
        else:
            pins.append(pin)
    return tuple(pins)


def _check_overlaps(
    pins: Mapping[str, CellSpec], owners: Mapping[str, str], problems: Problems
) -> None:
    """A pinned cell within another one, both of which VCs own, would be owned twice."""
    for pin in owners:
        for inner in walk(pins[pin]):
            if inner.pin is not None and inner.pin != pin and inner.pin in owners:
                message = f"pinned cell {inner.pin} lies in pinned cell {pin}, which is owned, too"
                problems.add(owners[inner.pin], message)
