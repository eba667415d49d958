"""AlloX (Le et al., EuroSys 2020): jobs to GPU types by a matching of least total completion time.

Rule, section 4: job j takes `p_jm` seconds on a GPU of type m. If it is the k-th from the end on a
worker of that type, it adds `k * p_jm` to the sum of completion times: its own run time, and that
of the `k - 1` jobs behind it, which wait for it. So the cost of (job, worker, k) is `k * p_jm` plus
what the job waited so far, and a minimum-cost matching gives the order on all workers at once. The
job with the largest k on a worker is the first to run there. A job that runs is not moved.

It is simulated by the preset `gavel`. Jobs have one GPU each, as in Gavel's form of it: a gang is
on several workers at once, which the cost of a place does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any


def match(
    times: Sequence[Mapping[str, float]], waited: Sequence[float], free: Mapping[str, int]
) -> dict[int, str]:
    """Return the GPU type of each job (by its position) that runs first on a worker.

    `times` are the run times of the jobs by GPU type and `waited` how long they waited, in seconds;
    `free` is the number of free workers of each type. Where several matchings cost the same, which
    one is taken depends on the order of the columns: place by place, and within a place worker by
    worker, the types by name.
    """
    n = len(times)
    workers = [gpu_type for gpu_type in sorted(free) for _ in range(free[gpu_type])]
    if not n or not workers:
        return {}
    costs = _costs([[own[gpu_type] for gpu_type in workers] for own in times], waited)
    first: dict[int, tuple[int, int]] = {}
    for row, column in enumerate(assign(costs)):
        k, worker = divmod(column, len(workers))
        first[worker] = max(first.get(worker, (-1, 0)), (k, row))
    return {row: workers[worker] for worker, (_, row) in first.items()}


def match_equal(times: Sequence[float], waited: Sequence[float], free: int) -> list[int]:
    """Return the positions of the jobs that run first on `free` workers of one type: of them no
    more than there are jobs can be used, so that no others are matched."""
    workers = min(free, len(times))
    return sorted(match([{"": time} for time in times], waited, {"": workers}))


def _costs(times: Sequence[Sequence[float]], waited: Sequence[float]) -> Any:
    """Return the cost of each job at each place of each worker: an array where numpy is there."""
    n = len(times)
    try:
        import numpy as np
    except ImportError:
        return [
            [k * time + since for k in range(1, n + 1) for time in own]
            for own, since in zip(times, waited, strict=True)
        ]
    places = np.arange(1, n + 1)[None, :, None]
    costs = places * np.asarray(times, dtype=float)[:, None, :]
    return costs.reshape(n, -1) + np.asarray(waited, dtype=float)[:, None]


def assign(costs: Sequence[Sequence[float]]) -> list[int]:
    """Return the column of each row so that the sum of costs is least; there are at least as many
    columns as rows. scipy is faster where it is installed, and gives the same answer."""
    try:
        import numpy as np
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        return assign_plainly(costs)
    columns: list[int] = linear_sum_assignment(np.asarray(costs, dtype=float))[1].tolist()
    return columns


def assign_plainly(costs: Sequence[Sequence[float]]) -> list[int]:
    """`assign` without a library: rows are added one by one, each along the shortest augmenting
    path (D. F. Crouse, 2016, as in scipy). Of equal columns a free one is taken first; the columns
    are looked at from the last to the first, and a column that is done gives its place to the last.
    """
    rows, columns = len(costs), len(costs[0])
    of_row, of_column = [0.0] * rows, [0.0] * columns  # potentials
    row_at: list[int | None] = [None] * columns
    column_of = [-1] * rows
    for added in range(rows):
        distance, through = [inf] * columns, [-1] * columns
        waiting = list(range(columns - 1, -1, -1))
        reached, done, row, so_far = [added], list[int](), added, 0.0
        while True:
            base, costs_of = of_row[row], costs[row]
            nearest, at = inf, -1
            for place, column in enumerate(waiting):
                length = so_far + costs_of[column] - base - of_column[column]
                if length < distance[column]:
                    distance[column], through[column] = length, row
                own = distance[column]
                if own < nearest or (own == nearest and row_at[column] is None):
                    nearest, at = own, place
            so_far, column = nearest, waiting[at]
            done.append(column)
            waiting[at] = waiting[-1]
            waiting.pop()
            holder = row_at[column]
            if holder is None:
                break
            row = holder
            reached.append(row)
        of_row[added] += so_far
        for row in reached[1:]:
            of_row[row] += so_far - distance[column_of[row]]
        for other in done:
            of_column[other] -= so_far - distance[other]
        row = -1
        while row != added:
            row = through[column]
            row_at[column] = row
            column_of[row], column = column, column_of[row]
    return column_of
