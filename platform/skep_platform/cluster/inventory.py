"""What an agent says its node has, made safe to store and compared with what is known.

An agent may be buggy or hostile: text is bounded, numbers fit their columns, and a GPU that
another living node reports stays there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from skep_agent.protocol import Gpu, Inventory
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.core.errors import SkepError
from skep_platform.core.events import event
from skep_platform.core.models import Event
from skep_scheduler.inventory import gpu_model

MAX_GPUS = 256
MAX_LABELS = 64
MAX_WARNINGS = 16
COMPONENTS = ("runc", "toolkit", "kernel", "cuda", "vbios", "infiniband")
MAX_INT = 2**31 - 1
UUID = re.compile(r"[A-Za-z0-9][A-Za-z0-9/_.:-]{0,79}")
ADDRESS = re.compile(r"[A-Za-z0-9._:-]{0,255}")
ABSENT_PROBLEM = "Its node no longer reports it."


class InvalidInventory(SkepError):
    code = "inventory_invalid"


def check(inventory: Inventory) -> None:
    """Raises InvalidInventory for what cannot be stored or makes no sense."""
    uuids = [gpu.uuid for gpu in inventory.gpus]
    first, last = inventory.port_range
    problems = {
        "more than 256 GPUs": len(uuids) > MAX_GPUS,
        "a GPU is listed twice": len(set(uuids)) != len(uuids),
        "a GPU UUID is malformed": not all(UUID.fullmatch(u) for u in uuids),
        "a GPU has an impossible size or index": not all(map(_plausible, inventory.gpus)),
        "the address is malformed": not ADDRESS.fullmatch(inventory.address),
        "cpus or memory is out of range": not (
            0 <= inventory.cpus <= 65536 and 0 <= inventory.memory_mb <= MAX_INT
        ),
        "the port range is not within 1024..65535": not 1024 <= first <= last <= 65535,
        "too many labels": len(inventory.labels) > MAX_LABELS,
        "text with a NUL character": "\\u0000" in inventory.model_dump_json(),
    }
    wrong = [problem for problem, holds in problems.items() if holds]
    if wrong:
        raise InvalidInventory(f"The inventory is refused: {wrong[0]}.", problems=wrong)


def digest(inventory: Inventory) -> str:
    """SHA-256 of all that it says, in hex."""
    return hashlib.sha256(inventory.model_dump_json().encode()).hexdigest()


def node_fields(node: Node, inventory: Inventory) -> dict[str, object]:
    """The columns of `Node` that an inventory sets. What an admin labelled stays."""
    known = {gpu.uuid for gpu in inventory.gpus}
    reported = {key[:63]: value[:255] for key, value in inventory.labels.items()}
    return {
        "address": inventory.address,
        "cpu_millis": int(inventory.cpus * 1000),
        "memory_mb": inventory.memory_mb,
        "port_first": inventory.port_range[0],
        "port_last": inventory.port_range[1],
        "driver_version": inventory.driver_version[:64],
        "engine_version": inventory.engine_version[:64],
        "components": {n: v[:64] for n, v in inventory.components.items() if n in COMPONENTS},
        "runtime": inventory.runtime[:16],
        "gang_network": inventory.gang_network,
        "rdma": bool(inventory.rdma_devices),
        "network_problem": inventory.network_problem[:300],
        "warnings": [
            {"code": one.code[:40], "message": one.message[:300], "action": one.action[:300]}
            for one in inventory.warnings[:MAX_WARNINGS]
        ],
        "topology": {
            a: {b: level[:8] for b, level in row.items() if b in known}
            for a, row in inventory.topology.items()
            if a in known
        },
        "reported_labels": reported,
        "labels": reported | node.admin_labels,
    }


@dataclass(slots=True)
class Changes:
    """What an inventory changes in the devices table."""

    new: list[Device] = field(default_factory=list)
    changed: list[Device] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    elsewhere: bool = False  # a GPU stays with another node

    def __bool__(self) -> bool:
        return bool(self.new or self.changed)


def compare(node: Node, gpus: Sequence[Gpu], known: Iterable[Device], leased: set[str]) -> Changes:
    """Pure: `known` are the devices of this node and all others with a reported UUID (with their
    node loaded), `leased` the UUIDs with an active lease. The devices in the answer are modified
    in place and not saved."""
    changes = Changes()
    by_uuid = {device.uuid: device for device in known}
    for gpu in gpus:
        device = by_uuid.pop(gpu.uuid, None)
        if device is None:
            _appear(changes, node, gpu)
        elif device.node_id != node.pk and not _may_move(device, leased):
            changes.events.append(_claimed(node, device))
            changes.elsewhere = True
        else:
            _update(changes, node, device, gpu)
    for device in by_uuid.values():
        if device.node_id == node.pk:
            _vanish(changes, node, device)
    return changes


def _plausible(gpu: Gpu) -> bool:
    numa_ok = gpu.numa_node is None or -1 <= gpu.numa_node < 32768
    return 0 <= gpu.memory_mb <= MAX_INT and 0 <= gpu.index < 32768 and numa_ok


def _may_move(device: Device, leased: set[str]) -> bool:
    """A leased GPU never moves; one that a living node still reports belongs to that node."""
    living = device.node.state in (NodeState.ONLINE, NodeState.UNREACHABLE)
    return device.uuid not in leased and not (living and device.health != Device.Health.ABSENT)


def _columns(gpu: Gpu) -> dict[str, object]:
    return {
        "model": gpu_model(gpu.model)[:100],
        "memory_mb": gpu.memory_mb,
        "index": gpu.index,
        "pci_bus_id": gpu.pci_bus_id[:32],
        "numa_node": gpu.numa_node,
        "health": Device.Health.HEALTHY if gpu.healthy else Device.Health.BAD,
        "problem": "" if gpu.healthy else gpu.problem[:200],
    }


def _appear(changes: Changes, node: Node, gpu: Gpu) -> None:
    device = Device(uuid=gpu.uuid, node=node, **_columns(gpu))
    changes.new.append(device)
    if device.health == Device.Health.BAD:
        changes.events.append(_bad(node, device))


def _update(changes: Changes, node: Node, device: Device, gpu: Gpu) -> None:
    before = device.health
    columns = {"node_id": node.pk} | _columns(gpu)
    if all(getattr(device, name) == value for name, value in columns.items()):
        return
    for name, value in columns.items():
        setattr(device, name, value)
    changes.changed.append(device)
    if device.health != before:
        bad = device.health == Device.Health.BAD
        changes.events.append(_bad(node, device) if bad else _recovered(node, device))


def _vanish(changes: Changes, node: Node, device: Device) -> None:
    if device.health == Device.Health.ABSENT:
        return
    device.health, device.problem = Device.Health.ABSENT, ABSENT_PROBLEM
    changes.changed.append(device)
    message = f"GPU {device.uuid} ({device.model}) is no longer there."
    changes.events.append(event("node", node.pk, "gpu.absent", message, uuid=device.uuid))


def _bad(node: Node, device: Device) -> Event:
    message = f"GPU {device.uuid} ({device.model}) is bad: {device.problem or 'no reason given'}"
    data = {"uuid": device.uuid, "problem": device.problem}
    return event("node", node.pk, "gpu.bad", message, **data)


def _recovered(node: Node, device: Device) -> Event:
    message = f"GPU {device.uuid} ({device.model}) is healthy again."
    return event("node", node.pk, "gpu.recovered", message, uuid=device.uuid)


def _claimed(node: Node, device: Device) -> Event:
    message = f"GPU {device.uuid} stays with {device.node.name}: {node.name} reports it too."
    data = {"uuid": device.uuid, "holder": device.node.name}
    return event("node", node.pk, "gpu.claimed_elsewhere", message, **data)
