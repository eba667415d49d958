"""HiveD's pod scheduling specs, v1 (affinity groups) and v2 (trees of pod groups), as gangs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skep_scheduler.cells.request import GangRequest, MemberRequest, TopologyGroup


class UserError(Exception):
    """The request is wrong; the reference answers it with HTTP 400."""


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod: its gang, and which members' places it may take. `avoids` says that it must keep to
    the suggested nodes."""

    gang: GangRequest
    members: frozenset[int]
    avoids: bool


def read_spec(pod: str, spec: Mapping[str, Any]) -> PodSpec:
    version = str(spec.get("version", "v1"))
    if version not in ("v1", "v2"):
        raise UserError(f"unknown version {version}")
    is_v2 = version == "v2" or "podRootGroup" in spec
    read = _read_v2 if is_v2 else _read_v1
    if not str(spec.get("virtualCluster") or ""):
        raise UserError("virtualCluster is empty")
    return read(pod, spec)


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"{name} is not a whole number: {value!r}")
    if value <= 0:
        raise UserError(f"{name} is non-positive: {value}")
    return value


def _priority(spec: Mapping[str, Any]) -> int:
    value = spec.get("priority", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"priority is not a whole number: {value!r}")
    return value


def _read_v1(pod: str, spec: Mapping[str, Any]) -> PodSpec:
    size = _number(spec.get("leafCellNumber", spec.get("gpuNumber")), "leafCellNumber")
    group = spec.get("affinityGroup")
    if group is None:
        group = {"name": pod, "members": [{"podNumber": 1, "leafCellNumber": size}]}
    if not group.get("name"):
        raise UserError("affinityGroup.name is empty")
    members = tuple(
        MemberRequest(
            _number(m.get("podNumber"), "podNumber"),
            _number(m.get("leafCellNumber", m.get("gpuNumber")), "leafCellNumber"),
        )
        for m in group.get("members") or ()
    )
    own = frozenset(i for i, member in enumerate(members) if member.cells == size)
    if not own:
        raise UserError("affinityGroup.members does not contain the current pod")
    gang = _gang(spec, str(group["name"]), TopologyGroup(members), spec.get("leafCellType"))
    return PodSpec(gang, own, not spec.get("ignoreK8sSuggestedNodes", True))


def _gang(
    spec: Mapping[str, Any],
    name: str,
    topology_group: TopologyGroup,
    leaf_type: object,
    largest_first: bool = False,
) -> GangRequest:
    return GangRequest(
        name,
        str(spec["virtualCluster"]),
        _priority(spec),
        topology_group,
        str(leaf_type) if leaf_type else None,
        str(spec["pinnedCellId"]) if spec.get("pinnedCellId") else None,
        bool(spec.get("lazyPreemptionEnable", False)),
        largest_first,
    )


def _read_v2(pod: str, spec: Mapping[str, Any]) -> PodSpec:
    cells = _number(spec.get("cellNumber"), "cellNumber")
    per_pod = {"cellType": spec.get("cellType"), "cellNumber": cells}
    own = {"podMinNumber": 1, "cellsPerPod": per_pod, "containsCurrentPod": True}
    root = spec.get("podRootGroup") or {"name": pod, "pods": [own]}
    if not root.get("name"):
        raise UserError("podRootGroup.name is empty")
    topology_group = _topology_group(root, spec.get("cellType"))
    gang = _gang(spec, str(root["name"]), topology_group, None, largest_first=True)
    pods = [pod for group in _groups(root) for pod in _pods(group)]
    current = [i for i, member in enumerate(pods) if member.get("containsCurrentPod")]
    if len(current) != 1:
        raise UserError(f"{len(current)} members contain the current pod, instead of one")
    return PodSpec(gang, frozenset(current), not spec.get("ignoreK8sSuggestedNodes", True))


def _topology_group(group: Mapping[str, Any], default: object) -> TopologyGroup:
    members = tuple(_member(pod, default) for pod in _pods(group))
    children = tuple(_topology_group(child, default) for child in group.get("childGroups") or ())
    return TopologyGroup(members, group.get("withinOneCell") or None, children)


def _member(pod: Mapping[str, Any], default: object) -> MemberRequest:
    """Cells are of the spec's type where the member names none."""
    cells = pod.get("cellsPerPod") or {}
    cell_type = cells.get("cellType") or default
    return MemberRequest(
        _number(pod.get("podMinNumber", pod.get("podMaxNumber", 1)), "podMinNumber"),
        _number(cells.get("cellNumber"), "cellNumber"),
        str(cell_type) if cell_type else None,
    )


def _pods(group: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    pods = group.get("pods")
    if pods is None:
        pods = group.get("pod")
    if pods is None:
        return ()
    return [pods] if isinstance(pods, Mapping) else list(pods)


def _groups(root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return them level by level, as a gang counts its members."""
    queue = [root]
    for group in queue:
        queue += group.get("childGroups") or ()
    return queue
