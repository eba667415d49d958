"""How close two GPUs are, in the words of `nvidia-smi topo -m`."""

from __future__ import annotations

from collections import Counter
from itertools import permutations
from typing import Any

import pynvml as nvml  # type: ignore[import-untyped]

from skep_agent.probes.nvml_ask import ask

_LEVELS = {
    nvml.NVML_TOPOLOGY_INTERNAL: "PIX",  # two GPUs on one board
    nvml.NVML_TOPOLOGY_SINGLE: "PIX",
    nvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    nvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    nvml.NVML_TOPOLOGY_NODE: "NODE",
    nvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
_SWITCH = "switch"


def pair_levels(handles: dict[str, Any]) -> dict[str, dict[str, str]]:
    """For each pair of UUIDs "NV<links>" where NVLink joins them, else the common ancestor."""
    buses = {uuid: _bus(handle) for uuid, handle in handles.items()}
    links = {uuid: _links(handle) for uuid, handle in handles.items()}
    levels: dict[str, dict[str, str]] = {uuid: {} for uuid in handles}
    for one, other in permutations(handles, 2):
        # Through a switch every GPU reaches every other with all the links it has there.
        count = links[one][buses[other]] + min(links[one][_SWITCH], links[other][_SWITCH])
        levels[one][other] = f"NV{count}" if count else _ancestor(handles[one], handles[other])
    return levels


def _links(handle: Any) -> Counter[str]:
    """Active NVLinks by the PCI bus id at their other end, or as `_SWITCH`."""
    return Counter(
        _end(handle, link)
        for link in range(nvml.NVML_NVLINK_MAX_LINKS)
        if ask(nvml.nvmlDeviceGetNvLinkState, handle, link)
    )


def _end(handle: Any, link: int) -> str:
    kind = ask(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
    if kind == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
        return _SWITCH
    remote = ask(nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
    return remote.busId.upper() if remote else "untold"


def _bus(handle: Any) -> str:
    pci = ask(nvml.nvmlDeviceGetPciInfo, handle)
    return pci.busId.upper() if pci else "unknown"


def _ancestor(one: Any, other: Any) -> str:
    return _LEVELS.get(ask(nvml.nvmlDeviceGetTopologyCommonAncestor, one, other), "SYS")
