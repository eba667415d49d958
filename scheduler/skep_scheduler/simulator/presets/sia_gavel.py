"""Gavel with tuned jobs in the presets `sia-64` and `sia-t4`, as Sia's artifact has it.

Jobs keep the size and the batch of their request. Every round of 360 s the fractions of time
`x_jm` that job j runs on GPU type m maximise `sum T_jm x_jm` (Gavel's `max_sum`), with the steps
per second T; who runs follows from the fractions and from the time that the job got so far.

The optimum is flat: jobs of one application have equal rows. The artifact takes the answer of an
interior-point solver, which lies in the middle of the optimal answers; so does this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import highspy
import numpy as np
from highspy import HighsLp, MatrixFormat, ObjSense, kHighsInf

from skep_scheduler.policies.goodput import Array
from skep_scheduler.simulator.presets.sia_jobs import JobGpus, SiaJob
from skep_scheduler.simulator.presets.sia_rounds import SiaCluster

TOO_LARGE_RATE = 0.1  # on a GPU type with fewer GPUs than the job asks for


class GavelRounds:
    """Gavel's rounds over the fractions of `max_sum`."""

    round_s = 360

    def __init__(self, cluster: SiaCluster) -> None:
        self._cluster = cluster
        self._types = list(cluster.types)
        self._time: dict[str, Array] = {}  # that a job got, by GPU type
        self._total = np.zeros(len(self._types))
        self._held: dict[str, JobGpus] = {}

    def decide(self, jobs: Sequence[SiaJob], now: int) -> Mapping[str, JobGpus]:
        for job in jobs:
            if job.trace.id not in self._time:
                self._time[job.trace.id] = np.full(len(self._types), self.round_s / 2)
                self._total += self.round_s / 2
        rates = np.array([self._rates(job) for job in jobs])
        sizes = np.array([job.trace.gpus for job in jobs])
        capacity = self._cluster.capacity
        share = np.round(max_sum(rates, sizes, [capacity[name] for name in self._types]), 5)
        time = np.array([self._time[job.trace.id] for job in jobs])
        priority = np.where(share > 0, share / (time / self._total), 0.0)
        ranked = sorted(
            (-priority[row, column], -share[row, column], column, row)
            for row in range(len(jobs))
            for column in range(len(self._types))
        )
        free = [capacity[name] for name in self._types]
        chosen: dict[int, int] = {}
        for _, _, column, row in ranked:
            if row not in chosen and sizes[row] <= free[column]:
                free[column] -= int(sizes[row])
                chosen[row] = column
                self._time[jobs[row].trace.id][column] += self.round_s
                self._total[column] += self.round_s
        wanted = [(jobs[row].trace, self._types[column]) for row, column in chosen.items()]
        self._held = self._place([(t.id, name, t.gpus) for t, name in wanted])
        return self._held

    def _rates(self, job: SiaJob) -> list[float]:
        return [
            job.steps_per_s(name, filled(job.trace.gpus, per_node))
            if job.trace.gpus <= nodes * per_node
            else TOO_LARGE_RATE
            for name, (nodes, per_node) in self._cluster.types.items()
        ]

    def _place(self, wanted: Sequence[tuple[str, str, int]]) -> dict[str, JobGpus]:
        """Give the GPUs: the largest jobs first; of one size first those that can keep theirs."""
        placed: dict[str, JobGpus] = {}
        for name, (nodes, per_node) in self._cluster.types.items():
            free = [per_node] * nodes
            mine = [(job, gpus) for job, gpu_type, gpus in wanted if gpu_type == name]
            for size in sorted({gpus for _, gpus in mine}, reverse=True):
                equal = [job for job, gpus in mine if gpus == size]
                for job in equal:
                    held = self._held.get(job)
                    if held is None or held.gpu_type != name:
                        continue
                    need = [held.nodes.count(node) for node in range(nodes)]
                    if all(n <= left for n, left in zip(need, free, strict=True)):
                        free = [left - n for n, left in zip(need, free, strict=True)]
                        placed[job] = held
                for job in equal:
                    if job in placed:
                        continue
                    taken: list[int] = []
                    for node in range(nodes):
                        part = min(free[node], size - len(taken))
                        taken += [node] * part
                        free[node] -= part
                    placed[job] = JobGpus(name, tuple(taken))
        return placed


def filled(gpus: int, per_node: int) -> tuple[int, ...]:
    """Return the GPUs on each node when node by node is filled."""
    rest = gpus % per_node
    return (per_node,) * (gpus // per_node) + ((rest,) if rest else ())


def max_sum(rates: Array, sizes: Array, capacity: Sequence[int]) -> Array:
    """Return x (jobs by GPU types) that maximises `sum rates * x`, with `sum_m x_jm <= 1` and
    `sum_j sizes_j * x_jm <= capacity_m`: from an interior point, without going on to a vertex."""
    jobs, types = rates.shape
    program = HighsLp()
    program.num_col_, program.num_row_ = jobs * types, jobs + types
    program.sense_ = ObjSense.kMaximize
    program.col_cost_ = rates.ravel()
    program.col_lower_, program.col_upper_ = np.zeros(jobs * types), np.ones(jobs * types)
    program.row_lower_ = np.full(jobs + types, -kHighsInf)
    program.row_upper_ = np.concatenate([np.ones(jobs), np.asarray(capacity, dtype=float)])
    columns = np.arange(jobs * types)
    matrix = program.a_matrix_
    matrix.format_ = MatrixFormat.kColwise
    matrix.start_ = np.arange(0, 2 * jobs * types + 1, 2)
    matrix.index_ = np.column_stack([columns // types, jobs + columns % types]).ravel()
    matrix.value_ = np.column_stack([np.ones(len(columns)), np.repeat(sizes, types)]).ravel()
    solver = highspy._Highs()  # type: ignore[attr-defined]  # `Highs` prints a banner
    for option, value in (
        ("output_flag", False),
        ("solver", "ipm"),
        ("run_crossover", "off"),
        ("presolve", "off"),
        ("threads", 1),
    ):
        solver.setOptionValue(option, value)
    solver.passModel(program)
    solver.run()
    found = np.array(solver.getSolution().col_value).reshape(jobs, types)
    return np.asarray(np.clip(found, 0.0, 1.0))
