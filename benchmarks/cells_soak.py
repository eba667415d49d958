"""A long random life of clusters of cells: every event in any order, all invariants after each.

Prints JSON lines: bench, metric, value, unit. `python benchmarks/cells_soak.py [--quick]
[--steps N] [--seed N]`. An error ends it with the seed and the step to repeat it.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections import Counter
from typing import Any

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement, Refusal
from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.problems import ConfigError
from skep_scheduler.cells.reconfigure import placements_of, reconfigure
from skep_scheduler.cells.request import GangRequest, MemberRequest, TopologyGroup
from skep_scheduler.cells.state import CellState


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short one, to see that it runs")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first life")
    args = parser.parse_args()
    steps = 2_000 if args.quick else args.steps
    start, done, seed, events = time.perf_counter(), 0, args.seed, Counter[str]()
    while done < steps:
        life = Life(seed)
        try:
            for _ in range(200):
                life.step()
                validate(life.state)
            life.end()
        except Exception:
            sys.stderr.write(f"seed {seed}, step {life.steps}\n")
            raise
        done += life.steps
        seed += 1
        events += life.events
    seconds = time.perf_counter() - start
    report("steps", done, "events")
    report("lives", seed - args.seed, "clusters")
    report("rate", done / seconds, "events/s")
    report("violations", 0, "violations")
    for name, number in sorted(events.items()):
        report(name, number, "events")


def report(metric: str, value: float, unit: str) -> None:
    line = {"bench": "cells_soak", "metric": metric, "value": round(value, 3), "unit": unit}
    sys.stdout.write(json.dumps(line) + "\n")


class Life:
    """One cluster from its start until everything in it is deleted again."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.events: Counter[str] = Counter()
        self.steps = 0
        self.repair = self.random.choice([0.6, 1.0])
        self.data = self.configuration()
        self.state = CellState(read_config(self.data))
        self.born = counters(self.state)
        for node in self.state.nodes:
            health.set_node(self.state, node, healthy=True)

    def configuration(self) -> dict[str, Any]:
        """Draw a hierarchy of one or two chains, with as many VC cells as fit."""
        pick = self.random
        data: dict[str, Any] = {
            "physicalCluster": {"cellTypes": {}, "physicalCells": []},
            "virtualClusters": {},
        }
        vcs = data["virtualClusters"]
        vcs.update({vc: {"virtualCells": [], "pinnedCells": []} for vc in ("a", "b", "c")})
        for chain in ["G", "H"][: pick.randint(1, 2)]:
            types = self._chain(data, chain)
            for _ in range(pick.randint(2, 8)):
                vc, level = pick.choice(sorted(vcs)), pick.randrange(len(types))
                name = ".".join(reversed(types[level:]))
                cells = vcs[vc]["virtualCells"]
                cells.append({"cellType": name, "cellNumber": pick.randint(1, 4)})
                if not fits(data):
                    cells.pop()
        return data

    def _chain(self, data: dict[str, Any], chain: str) -> list[str]:
        pick, physical = self.random, data["physicalCluster"]
        widths = [pick.choice([1, 2, 2, 3, 4]) for _ in range(pick.randint(1, 4))]
        node = pick.randint(1, min(3, len(widths)))
        types = [chain] + [f"{chain}-L{i}" for i in range(1, len(widths) + 1)]
        for i, width in enumerate(widths, 1):
            physical["cellTypes"][types[i]] = {
                "childCellType": types[i - 1],
                "childCellNumber": width,
                "isNodeLevel": i == node,
            }
        names = (f"{chain}{i}" for i in range(100_000))

        def cell(level: int) -> dict[str, Any]:
            entry: dict[str, Any] = {"cellAddress": next(names)} if level == node else {}
            if level > node:
                entry["cellChildren"] = [cell(level - 1) for _ in range(widths[level - 1])]
            return entry

        tops = [{"cellType": types[-1], **cell(len(widths))} for _ in range(pick.randint(1, 5))]
        if pick.random() < 0.5:
            pinned = tops[0]
            while pinned.get("cellChildren") and pick.random() < 0.6:
                pinned = pinned["cellChildren"][0]
            pinned["pinnedCellId"] = f"pin-{chain}"
            data["virtualClusters"]["a"]["pinnedCells"].append({"pinnedCellId": f"pin-{chain}"})
        physical["physicalCells"] += tops
        return types

    def step(self) -> None:
        self.steps += 1
        events = [self.submit] * 8 + [self.leave] * 4 + [self.preempted] * 3 + [self.owed]
        events += [self.node] * 2 + [self.device] * 2 + [self.change] * (self.random.random() < 0.3)
        self.random.choice(events)()

    def gang(self) -> GangRequest:
        pick = self.random
        owners = [name for name, vc in self.state.vcs.items() if vc.chains or vc.pins]
        vc = pick.choice(owners * 5 + sorted(self.state.vcs))
        pool = pick.choice(list(self.state.chains.values()))
        types, devices = list(pool.shape.level_of), pool.shape.at(pool.shape.node_level).leaves
        priority = pick.choice([-1, 0, 0, 1, 2])
        pins = sorted(self.state.vcs[vc].pins)
        pin = pick.choice(pins) if pins and priority >= 0 and pick.random() < 0.4 else None

        def member() -> MemberRequest:
            if pick.random() < 0.1:
                return MemberRequest(pick.randint(1, 2), 1, pick.choice(types))
            return MemberRequest(pick.choice([1, 1, 1, 2, 3]), min(pick.randint(1, devices), 4))

        def topology_group(depth: int) -> TopologyGroup:
            within = pick.choice(types) if pick.random() < 0.3 else None
            children = tuple(topology_group(depth - 1) for _ in range(pick.randint(0, depth)))
            return TopologyGroup(
                tuple(member() for _ in range(pick.randint(1, 2))), within, children
            )

        whole = topology_group(1) if pick.random() < 0.3 else TopologyGroup((member(),))
        leaf = pick.choice([None, None, None, pool.shape.leaf_type])
        self.count = getattr(self, "count", 0) + 1
        lazy, largest = pick.random() < 0.5, pick.random() < 0.3
        return GangRequest(f"g{self.count}", vc, priority, whole, leaf, pin, lazy, largest)

    def submit(self) -> None:
        gang, before = self.gang(), counters(self.state)
        nodes = sorted(self.state.nodes)
        avoid = {self.random.choice(nodes)} if self.random.random() < 0.1 else set()
        answer = place(self.state, gang, avoid)
        if counters(self.state) != before:
            raise AssertionError("place changed the state")
        if isinstance(answer, Refusal):
            self.events[f"refused_{answer.code}"] += 1
        elif isinstance(answer, CellPlacement):
            self.events["placed_over_others" if answer.downgrades else "placed"] += 1
            group = ledger.start(self.state, gang, answer)
            if group.opportunistic != gang.opportunistic or placements_of(group) != answer.tasks:
                raise AssertionError(f"{gang.name} is not where it was placed")
        else:
            self.events["preempting"] += 1
            if ledger.reserve(self.state, gang, answer.placement) is None:
                raise AssertionError(f"{gang.name} cannot reserve the placement that it was given")

    def owed(self) -> None:
        """What a VC has free it can have as a whole, unless hardware is bad."""
        for vc in self.state.vcs.values():
            for chain, domain in vc.chains.items():
                free = [root for root in domain.roots if root.physical is None]
                if self.state.chains[chain].bad or not free:
                    continue
                self.events["owed"] += 1
                shape, root = free[0].shape, free[0]
                level = min(root.level, shape.node_level)
                whole = MemberRequest(shape.cells_in(root.level, level), 1, shape.at(level).type)
                asked = GangRequest("owed", vc.name, 1000, TopologyGroup((whole,), root.spec.type))
                if isinstance(place(self.state, asked), Refusal):
                    raise AssertionError(f"{vc.name} does not get its {root.spec.type}")

    def leave(self) -> None:
        if self.state.groups:
            self.events["left"] += 1
            ledger.release(self.state, self.random.choice(sorted(self.state.groups)))

    def preempted(self) -> None:
        """Victims of a preemptor go, and it starts; sometimes before they are gone."""
        waiting = [group for group in self.state.groups.values() if group.preempting]
        if not waiting:
            return
        self.events["preempted"] += 1
        group = self.random.choice(waiting)
        if self.random.random() < 0.8:
            for name in {leaf.user.name for leaf, _ in group.pairs() if leaf.user}:
                ledger.release(self.state, name)
        ledger.adopt(self.state, group.gang, group.chain, placements_of(group))

    def node(self) -> None:
        self.events["node"] += 1
        node = self.random.choice(sorted(self.state.nodes))
        health.set_node(self.state, node, self.random.random() < self.repair)

    def device(self) -> None:
        self.events["device"] += 1
        where = self.random.choice(list(self.state.leaves))
        health.set_device(self.state, *where, self.random.random() < self.repair)

    def change(self) -> None:
        changed = json.loads(json.dumps(self.data))
        for owns in changed["virtualClusters"].values():
            for share in owns["virtualCells"]:
                share["cellNumber"] = self.random.randint(0, share["cellNumber"] + 1)
        cells = changed["physicalCluster"]["physicalCells"]
        if self.random.random() < 0.3 and len(cells) > 1:
            cells.pop()
        if fits(changed):
            self.state, change = reconfigure(self.state, read_config(changed))
            self.events["reconfigured"] += 1
            self.events["downgraded"] += len(change.downgraded)
            self.events["restored"] += len(change.restored)

    def end(self) -> None:
        self.state, _ = reconfigure(self.state, read_config(self.data))
        for name in list(self.state.groups):
            ledger.release(self.state, name)
            validate(self.state)
        for node in self.state.nodes:
            health.set_node(self.state, node, healthy=False)
        for where in self.state.leaves:
            health.set_device(self.state, *where, healthy=True)
        if counters(self.state) != self.born:
            raise AssertionError("the counters are not as at the start")


def counters(state: CellState) -> object:
    return [
        (pool.left[:], pool.bad_left[:], pool.claims[:], [len(cells) for cells in pool.free])
        for pool in state.chains.values()
    ]


def fits(data: dict[str, Any]) -> bool:
    try:
        read_config(data)
    except ConfigError:
        return False
    return True


if __name__ == "__main__":
    main()
