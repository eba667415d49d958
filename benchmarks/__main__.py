"""`python -m benchmarks [NAME…]`: run the named benchmarks, or all, and print JSON lines."""

from __future__ import annotations

import importlib
import sys

# What each one needs: `start` and `logs` a Docker engine; all but `plan` a whole Skep.
BENCHMARKS = {
    "start": "benchmarks.start",
    "burst": "benchmarks.burst",
    "gang": "benchmarks.gang",
    "agents": "benchmarks.agents",
    "logs": "benchmarks.logs",
    "plan": "benchmarks.sched_plan",
}


def main(names: list[str]) -> None:
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are: {', '.join(BENCHMARKS)}")
    sys.argv[1:] = []
    for name in names or BENCHMARKS:
        importlib.import_module(BENCHMARKS[name]).main()


main(sys.argv[1:])
