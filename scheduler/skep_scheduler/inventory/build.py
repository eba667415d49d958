"""`build`: the configuration of the cells that an inventory makes, whatever it looks like."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from skep_scheduler.cells.problems import Problem
from skep_scheduler.cells.shape import LEAF, Config, Shape, Sku, VcSpec
from skep_scheduler.inventory import layout as layouts
from skep_scheduler.inventory.claims import Shortfall, Stock, meet
from skep_scheduler.inventory.layout import Layout, Tops, at_level
from skep_scheduler.inventory.names import is_usable, leaf_type
from skep_scheduler.inventory.pins import Pinner
from skep_scheduler.inventory.trees import Chain, chains
from skep_scheduler.model import facts


class _Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=_Named)


@dataclass(frozen=True, slots=True)
class Clean:
    """All by name."""

    nodes: Mapping[str, facts.Node]
    virtual_clusters: Mapping[str, facts.VirtualCluster]
    pins: Mapping[str, facts.Pin]
    problems: tuple[Problem, ...]


@dataclass
class _Cleaner:
    problems: list[Problem] = field(default_factory=list)
    owner: dict[str, str] = field(default_factory=dict)  # node by device

    def once(self, things: Iterable[T], where: str) -> dict[str, T]:
        found: dict[str, T] = {}
        for thing in _in_order(list(things)):
            if thing.name in found:
                self.problems.append(Problem(f"{where}.{thing.name}", "is listed twice"))
            found.setdefault(thing.name, thing)
        return found

    def node(self, node: facts.Node) -> facts.Node:
        return replace(node, devices=tuple(d for d in node.devices if self._is_new(node.name, d)))

    def _is_new(self, node: str, device: facts.Device) -> bool:
        path = f"nodes.{node}"
        if not is_usable(device.uuid):
            self.problems.append(Problem(path, f"GPU {device.uuid!r} cannot be named in a cell"))
        elif device.uuid in self.owner:
            other = self.owner[device.uuid]
            self.problems.append(Problem(path, f"GPU {device.uuid} is on node {other} already"))
        else:
            self.owner[device.uuid] = node
            return True
        return False


def clean(inventory: facts.Inventory) -> Clean:
    """A GPU that several nodes report belongs to the first of them by name."""
    cleaner = _Cleaner()
    nodes = {}
    for name, node in cleaner.once(map(_ordered, inventory.nodes), "nodes").items():
        if is_name_of_node(name):
            nodes[name] = cleaner.node(node)
        else:
            cleaner.problems.append(Problem("nodes", f"{name!r} cannot be the name of a node"))
    vcs = cleaner.once(inventory.virtual_clusters, "virtual_clusters")
    pins = cleaner.once(inventory.pins, "pins")
    return Clean(nodes, vcs, pins, tuple(cleaner.problems))


def _ordered(node: facts.Node) -> facts.Node:
    devices = sorted(node.devices, key=lambda d: (d.index, d.uuid, d.model, d.healthy))
    return replace(node, devices=tuple(devices))


def _in_order(things: list[T]) -> list[T]:
    """Return those of one name in the order of their contents, which is slow to compute."""
    if len({thing.name for thing in things}) == len(things):
        return sorted(things, key=lambda thing: thing.name)
    return sorted(things, key=lambda thing: (thing.name, repr(thing)))


def is_name_of_node(name: str) -> bool:
    return bool(name) and "/" not in name


@dataclass(frozen=True, slots=True)
class Built:
    """`shortfalls` are what VCs own on paper and do not get, `problems` oddities of nodes and of
    the imported file. `models` has the GPU models of each leaf type, `left` the cells by chain and
    level that could be claimed besides (of one level at a time)."""

    config: Config
    shortfalls: tuple[Shortfall, ...] = ()
    problems: tuple[Problem, ...] = ()
    models: Mapping[str, frozenset[str]] = field(default_factory=dict)
    left: Mapping[str, Sequence[int]] = field(default_factory=dict)


def build(inventory: facts.Inventory) -> Built:
    """Build the configuration. Never raises for the state of nodes, and does not depend on their
    order."""
    cleaned = clean(inventory)
    layout = layouts.read(inventory.layout, cleaned.nodes)
    own = [node for name, node in cleaned.nodes.items() if name not in layout.nodes]
    shapes, tops = _merge(layout, chains(own))
    pinner = _pin(shapes, tops, cleaned)
    owners = {pin.name: pin.vc for pin in pinner.owned.values()}
    marked = tuple(pinner.marked())
    stock = Stock(shapes, marked, owners)
    models = _models(shapes, tops, cleaned.nodes)
    vcs = list(cleaned.virtual_clusters.values())
    shares, short = meet(stock, vcs, models)
    specs = {
        vc.name: VcSpec(
            vc.name,
            tuple(shares[vc.name]),
            tuple(pin for pin, owner in owners.items() if owner == vc.name),
        )
        for vc in vcs
    }
    return Built(
        Config(shapes, marked, specs, _skus(layout, own)),
        (*pinner.short, *short),
        (*cleaned.problems, *layout.problems),
        models,
        {chain: stock.left(chain) for chain in shapes},
    )


def _merge(layout: Layout, own: Iterable[Chain]) -> tuple[dict[str, Shape], Tops]:
    """Put the chains of the file first. Where a type of ours means something else in
    the file, our types get other names."""
    shapes, tops = dict(layout.shapes), list(layout.tops)
    for chain in own:
        renamed, times = chain.shape, 1
        while not _agrees(renamed, layout):
            renamed, times = _renamed(chain.shape, f"AGENT{times}"), times + 1
        shapes[renamed.chain] = renamed
        tops += [(renamed.chain, top) for top in chain.tops]
    return {chain: shapes[chain] for chain in sorted(shapes)}, tops


def _agrees(shape: Shape, layout: Layout) -> bool:
    """A leaf may be a leaf in the file, another type what it is there."""
    theirs = {
        level.type: (shape, level) for shape in layout.shapes.values() for level in shape.levels
    }
    for level in shape.levels:
        if level.type not in theirs:
            continue
        other_shape, other = theirs[level.type]
        if (level.width, level.is_node) != (other.width, other.is_node):
            return False
        if level.width and shape.at(level.level - 1).type != other_shape.at(other.level - 1).type:
            return False
    return True


def _renamed(shape: Shape, mark: str) -> Shape:
    """Return a shape with marked types, which all begin with the type of the node."""
    node = shape.at(shape.node_level).type
    levels = tuple(
        level if not level.width else replace(level, type=f"{node}-{mark}{level.type[len(node) :]}")
        for level in shape.levels
    )
    return Shape(levels[-1].type, levels)


def _pin(shapes: Mapping[str, Shape], tops: Tops, cleaned: Clean) -> Pinner:
    """Pins that a VC owns come first, so that no other is in their way."""
    pinner = Pinner(shapes, tops, cleaned.nodes)
    pins = list(enumerate(cleaned.pins.values()))
    for i, pin in sorted(pins, key=lambda pair: not pair[1].vc):
        path = f"pins[{i}]"
        if pin.vc and pin.vc not in cleaned.virtual_clusters:
            pin = replace(pin, vc="")
        pinner.pin(pin, path)
    return pinner


def _models(
    shapes: Mapping[str, Shape], tops: Tops, nodes: Mapping[str, facts.Node]
) -> dict[str, frozenset[str]]:
    """Agents' models by what they are called in cells; a leaf type's own name is one, too."""
    models = {shape.leaf_type: {shape.leaf_type} for shape in shapes.values()}
    of_device = {device.uuid: device.model for node in nodes.values() for device in node.devices}
    for chain, top in tops:
        shape = shapes[chain]
        names = (leaf.name for leaf in at_level(shape, top, LEAF))
        models[shape.leaf_type].update(of_device[name] for name in names if name in of_device)
    return {leaf: frozenset(names) for leaf, names in models.items()}


def _skus(layout: Layout, nodes: Iterable[facts.Node]) -> dict[str, Sku]:
    """Return a device's share of its node; of the poorest one where nodes differ."""
    shares: dict[str, tuple[int, int]] = {}
    for node in nodes:
        for leaf in {leaf_type(device.model) for device in node.devices}:
            cpu, memory = node.cpu_millis // 1000, node.memory_mb
            number = len(node.devices)
            known = shares.get(leaf, (cpu // number, memory // number))
            shares[leaf] = min(known[0], cpu // number), min(known[1], memory // number)
    own = {leaf: Sku(1, max(cpu, 0), f"{max(mb, 0)}Mi") for leaf, (cpu, mb) in shares.items()}
    return dict(sorted({**own, **layout.skus}.items()))
