"""How long one decision of Sia takes by prices, and how far from the optimum it may be.

Jobs with random speeds on three GPU types, nodes of 8 GPUs; 256 to 2,048 jobs on as many GPUs.
Times are CPU time. Prints JSON lines: bench, metric, value, unit. `python -m benchmarks sia`.
"""

from __future__ import annotations

import json
import time

import numpy as np

from skep_scheduler.policies import sia
from skep_scheduler.policies.multiple_choice import Choices, prices


def main() -> None:
    for jobs in (256, 1_024, 2_048):
        measure(jobs)


def measure(jobs: int) -> None:
    nodes = jobs // 24
    program = made_up(jobs, nodes, seed=1)
    start = time.thread_time()
    answer = prices(program)
    report(jobs, "decision", time.thread_time() - start, "s")
    report(jobs, "gap", answer.gap, "share of the bound")


def made_up(jobs: int, nodes: int, seed: int) -> Choices:
    """Return a program of speeds that grow with a power of the GPUs, by type."""
    random = np.random.default_rng(seed)
    types = {f"type-{number}": (nodes, 8) for number in range(3)}
    columns = sia.configurations(types, {})
    columns = [column for column in columns if column.gpus <= 64]
    gpus = np.array([column.gpus for column in columns])
    names = list(types)
    kinds = np.array([names.index(column.gpu_type) for column in columns])
    power = random.uniform(0.3, 0.95, (jobs, 1))
    speeds = random.uniform(1, 4, (jobs, 3))[:, kinds] * gpus**power
    rows = [sia.costs(sia.Candidate(row), -0.5) for row in speeds]
    return Choices(np.array(rows), gpus, kinds, [8 * nodes] * 3, 1.1)


def report(jobs: int, metric: str, value: float, unit: str) -> None:
    line = {"bench": "sia", "metric": f"{metric}, {jobs} jobs", "value": round(value, 5)}
    print(json.dumps(line | {"unit": unit}), flush=True)


if __name__ == "__main__":
    main()
