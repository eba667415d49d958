"""How long one decision of Sia takes by prices, and how far from the optimum it may be.

Jobs with random speeds on three GPU types, nodes of 8 GPUs; 256 to 2,048 jobs on as many GPUs.
Times are CPU time. Prints JSON lines beside what they may be at most. `python -m benchmarks sia`.
"""

from __future__ import annotations

import time

import numpy as np
from benchmarks.report import report

from skep_scheduler.policies import sia
from skep_scheduler.policies.multiple_choice import Choices, prices

MOST_S = 1.0  # of a decision
MOST_GAP = 0.005


def main() -> None:
    for jobs in (256, 1_024, 2_048):
        measure(jobs)


def measure(jobs: int) -> None:
    nodes = jobs // 24
    program = made_up(jobs, nodes, seed=1)
    start = time.thread_time()
    answer = prices(program)
    took = time.thread_time() - start
    report("sia", f"decision, {jobs} jobs", took, "s", MOST_S)
    report("sia", f"gap, {jobs} jobs", answer.gap, "share of the bound", MOST_GAP)


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


if __name__ == "__main__":
    main()
