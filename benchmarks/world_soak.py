"""A long random life of worlds: facts and plans in every order, validated after each step, and told
anew to a second world that must come out the same.

Prints JSON lines: bench, metric, value, unit. `python -m benchmarks.world_soak [--quick]
[--steps N] [--seed N]`. An error ends it with the seed and the step to repeat it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from dataclasses import replace

from skep_scheduler import queue
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
from skep_scheduler.world import World

LIFE = 200  # steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short one, to see that it runs")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first life")
    args = parser.parse_args()
    steps = 1_000 if args.quick else args.steps
    start, seed = time.perf_counter(), args.seed
    for seed in range(args.seed, args.seed + steps // LIFE):
        life = Life(seed)
        try:
            life.run()
        except Exception:
            sys.stderr.write(f"seed {seed}, step {life.steps}\n")
            raise
    report("steps", steps, "events")
    report("lives", seed - args.seed + 1, "worlds")
    report("rate", steps / (time.perf_counter() - start), "events/s")
    report("violations", 0, "violations")


def report(metric: str, value: float, unit: str) -> None:
    line = {"bench": "world_soak", "metric": metric, "value": round(value, 3), "unit": unit}
    sys.stdout.write(json.dumps(line) + "\n")


class Life:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        self.world = World()
        nodes = [machine(i, self.random) for i in range(self.random.randint(1, 6))]
        self.world.set_inventory(Inventory(tuple(nodes), self.owners()))

    def run(self) -> None:
        events = [self.submit] * 6 + [self.tick] * 6 + [self.leave] * 3 + [self.node, self.others]
        for _ in range(LIFE):
            self.steps += 1
            self.now += self.random.choice([0.0, 5.0, 60.0])
            self.random.choice(events)()
            self.world.validate()
            self.compare()
        for gang_id in [*self.world.waiting, *self.world.running, *self.world.reserved]:
            self.world.forget(gang_id)
        empty = World()
        empty.set_inventory(self.world.inventory)
        if empty.digest() != self.world.digest():
            raise AssertionError("something is left when everybody is gone")

    def compare(self) -> None:
        """Unless something is to be told yet about gangs that lost cells or got them back."""
        world = self.world
        pending = world.downgraded() or world.restored()
        if pending or not all(world.is_reserved(gang_id) for gang_id in world.reserved):
            return
        other = World()
        other.set_inventory(world.inventory)
        running = list(world.running.values())
        self.random.shuffle(running)
        for holding in running:
            other.set_running(holding)
        for gang in world.waiting.values():
            other.set_waiting(gang)
        for reserved in world.reserved.values():
            other.set_reserved(reserved.gang, reserved.placement)
        if other.digest() != world.digest():
            raise AssertionError("the same facts came out otherwise")

    def submit(self) -> None:
        pick = self.random
        gpus = pick.choice([0, 1, 1, 2, 4])
        member = Member("w", pick.choice([1, 1, 2, 3]), gpus, pick.choice([100, 9_000]), 64)
        self.world.set_waiting(
            Gang(
                f"g{self.steps}",
                f"job-{self.steps}",
                pick.choice("ab"),
                pick.choice([-1, 0, 0, 1, 2]),
                self.now,
                (member,),
                lazy=pick.random() < 0.3,
                preemptible=pick.random() < 0.8,
                incremental=pick.random() < 0.2,
                duration_s=pick.choice([None, 30.0, 300.0]),
            )
        )

    def tick(self) -> None:
        before = self.world.digest()
        plan = queue.plan(self.world, self.now)
        if self.world.digest() != before:
            raise AssertionError("a plan changed the world")
        for gang_id in plan.cancels:
            self.world.set_reserved(self.world.reserved[gang_id].gang, None)
            self.world.note_cancelled(gang_id, self.now)
        for gang_id in (*plan.downgrades, *plan.restored):
            known = self.world.running[gang_id]
            self.world.set_running(replace(known, downgraded=gang_id in plan.downgrades))
        for preemption in plan.preemptions:
            self.world.set_reserved(self.world.waiting[preemption.gang], preemption.placement)
            for victim in preemption.victims:
                self.world.set_running(replace(self.world.running[victim.gang], leaving=True))
        for placement in plan.placements:
            self.start(placement)

    def start(self, placement: queue.Placement) -> None:
        known = self.world.running.get(placement.gang)
        gang = known.gang if known is not None else self.world.waiting[placement.gang]
        one = gang.members[0]
        tasks = known.tasks if known is not None else ()
        tasks += tuple(
            HeldTask(t.role, t.index, t.node, t.gpu_uuids, one.cpu_millis, 64, t.cell_type)
            for t in placement.tasks
        )
        there = {task.index for task in tasks}
        left = tuple((one.role, i) for i in range(one.count) if i not in there)
        self.world.set_running(Holding(gang, tasks, self.now, complete=not left, unplaced=left))

    def leave(self) -> None:
        known = [*self.world.running, *self.world.reserved, *self.world.waiting]
        if known:
            self.world.forget(self.random.choice(known))

    def node(self) -> None:
        pick = self.random
        if pick.random() < 0.3:
            self.world.set_node(machine(self.steps + 100, pick))
            return
        one = self.world.nodes[pick.choice(sorted(self.world.nodes))]
        devices = tuple(replace(d, healthy=pick.random() < 0.9) for d in one.devices)
        self.world.set_node(replace(one, devices=devices, schedulable=pick.random() < 0.8))

    def others(self) -> None:
        changed = replace(self.world.inventory, virtual_clusters=self.owners())
        if len(changed.nodes) > 1 and self.random.random() < 0.5:
            gone = self.random.choice(changed.nodes)
            changed = replace(changed, nodes=tuple(n for n in changed.nodes if n is not gone))
        self.world.set_inventory(changed)

    def owners(self) -> tuple[VirtualCluster, ...]:
        pick = self.random
        return tuple(
            VirtualCluster(vc, (Claim("", "A100", pick.randint(0, 12)),)) for vc in ("a", "b")
        )


def machine(i: int, pick: random.Random) -> Node:
    devices = tuple(Device(f"n{i}-g{g}", "A100", g) for g in range(pick.choice([0, 2, 4, 4])))
    return Node(f"n{i}", 32_000, 131_072, devices)


if __name__ == "__main__":
    main()
