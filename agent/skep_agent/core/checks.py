"""The agent's own check of what the server asks for: a wrong server must not harm a node."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from skep_agent.containers import RuntimeFailure
from skep_agent.core.gpus import GpuTable
from skep_agent.isolation.create import check_contents
from skep_agent.protocol import CHECKPOINT_SIGNALS, AttemptSpec
from skep_limits import MAX_GRACE_S

_ATTEMPT_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_.-]{0,62}")
_HOSTNAME = re.compile(r"[0-9A-Za-z]([0-9A-Za-z-]{0,61}[0-9A-Za-z])?")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one attempt can have at most on this node."""

    cpus: float
    memory_mb: int
    port_range: tuple[int, int]  # inclusive


def well_formed(attempt_id: str) -> bool:
    """Return whether an attempt id may become the name and a label of a container."""
    return _ATTEMPT_ID.fullmatch(attempt_id) is not None


def host_ports(spec: AttemptSpec) -> tuple[int, ...]:
    """Return the ports of the node itself that the attempt uses."""
    if spec.network != "host":
        return ()
    return tuple(port for ports in spec.ports.values() for port in ports)


def check(
    spec: AttemptSpec, limits: Limits, gpus: GpuTable, ports_held: Collection[int]
) -> RuntimeFailure | None:
    """Why the attempt cannot run here; None when it can."""
    try:
        check_contents(spec)
    except RuntimeFailure as refusal:
        return refusal
    if problem := _size_problem(spec, limits) or _port_problem(spec, limits, ports_held):
        return RuntimeFailure("spec_refused", problem)
    if problem := gpus.why_not(spec.gpu_uuids):
        return RuntimeFailure("gpu_unavailable", problem)
    return None


def _size_problem(spec: AttemptSpec, limits: Limits) -> str:
    if not 0 < spec.cpus <= limits.cpus:
        return f"{spec.cpus:g} CPUs asked, this node has {limits.cpus:g}"
    if not 0 < spec.memory_mb <= limits.memory_mb:
        return f"{spec.memory_mb} MB of memory asked, this node has {limits.memory_mb} MB"
    if not 0 <= spec.shm_mb <= limits.memory_mb:
        return f"{spec.shm_mb} MB of shared memory asked, this node has {limits.memory_mb} MB"
    graces = (spec.stop_grace_s, spec.checkpoint_grace_s)
    if spec.pids_limit < 1 or not all(0 <= grace <= MAX_GRACE_S for grace in graces):
        return "the process limit or a grace time of its stop is out of range"
    if spec.checkpoint_signal and spec.checkpoint_signal not in CHECKPOINT_SIGNALS:
        return f"{spec.checkpoint_signal[:20]!r} is not a checkpoint signal"
    if spec.hostname and not _HOSTNAME.fullmatch(spec.hostname):
        return f"{spec.hostname[:80]!r} is not a host name"
    return ""


def _port_problem(spec: AttemptSpec, limits: Limits, ports_held: Collection[int]) -> str:
    ports = host_ports(spec)
    first, last = limits.port_range
    if len(set(ports)) != len(ports):
        return "a port is listed twice"
    for port in ports:
        if not first <= port <= last:
            return f"port {port} is outside of this node's range {first}-{last}"
        if port in ports_held:
            return f"port {port} is held by another attempt on this node"
    return ""
