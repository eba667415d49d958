"""A long random life of states: facts and plans in every order, validated after each step,
and applied to a second state that must come out the same.

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

from skep_scheduler import engine
from skep_scheduler.model import (
    Claim,
    Device,
    Gang,
    Inventory,
    Member,
    Node,
    VirtualCluster,
)
from skep_scheduler.simulator.commit import commit
from skep_scheduler.state import ClusterState

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
    report("lives", seed - args.seed + 1, "states")
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
        self.state = ClusterState()
        nodes = [machine(i, self.random) for i in range(self.random.randint(1, 6))]
        self.state.set_inventory(Inventory(tuple(nodes), self.owners()))

    def run(self) -> None:
        events = [self.submit] * 6 + [self.tick] * 6 + [self.leave] * 3 + [self.node, self.others]
        for _ in range(LIFE):
            self.steps += 1
            self.now += self.random.choice([0.0, 5.0, 60.0])
            self.random.choice(events)()
            self.state.validate()
            self.compare()
        for gang_id in [*self.state.waiting, *self.state.running, *self.state.nominated]:
            self.state.forget(gang_id)
        empty = ClusterState()
        empty.set_inventory(self.state.inventory)
        if empty.digest() != self.state.digest():
            raise AssertionError("something is left when all gangs are gone")

    def compare(self) -> None:
        """Compare the digests, unless a plan has yet to report lost or regained cells."""
        state = self.state
        pending = state.downgraded() or state.restored()
        if pending or not all(state.is_nominated(gang_id) for gang_id in state.nominated):
            return
        other = ClusterState()
        other.set_inventory(state.inventory)
        running = list(state.running.values())
        self.random.shuffle(running)
        for allocation in running:
            other.set_running(allocation)
        for gang in state.waiting.values():
            other.set_waiting(gang)
        for reserved in state.nominated.values():
            other.set_nominated(reserved.gang, reserved.placement)
        other.set_reservations(state.reservations)
        other.set_cooldowns(state.cancelled)
        if other.digest() != state.digest():
            raise AssertionError("the same facts came out otherwise")

    def submit(self) -> None:
        pick = self.random
        gpus = pick.choice([0, 1, 1, 2, 4])
        member = Member("w", pick.choice([1, 1, 2, 3]), gpus, pick.choice([100, 9_000]), 64)
        self.state.set_waiting(
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
        before, carried_over = self.state.digest(), self.state.reservations
        plan = engine.plan(self.state, self.now)
        reserved = self.state.reservations
        self.state.set_reservations(carried_over)
        if self.state.digest() != before:
            raise AssertionError("a plan changed the state")
        self.state.set_reservations(reserved)
        commit(self.state, plan, self.now)

    def leave(self) -> None:
        known = [*self.state.running, *self.state.nominated, *self.state.waiting]
        if known:
            self.state.forget(self.random.choice(known))

    def node(self) -> None:
        pick = self.random
        if pick.random() < 0.3:
            self.state.set_node(machine(self.steps + 100, pick))
            return
        one = self.state.nodes[pick.choice(sorted(self.state.nodes))]
        devices = tuple(replace(d, healthy=pick.random() < 0.9) for d in one.devices)
        self.state.set_node(replace(one, devices=devices, schedulable=pick.random() < 0.8))

    def others(self) -> None:
        changed = replace(self.state.inventory, virtual_clusters=self.owners())
        if len(changed.nodes) > 1 and self.random.random() < 0.5:
            gone = self.random.choice(changed.nodes)
            changed = replace(changed, nodes=tuple(n for n in changed.nodes if n is not gone))
        self.state.set_inventory(changed)

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
