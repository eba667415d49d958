"""A world with a clock, and what a platform makes of its plans: gangs start, end, and make room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from skep_scheduler.facts import (
    Claim,
    Device,
    Gang,
    HeldTask,
    Holding,
    Inventory,
    Member,
    Node,
    VirtualCluster,
)
from skep_scheduler.queue import DEFAULTS, Placement, Plan, Settings, plan
from skep_scheduler.world import World

NEVER = float("inf")


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


class Cluster:
    """`lives` is how long gangs really run, by id; without it, as long as they say."""

    def __init__(
        self,
        nodes: Iterable[Node],
        vcs: Iterable[VirtualCluster],
        settings: Settings = DEFAULTS,
        grace_s: float = 5.0,
    ) -> None:
        self.world = World()
        self.settings = settings
        self.grace_s = grace_s
        self.now = 0.0
        self.lives: dict[str, float] = {}
        self.leaves_at: dict[str, float] = {}
        self.started: dict[str, float] = {}
        self.ended: dict[str, float] = {}
        self.preempted: list[str] = []
        self.world.set_inventory(Inventory(tuple(nodes), tuple(vcs)))

    def submit(self, *gangs: Gang) -> None:
        for one in gangs:
            self.world.set_waiting(one)

    def run(self, *gangs: Gang) -> None:
        """They start at once: what a test begins with."""
        self.submit(*gangs)
        done = self.tick()
        missing = {one.id for one in gangs} - {p.gang for p in done.placements}
        assert not missing, f"{missing} did not start: {done.reasons}"

    def tick(self) -> Plan:
        """Plan, and do as the plan says."""
        decided = self.look()
        for gang_id in decided.cancels:
            self.world.set_reserved(self.world.reserved[gang_id].gang, None)
            self.world.note_cancelled(gang_id, self.now)
        for gang_id in decided.downgrades:
            self._tell(gang_id, downgraded=True)
        for gang_id in decided.restored:
            self._tell(gang_id, downgraded=False)
        for preemption in decided.preemptions:
            self.world.set_reserved(self.world.waiting[preemption.gang], preemption.placement)
            for victim in preemption.victims:
                self.preempted.append(victim.gang)
                self.leave(victim.gang)
        for placement in decided.placements:
            self._start(placement)
        return decided

    def look(self) -> Plan:
        """Plan only; planning changes nothing."""
        before = self.world.digest()
        decided = plan(self.world, self.now, self.settings)
        assert self.world.digest() == before, "planning left something behind"
        self.world.validate()
        return decided

    def leave(self, gang_id: str) -> None:
        self._tell(gang_id, leaving=True)
        self.leaves_at[gang_id] = self.now + self.grace_s

    def end(self, gang_id: str) -> None:
        self.leaves_at.pop(gang_id, None)
        self.ended[gang_id] = self.now
        self.world.forget(gang_id)

    def go_to(self, time: float, step_s: float = NEVER) -> None:
        """Let time pass, with a tick at every event and every `step_s`."""
        while self.now < time:
            self.now = min(time, self.now + step_s, *self._events())
            self._let_end()
            self.tick()

    def _events(self) -> list[float]:
        times = [*self.leaves_at.values(), *(self._end_of(h) for h in self.world.running.values())]
        return [at for at in times if at > self.now]

    def _let_end(self) -> None:
        for gang_id, at in list(self.leaves_at.items()):
            if at <= self.now:
                self._requeue(gang_id)
        for gang_id, holding in list(self.world.running.items()):
            if self._end_of(holding) <= self.now:
                self.end(gang_id)

    def _requeue(self, gang_id: str) -> None:
        del self.leaves_at[gang_id]
        waits = replace(self.world.running[gang_id].gang, waits_since=self.now)
        self.world.forget(gang_id)
        self.world.set_waiting(waits)

    def _end_of(self, holding: Holding) -> float:
        life = self.lives.get(holding.gang.id, holding.gang.duration_s)
        return NEVER if life is None else holding.placed_at + life

    def _start(self, placement: Placement) -> None:
        gang_id = placement.gang
        before = self.world.running.get(gang_id)
        waits = self.world.waiting.get(gang_id)
        one = before.gang if before is not None else waits or self.world.reserved[gang_id].gang
        tasks = (*(before.tasks if before is not None else ()), *held(one, placement))
        there = {(task.role, task.index) for task in tasks}
        wanted = [(m.role, i) for m in one.members for i in range(m.count)]
        unplaced = tuple(task for task in wanted if task not in there)
        placed_at = before.placed_at if before is not None else self.now
        self.started[gang_id] = placed_at
        self.world.set_running(
            Holding(one, tasks, placed_at, complete=not unplaced, unplaced=unplaced)
        )

    def _tell(self, gang_id: str, **changes: bool) -> None:
        holding = self.world.running[gang_id]
        self.world.set_running(replace(holding, **changes))  # type: ignore[arg-type]


def held(one: Gang, placement: Placement) -> tuple[HeldTask, ...]:
    sizes = {m.role: m for m in one.members}
    return tuple(
        HeldTask(
            task.role,
            task.index,
            task.node,
            task.gpu_uuids,
            sizes[task.role].cpu_millis,
            sizes[task.role].memory_mb,
            task.cell_type,
        )
        for task in placement.tasks
    )
