"""Reads clusters: inline shapes, CSV files, and HiveD's configuration file.

- `8x8xV100+4x8xA100`: 8 nodes of 8 V100, 4 nodes of 8 A100
- CSV with `num_switch,num_node_p_switch,num_gpu_p_node`: the specification of Tiresias and others
- CSV with `vc,node num`: virtual clusters, each with its nodes of 8 GPUs
- CSV with `nodes,gpus,model` and, if wanted, `vc`: one group of nodes a line
- CSV with `node,gpus,model`: one node a line, with its name
- CSV with `sn,cpu_milli,memory_mib,gpu,model`: one node a line (openb)
- YAML or JSON with `physicalCluster`: HiveD
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.problems import ConfigError
from skep_scheduler.cells.shape import CellSpec, Shape
from skep_scheduler.simulator.workload import WorkloadError, groups_of

GPUS_OF_PHILLY_NODE = 8
MOST_GPUS = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes. CPU and memory of each are 0 where the source does not have them."""

    nodes: int
    gpus: int
    model: str
    cpu_millis: int = 0
    memory_mb: int = 0


@dataclass(frozen=True, slots=True)
class Hardware:
    """Groups of nodes; `vcs` has the GPUs of each node of a virtual cluster, where the file says
    which nodes it owns; `hived` is the data of a HiveD file; `names` are those of the nodes, where
    the file has them."""

    groups: tuple[NodeGroup, ...]
    vcs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    hived: Mapping[str, Any] | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of_shape(cls, shape: str) -> Hardware:
        """Raises `WorkloadError`."""
        return cls(tuple(NodeGroup(*group) for group in groups_of(shape)))

    @property
    def gpus(self) -> int:
        return sum(group.nodes * group.gpus for group in self.groups)

    @property
    def shape(self) -> str:
        return "+".join(f"{g.nodes}x{g.gpus}x{g.model}" for g in self.groups)

    def node_sizes(self) -> list[int]:
        return [group.gpus for group in self.groups for _ in range(group.nodes)]

    def nodes_with(self, speeds: Mapping[str, float]) -> list[tuple[int, float]]:
        """Return the GPUs and the speed of each node, by speeds of models in small letters. Raises
        `WorkloadError` for a model that the cluster has not."""
        unknown = speeds.keys() - {group.model.lower() for group in self.groups}
        if unknown:
            raise WorkloadError(
                f"--speeds: the cluster has no GPUs of {', '.join(sorted(unknown))}", "bad_option"
            )
        return [
            (group.gpus, speeds.get(group.model.lower(), 1.0))
            for group in self.groups
            for _ in range(group.nodes)
        ]


def read_cluster(text: str) -> Hardware:
    """Return the cluster of a shape, or of a file. Raises `WorkloadError`."""
    path = Path(text)
    if path.suffix.lower() in (".csv", ".yaml", ".yml", ".json"):
        try:
            hardware = _read(path)
        except UnicodeDecodeError:
            raise _bad(f"{path}: not a text file in UTF-8") from None
        except csv.Error as error:
            raise _bad(f"{path}: not a CSV file: {error}") from None
        except OSError as error:
            raise _bad(f"{path}: {error.strerror or error}") from None
    else:
        hardware = Hardware.of_shape(text)
    if hardware.gpus > MOST_GPUS:
        raise _bad(f"{text}: {hardware.gpus:,} GPUs; a simulated cluster has at most {MOST_GPUS:,}")
    return hardware


def _read(path: Path) -> Hardware:
    if path.suffix.lower() != ".csv":
        return _hived(path)
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines()))
    if not rows:
        raise _bad(f"{path}: no rows")
    header = set(rows[0])
    if {"num_switch", "num_node_p_switch", "num_gpu_p_node"} <= header:
        row = rows[0]
        nodes = _whole(path, 2, row, "num_switch") * _whole(path, 2, row, "num_node_p_switch")
        return Hardware((NodeGroup(nodes, _whole(path, 2, row, "num_gpu_p_node"), "GPU"),))
    if {"vc", "node num"} <= header:
        owned = {
            row["vc"]: [GPUS_OF_PHILLY_NODE] * _whole(path, line, row, "node num")
            for line, row in enumerate(rows, 2)
        }
        nodes = sum(len(sizes) for sizes in owned.values())
        return Hardware((NodeGroup(nodes, GPUS_OF_PHILLY_NODE, "P100"),), owned)
    if {"nodes", "gpus", "model"} <= header:
        return _groups(path, rows)
    if {"node", "gpus", "model"} <= header:
        return _named(path, rows)
    if {"sn", "gpu", "model"} <= header:
        return Hardware(tuple(_node(path, line, row) for line, row in enumerate(rows, 2)))
    raise _bad(
        f"{path}, line 1: the columns {sorted(header)} are none of a cluster's; it has "
        "`nodes,gpus,model`, or those of a known specification"
    )


def _groups(path: Path, rows: Sequence[Mapping[str, str]]) -> Hardware:
    groups: list[NodeGroup] = []
    vcs: dict[str, list[int]] = {}
    for line, row in enumerate(rows, 2):
        model = (row["model"] or "").strip()
        if not model:
            raise _bad(f"{path}, line {line}, column model: it is empty")
        group = NodeGroup(_whole(path, line, row, "nodes"), _whole(path, line, row, "gpus"), model)
        groups.append(group)
        if row.get("vc"):
            vcs.setdefault(row["vc"], []).extend([group.gpus] * group.nodes)
    return Hardware(tuple(groups), vcs)


def _named(path: Path, rows: Sequence[Mapping[str, str]]) -> Hardware:
    groups, names = [], dict[str, int]()
    for line, row in enumerate(rows, 2):
        name, model = ((row[column] or "").strip() for column in ("node", "model"))
        if not name or not model:
            empty = "model" if name else "node"
            raise _bad(f"{path}, line {line}, column {empty}: it is empty")
        if "/" in name:
            raise _bad(f"{path}, line {line}, column node: {name!r} has a /; cells are named so")
        if name in names:
            raise _bad(f"{path}, line {line}, column node: {name} is on line {names[name]}, too")
        names[name] = line
        groups.append(NodeGroup(1, _whole(path, line, row, "gpus"), model))
    return Hardware(tuple(groups), names=tuple(names))


def _node(path: Path, line: int, row: Mapping[str, str]) -> NodeGroup:
    sizes = [
        _whole(path, line, row, column, 1 << 40) if row.get(column) else 0
        for column in ("cpu_milli", "memory_mib")
    ]
    return NodeGroup(1, _whole(path, line, row, "gpu"), row["model"] or "", *sizes)


def _whole(path: Path, line: int, row: Mapping[str, str], column: str, most: int = 100_000) -> int:
    text = (row.get(column) or "").strip()
    if not text.isdigit() or len(text) > 20 or not 1 <= int(text) <= most:
        raise _bad(f"{path}, line {line}, column {column}: {text!r} is not a number from 1 on")
    return int(text)


def _hived(path: Path) -> Hardware:
    from ruamel.yaml import YAML, YAMLError

    try:
        data = YAML(typ="safe", pure=True).load(path)
        if not isinstance(data, dict):
            raise _bad(f"{path}: not a configuration of HiveD: it has no `physicalCluster`")
        config = read_config(data)
    except (YAMLError, ConfigError, AttributeError, TypeError, KeyError) as error:
        raise _bad(f"{path}: not a configuration of HiveD: {error}") from None
    groups = []
    for chain, top in config.tops:
        shape = config.shapes[chain]
        groups += [
            NodeGroup(1, leaves, shape.at(1).type) for leaves in _nodes(shape, top, shape.top)
        ]
    if not groups:
        raise _bad(f"{path}: no nodes")
    return Hardware(tuple(groups), hived=data)


def _nodes(shape: Shape, cell: CellSpec, level: int) -> Iterator[int]:
    """Yield the GPUs of each node of a cell."""
    if shape.at(level).is_node or level == 1:
        yield _leaves(cell, level)
        return
    for child in cell.children:
        yield from _nodes(shape, child, level - 1)


def _leaves(cell: CellSpec, level: int) -> int:
    if level == 1:
        return 1
    return sum(_leaves(child, level - 1) for child in cell.children)


def _bad(message: str) -> WorkloadError:
    return WorkloadError(message, "bad_cluster")
