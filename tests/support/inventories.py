"""Inventories for tests: nodes as agents report them, and random states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from tests.support.cells import hierarchies

from skep_scheduler.inventory import build
from skep_scheduler.inventory.names import leaf_type
from skep_scheduler.model import Claim, Device, Inventory, Node, Pin, VirtualCluster

A100 = "NVIDIA A100-SXM4-80GB"
A100_NODE = "A100-SXM4-80GB-NODE8"
WORDS = ("NV12", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS", "?")


def node(name: str, gpus: int = 8, model: str = A100, **labels: str) -> Node:
    """With 8 cores and 64 GiB for each GPU."""
    devices = tuple(Device(f"GPU-{name}-{i}", model, i) for i in range(gpus))
    return Node(name, 8000 * gpus, 65536 * gpus, devices, labels=labels)


def joined(node: Node, word: Callable[[int, int], str]) -> Node:
    """The node with a topology: the word for each pair of device numbers."""
    topology = {
        a.uuid: {b.uuid: word(a.index, b.index) for b in node.devices if a is not b}
        for a in node.devices
    }
    return Node(
        node.name,
        node.cpu_millis,
        node.memory_mb,
        node.devices,
        node.schedulable,
        topology,
        node.labels,
    )


def vc(name: str, *claims: tuple[str, str, int]) -> VirtualCluster:
    return VirtualCluster(name, tuple(Claim(*claim) for claim in claims))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    """Odd ones, too: mixed models, GPUs listed twice or on other nodes, topologies that make no
    sense."""
    number = draw(st.sampled_from([0, 1, 2, 4, 4, 6, 8]))
    models = draw(st.sampled_from([(A100,), (A100,), ("V100",), (A100, "V100"), ("G",)]))
    devices = [
        Device(
            draw(st.sampled_from([f"GPU-{name}-{i}"] * 19 + ["GPU-stray"])),
            models[i % len(models)],
            draw(st.sampled_from([i] * 9 + [0])),
            draw(st.booleans()),
        )
        for i in range(number)
    ]
    topology: dict[str, dict[str, str]] = {}
    if draw(st.booleans()):
        group = draw(st.sampled_from([1, 2, 3, 4]))
        near, far = draw(st.sampled_from(WORDS)), draw(st.sampled_from(WORDS))
        for a in devices:
            topology[a.uuid] = {
                b.uuid: near if a.index // group == b.index // group else far
                for b in devices
                if draw(st.integers(0, 19)) or a is b
            }
    labels = {}
    if draw(st.booleans()):
        labels["rack"] = draw(st.sampled_from(["r1", "r2", "r3", " ", "r/4"]))
    if draw(st.integers(0, 3)) == 0:
        labels["fabric"] = draw(st.sampled_from(["f1", "f2"]))
    return Node(name, 64000, 512_000, tuple(devices), draw(st.booleans()), topology, labels)


@st.composite
def states(draw: st.DrawFn) -> Inventory:
    """Inventories with claims and pins, most of which make sense, and maybe with a file."""
    names = draw(st.lists(st.sampled_from(["n1", "n2", "n3", "n4", "n5", "g1", "g2"]), max_size=7))
    hosts = tuple(draw(nodes(name)) for name in names)
    layout = draw(st.one_of(st.none(), st.none(), layouts()))
    shapes = build(Inventory(hosts, layout=layout)).config.shapes
    pairs = [(chain, level.type) for chain, s in shapes.items() for level in s.levels]
    models = sorted({device.model for host in hosts for device in host.devices})
    wishes = [*pairs, *(("", model) for model in models), ("X", "X"), ("", "no model")]
    vcs = tuple(
        VirtualCluster(
            name,
            tuple(
                Claim(*draw(st.sampled_from(wishes)), draw(st.integers(0, 9)))
                for _ in range(draw(st.integers(0, 3)))
            ),
        )
        for name in draw(st.lists(st.sampled_from("abc"), max_size=4))
    )
    pins = tuple(
        Pin(
            draw(st.sampled_from("pqrs")),
            draw(st.sampled_from([t for _, t in pairs] or ["X"])),
            draw(st.sampled_from([*names, "n1", "nowhere"])),
            draw(st.sampled_from(["", "0", *(d.uuid for host in hosts for d in host.devices)])),
            draw(st.sampled_from(["", "a", "b", "gone"])),
        )
        for _ in range(draw(st.integers(0, 4)))
    )
    return Inventory(hosts, vcs, pins, layout)


@st.composite
def layouts(draw: st.DrawFn) -> Any:
    """Files: whole ones, of nodes g0, g1 …, and broken ones."""
    data = draw(hierarchies(draw(st.sampled_from(["G", "V100", leaf_type(A100)]))))
    breakage = draw(st.sampled_from(["", "", "", "child", "cells", "junk"]))
    if breakage == "child":
        next(iter(data["physicalCluster"]["cellTypes"].values()))["childCellNumber"] = "two"
    elif breakage == "cells":
        data["physicalCluster"]["physicalCells"].append(3)
    elif breakage == "junk":
        return {"physicalCluster": [1]}
    return data
