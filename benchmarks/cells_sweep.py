"""Measure how long it takes to mark every node of a large cluster bad, and healthy again, in
CPU time.

Prints JSON lines: bench, metric, value, unit. `python benchmarks/cells_sweep.py [--quick]`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from skep_scheduler.cells import health, ledger
from skep_scheduler.cells.answer import CellPlacement
from skep_scheduler.cells.config import read_config
from skep_scheduler.cells.place import place
from skep_scheduler.cells.request import gang
from skep_scheduler.cells.state import CellState

VCS = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small one, to see that it runs")
    nodes = 200 if parser.parse_args().quick else 2_000
    state = CellState(read_config(configuration(nodes)))
    sweep(state, nodes, "first_seen", healthy=True)
    for i in range(nodes):
        asked = gang(f"g{i}", f"vc{i % VCS}", i % 2 - 1, (1, 4))
        answer = place(state, asked)
        if isinstance(answer, CellPlacement):
            ledger.start(state, asked, answer)
    sweep(state, nodes, "all_bad_while_used", healthy=False)
    sweep(state, nodes, "all_healthy_while_used", healthy=True)


def sweep(state: CellState, nodes: int, metric: str, healthy: bool) -> None:
    start = time.thread_time()
    for node in state.nodes:
        health.set_node(state, node, healthy)
    seconds = time.thread_time() - start
    line = {"bench": f"cells_sweep_{nodes}_nodes", "metric": metric}
    sys.stdout.write(json.dumps({**line, "value": round(seconds, 4), "unit": "s"}) + "\n")


def configuration(nodes: int) -> dict[str, Any]:
    """Return racks of 20 nodes with 8 GPUs in sockets and switches, shared equally by the VCs."""
    types = {
        "SWITCH": {"childCellType": "A100", "childCellNumber": 2},
        "SOCKET": {"childCellType": "SWITCH", "childCellNumber": 2},
        "NODE": {"childCellType": "SOCKET", "childCellNumber": 2, "isNodeLevel": True},
        "RACK": {"childCellType": "NODE", "childCellNumber": 20},
    }
    racks = [
        {"cellType": "RACK", "cellChildren": [{"cellAddress": f"n{r}-{i}"} for i in range(20)]}
        for r in range(nodes // 20)
    ]
    share = {"cellType": "RACK.NODE", "cellNumber": nodes // VCS}
    return {
        "physicalCluster": {"cellTypes": types, "physicalCells": racks},
        "virtualClusters": {f"vc{i}": {"virtualCells": [share]} for i in range(VCS)},
    }


if __name__ == "__main__":
    main()
