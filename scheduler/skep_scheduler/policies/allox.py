"""AlloX (Le et al., EuroSys 2020): jobs to GPU types by a matching of least total completion time.

Rule, section 4: job j takes `p_jm` seconds on a GPU of type m. If it is the k-th from the end on a
worker of that type, it adds `k * p_jm` to the sum of completion times: its own run time, and that
of the `k - 1` jobs behind it, which wait for it. So the cost of (job, worker, k) is `k * p_jm` plus
what the job waited so far, and a minimum-cost matching gives the order on all workers at once. The
job with the largest k on a worker is the first to run there. A job that runs is not moved.

It needs the rate of each job on each GPU type, which live jobs do not declare: it is simulated by
the preset `gavel`. Jobs have one GPU each, as in Gavel's form of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf


def match(
    times: Sequence[Mapping[str, float]], waited: Sequence[float], free: Mapping[str, int]
) -> dict[int, str]:
    """Return the GPU type of each job (by its position) that runs first on a worker.

    `times` are the run times of the jobs by GPU type and `waited` how long they waited, in seconds;
    `free` is the number of free workers of each type. Of equal workers no more than there are jobs
    can be used, so that no others are matched.
    """
    n = len(times)
    columns = [
        (k, gpu_type, worker)
        for k in range(1, n + 1)
        for gpu_type in sorted(free)
        for worker in range(min(free[gpu_type], n))
    ]
    if not n or not columns:
        return {}
    costs = [[k * own[t] + waited[row] for k, t, _ in columns] for row, own in enumerate(times)]
    first: dict[tuple[str, int], tuple[int, int]] = {}
    for row, column in enumerate(assign(costs)):
        k, gpu_type, worker = columns[column]
        if k > first.get((gpu_type, worker), (0, 0))[0]:
            first[gpu_type, worker] = k, row
    return {row: gpu_type for (gpu_type, _), (_, row) in first.items()}


def match_equal(times: Sequence[float], waited: Sequence[float], free: int) -> list[int]:
    """Return the positions of the jobs that run first on `free` workers of one type: `match`, which
    scipy does faster where it is installed, with the same answer."""
    n, workers = len(times), min(free, len(times))
    if not n or not workers:
        return []
    try:
        import numpy as np
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        return sorted(match([{"": time} for time in times], waited, {"": free}))
    places = np.repeat(np.arange(1, n + 1), workers)
    costs = np.outer(times, places) + np.asarray(waited, dtype=float)[:, None]
    first: dict[int, tuple[int, int]] = {}
    for row, column in enumerate(linear_sum_assignment(costs)[1].tolist()):
        k, worker = divmod(column, workers)
        first[worker] = max(first.get(worker, (-1, 0)), (k, row))
    return sorted(row for _, row in first.values())


def assign(costs: Sequence[Sequence[float]]) -> list[int]:
    """Return the column of each row so that the sum of costs is least; there are at least as many
    columns as rows. (Shortest augmenting paths with potentials, O(rows^2 * columns).)"""
    rows, columns = len(costs), len(costs[0])
    of_row, of_column = [0.0] * (rows + 1), [0.0] * (columns + 1)
    matched = [0] * (columns + 1)  # the row of each column, from 1; 0: none
    for row in range(1, rows + 1):
        matched[0], column = row, 0
        least, before = [inf] * (columns + 1), [0] * (columns + 1)
        done = [False] * (columns + 1)
        while matched[column]:
            done[column] = True
            mine, step, following = matched[column], inf, 0
            cost, potential = costs[mine - 1], of_row[mine]
            for other in range(1, columns + 1):
                if done[other]:
                    continue
                reduced = cost[other - 1] - potential - of_column[other]
                if reduced < least[other]:
                    least[other], before[other] = reduced, column
                if least[other] < step:
                    step, following = least[other], other
            for other in range(columns + 1):
                if done[other]:
                    of_row[matched[other]] += step
                    of_column[other] -= step
                else:
                    least[other] -= step
            column = following
        while column:
            matched[column] = matched[before[column]]
            column = before[column]
    answer = [0] * rows
    for column in range(1, columns + 1):
        if matched[column]:
            answer[matched[column] - 1] = column - 1
    return answer
