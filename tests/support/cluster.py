"""Builders of small clusters, and the simulated cluster that tests run them on."""

from __future__ import annotations

from collections.abc import Iterable

from skep_scheduler.model import Claim, Device, Gang, Member, Node, Plan, VirtualCluster
from skep_scheduler.simulator.cluster import SimulatedCluster


def node(name: str, gpus: int = 8, model: str = "A100", **more: object) -> Node:
    """8 CPUs and 32 GiB for each GPU; 64 CPUs without any."""
    devices = tuple(Device(f"{name}-g{i}", model, i) for i in range(gpus))
    share = gpus or 8
    size = {"cpu_millis": 8_000 * share, "memory_mb": 32_768 * share}
    return Node(name, devices=devices, **size | more)  # type: ignore[arg-type]


def member(count: int = 1, gpus: int = 1, role: str = "worker", **more: object) -> Member:
    """Within the shares of its GPUs, if nothing else is said."""
    fields = {"cpu_millis": 1_000 * gpus, "memory_mb": 1_024 * gpus, **more}
    return Member(role, count, gpus, **fields)  # type: ignore[arg-type]


def gang(
    name: str,
    vc: str = "a",
    tasks: int = 1,
    gpus: int = 1,
    priority: int = 10,
    at: float = 0.0,
    members: Iterable[Member] | None = None,
    **more: object,
) -> Gang:
    parts = tuple(members) if members is not None else (member(tasks, gpus),)
    return Gang(name, name, vc, priority, at, parts, **more)  # type: ignore[arg-type]


def owns(**gpus: int) -> tuple[VirtualCluster, ...]:
    """VCs that own so many A100 each."""
    return tuple(VirtualCluster(vc, (Claim("", "A100", n),)) for vc, n in gpus.items())


class Cluster(SimulatedCluster):
    """Checks at each plan that planning leaves nothing behind and that the state is valid."""

    def run(self, *gangs: Gang) -> None:
        """Start gangs at once: what a test begins with."""
        self.submit(*gangs)
        done = self.tick()
        missing = {one.id for one in gangs} - {p.gang for p in done.placements}
        assert not missing, f"{missing} did not start: {done.reasons}"

    def plan(self) -> Plan:
        before, carried_over = self.state.digest(), self.state.reservations
        decided = super().plan()
        reserved = self.state.reservations
        self.state.set_reservations(carried_over)
        assert self.state.digest() == before, "planning left something behind"
        self.state.set_reservations(reserved)
        self.state.validate()
        return decided

    @property
    def started(self) -> dict[str, float]:
        """When each gang started for the last time, by id."""
        starts = ((gang_id, past.last_started_at) for gang_id, past in self.history.items())
        return {gang_id: at for gang_id, at in starts if at is not None}

    @property
    def preempted(self) -> list[str]:
        """The ids of the gangs that were ever preempted."""
        return [gang_id for gang_id, past in self.history.items() if past.preemptions]
