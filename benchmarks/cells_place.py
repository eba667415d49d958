"""How long one `place` takes on clusters of cells, filled and churning, and how much memory.

Nodes of 8 GPUs (2 sockets of 2 PCIe switches of 2) in racks of 20 or 25, 10 VCs with equal shares
of nodes. Times are CPU time: `place` does nothing but compute, and machines that measure may be
busy otherwise. Prints JSON lines: bench, metric, value, unit.
`python benchmarks/cells_place.py [--quick]`.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import resource
import sys
import time
from typing import Any

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement
from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.invariants import validate
from skep_scheduler.cells.place import place
from skep_scheduler.cells.request import GangRequest, gang
from skep_scheduler.cells.state import CellState

VCS = 10
# (tasks, GPUs per task): small jobs more often, and one of 128 GPUs in twenty.
SIZES = (
    [(1, 1)] * 8 + [(1, 2)] * 4 + [(1, 4)] * 4 + [(1, 8)] * 3 + [(2, 8), (4, 8), (16, 8), (4, 2)]
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    quick = parser.parse_args().quick
    for nodes in (100, 500) if quick else (100, 1_000, 2_000, 12_500):
        measure(nodes, churns=200 if quick else 2_000)


def measure(nodes: int, churns: int) -> None:
    start = time.thread_time()
    state = CellState(read_config(configuration(nodes)))
    report(nodes, "build", time.thread_time() - start, "s")
    for node in state.nodes:
        health.set_node(state, node, healthy=True)
    gc.collect()
    gc.freeze()  # as a scheduler does that keeps its state
    load = Load(state)
    load.fill()
    load.report(nodes, "fill")
    report(nodes, "used", load.used(), "share")
    load.seconds.clear()
    for _ in range(churns):
        load.churn()
    load.report(nodes, "churn")
    validate(state)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    report(nodes, "peak_rss", peak / 1024, "MiB")
    gc.unfreeze()


class Load:
    """Gangs of all VCs; `seconds` by what `place` answered."""

    def __init__(self, state: CellState) -> None:
        self.state = state
        self.random = random.Random(1)
        self.seconds: dict[str, list[float]] = {}
        self.started: list[str] = []
        self.count = 0

    def fill(self) -> None:
        """Submit gangs until twenty of every VC in a row found no place."""
        misses = 0
        while misses < 20 * VCS:
            misses = 0 if self.submit() else misses + 1

    def churn(self) -> None:
        """Let about as many devices leave as come."""
        for _ in range(self.random.choice([0, 1, 2])):
            if self.started:
                i = self.random.randrange(len(self.started))
                self.started[i], self.started[-1] = self.started[-1], self.started[i]
                ledger.release(self.state, self.started.pop())
        self.submit()

    def submit(self) -> bool:
        asked = self.gang()
        start = time.thread_time()
        answer = place(self.state, asked)
        seconds = time.thread_time() - start
        self.seconds.setdefault(type(answer).__name__.lower(), []).append(seconds)
        if not isinstance(answer, CellPlacement):
            return False
        start = time.thread_time()
        ledger.start(self.state, asked, answer)
        self.seconds.setdefault("start", []).append(time.thread_time() - start)
        self.started.append(asked.name)
        return True

    def gang(self) -> GangRequest:
        self.count += 1
        vc, priority = f"vc{self.random.randrange(VCS)}", self.random.choice([0, 0, 1, -1])
        return gang(f"g{self.count}", vc, priority, self.random.choice(SIZES))

    def used(self) -> float:
        pools = self.state.chains.values()
        used = sum(top.used_total for pool in pools for top in pool.tops)
        return used / len(self.state.leaves)

    def report(self, nodes: int, phase: str) -> None:
        placing = [s for name, some in self.seconds.items() if name != "start" for s in some]
        for name, seconds in [("place", placing), *sorted(self.seconds.items())]:
            ordered = sorted(seconds)
            for label, part in (("p50", 0.5), ("p99", 0.99)):
                value = ordered[int(len(ordered) * part)] * 1e3
                report(nodes, f"{phase}_{name}_{label}", value, "ms")
            report(nodes, f"{phase}_{name}_count", len(ordered), "calls")


def configuration(nodes: int) -> dict[str, Any]:
    rack = 20 if nodes % 20 == 0 else 25
    types = {
        "SWITCH": {"childCellType": "A100", "childCellNumber": 2},
        "SOCKET": {"childCellType": "SWITCH", "childCellNumber": 2},
        "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
        "RACK": {"childCellType": "NODE", "childCellNumber": rack},
    }
    racks = [
        {
            "cellType": "RACK",
            "cellChildren": [{"cellAddress": f"n{r * rack + i}"} for i in range(rack)],
        }
        for r in range(nodes // rack)
    ]
    share = {"cellType": "RACK.NODE", "cellNumber": nodes // VCS}
    return {
        "physicalCluster": {"cellTypes": types, "physicalCells": racks},
        "virtualClusters": {f"vc{i}": {"virtualCells": [share]} for i in range(VCS)},
    }


def report(nodes: int, metric: str, value: float, unit: str) -> None:
    name = f"cells_place_{nodes}_nodes"
    line = {"bench": name, "metric": metric, "value": round(value, 3), "unit": unit}
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
