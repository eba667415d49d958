"""`python -m benchmarks [NAME…]`: run the named benchmarks, or all, and print JSON lines."""

from __future__ import annotations

import importlib
import sys

# `start`, `network` and `logs` need a Docker engine; the first six, `logs` and `queue_live` start a
# whole Skep.
BENCHMARKS = {
    "start": "benchmarks.start",
    "burst": "benchmarks.burst",
    "gang": "benchmarks.gang",
    "agents": "benchmarks.agents",
    "reconnect": "benchmarks.reconnect",
    "heartbeat": "benchmarks.heartbeat",
    "network": "benchmarks.network",
    "logs": "benchmarks.logs",
    "logs_ingest": "benchmarks.logs_ingest",
    "logs_large": "benchmarks.logs_large",
    "place": "benchmarks.cells_place",
    "sweep": "benchmarks.cells_sweep",
    "queue": "benchmarks.queue_tick",
    "queue_live": "benchmarks.queue_live",
    "soak": "benchmarks.cells_soak",
    "world": "benchmarks.world_soak",
    "diagnosis": "benchmarks.diagnosis",
    "sia": "benchmarks.sia_prices",
    "pages": "benchmarks.pages",
    "upgrade": "benchmarks.upgrade",
    "simulate": "benchmarks.simulate",
    "policies": "benchmarks.policies",
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    sys.argv[1:] = []
    for name in names or BENCHMARKS:
        importlib.import_module(BENCHMARKS[name]).main()


main(sys.argv[1:])
