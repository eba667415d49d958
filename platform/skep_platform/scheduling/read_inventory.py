"""What the cells are made of, read from the database: nodes, what virtual clusters own, layout."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

import structlog
from django.conf import settings
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from skep_platform.cluster import floors, layouts
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.tenancy import claims
from skep_scheduler import facts

log = structlog.get_logger(__name__)

NODE = (
    "pk",
    "name",
    "cpu_millis",
    "memory_mb",
    "state",
    "cordoned",
    "topology",
    "labels",
    "components",
    "driver_version",
)
DEVICE = ("node_id", "uuid", "model", "index", "health")
NOWHERE = (NodeState.JOINED, NodeState.REMOVED)  # never seen, or gone for good


def nodes(ids: Collection[str] | None = None) -> dict[str, facts.Node]:
    """The nodes by id, of these or all; two queries. Those that are not there are left out."""
    rows = Node.objects.exclude(state__in=NOWHERE).order_by("pk")
    devices = Device.objects.order_by("node_id", "index", "uuid")
    if ids is not None:
        rows, devices = rows.filter(pk__in=ids), devices.filter(node_id__in=ids)
    by_node: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for node_id, *device in devices.values_list(*DEVICE):
        by_node[node_id].append(tuple(device))
    return {str(row[0]): _node(row, by_node[row[0]]) for row in rows.values_list(*NODE)}


def inventory(known: Iterable[facts.Node]) -> facts.Inventory:
    """Of these nodes; five queries for what virtual clusters own and how cells are laid out."""
    vcs, pins = claims.read()
    in_order = sorted(known, key=lambda node: node.name)
    return facts.Inventory(tuple(in_order), vcs, pins, layout(layouts.current().text))


@lru_cache(maxsize=2)
def layout(text: str) -> Mapping[str, Any] | None:
    """An imported HiveD file as plain data. It was checked before it was stored."""
    if not text.strip():
        return None
    try:
        data = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        log.error("layout_unreadable", error=str(error)[:300])
        return None
    return data if isinstance(data, dict) else None


def _is_safe(components: dict[str, str], driver: str) -> bool:
    """Nothing new is placed on a node below a floor where the setting refuses it."""
    if settings.SKEP_VERSION_FLOORS != "refuse":
        return True
    return not floors.below(components | {"driver": driver})


def _node(row: tuple[Any, ...], devices: list[tuple[Any, ...]]) -> facts.Node:
    _, name, cpu_millis, memory_mb, state, cordoned, topology, labels, components, driver = row
    present = {index for _, _, index, health in devices if health != Device.Health.ABSENT}
    return facts.Node(
        name=name,
        cpu_millis=cpu_millis,
        memory_mb=memory_mb,
        devices=tuple(
            facts.Device(uuid, model, index, health == Device.Health.HEALTHY)
            for uuid, model, index, health in devices
            # One that fell off the bus leaves a hole, unless another one was put in its place.
            if health != Device.Health.ABSENT or index not in present
        ),
        schedulable=state == NodeState.ONLINE and not cordoned and _is_safe(components, driver),
        topology=topology,
        labels=labels,
        cordoned=cordoned,
    )
