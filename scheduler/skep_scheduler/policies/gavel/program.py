"""Linear programs of Gavel's rules, solved by HiGHS.

The optimum of these programs is often a whole face, and which point of it is taken decides what
the rounds do with it. Gavel's solver stops near the centre of the face; a vertex, which a simplex
method gives, is another schedule. So HiGHS solves by its interior point method and does not go on
to a vertex.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any

from skep_scheduler.policies.gavel.problem import Combination, Job, ShareProblem, Shares

TINY = 1e-6  # a share below it is a rounding error of the solver
LEAST = 1e-9  # what a job has to go that is as good as done


class SolverMissing(RuntimeError):
    """numpy and HiGHS are not installed."""

    def __init__(self) -> None:
        super().__init__("This policy solves linear programs: pip install 'skep[policies]'.")


class Program:
    """A program to maximise, made column by column and row by row. All columns are at least 0."""

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._low: list[float] = []
        self._high: list[float] = []
        self._starts, self._columns, self._values = [0], list[int](), list[float]()
        self._simplex: Any = None  # the solver of the last vertex, which goes on from there
        self.duals: Sequence[float] = ()

    def column(self, cost: float = 0.0) -> int:
        self._cost.append(cost)
        self._simplex = None
        return len(self._cost) - 1

    def row(
        self, entries: Iterable[tuple[int, float]], low: float = -inf, high: float = inf
    ) -> int:
        for column, value in entries:
            self._columns.append(column)
            self._values.append(value)
        self._starts.append(len(self._columns))
        self._low.append(low)
        self._high.append(high)
        self._simplex = None
        return len(self._low) - 1

    def change(self, row: int, entries: Iterable[tuple[int, float]]) -> None:
        """Change the values of a row; its columns stay the same and in their order."""
        for at, (column, value) in enumerate(entries, self._starts[row]):
            self._values[at] = value
            if self._simplex is not None:
                self._simplex.changeCoeff(row, column, value)

    def solve(self, *, centre: bool = True) -> list[float] | None:
        """Return the columns, None where no point meets the rows. `centre`: the centre of the
        optimal face and not a vertex; a vertex is looked for from the last one on. Sets `duals` of
        the rows. Raises `SolverMissing`."""
        if not centre and self._simplex is not None:
            if (values := self._run(self._simplex)) is not None:
                return values
            self._simplex = None  # it may have lost its way: once more from the start
        try:
            import highspy
            import numpy as np
        except ImportError:
            raise SolverMissing from None

        class Quiet(highspy.Highs):
            """HiGHS that prints nothing; it writes a banner before it can be asked not to."""

            def enableCallbacks(self) -> None:
                self.silent()
                super().enableCallbacks()

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._cost), len(self._low)
        model.sense_ = highspy.ObjSense.kMaximize
        model.col_cost_ = np.array(self._cost)
        model.col_lower_ = np.zeros(len(self._cost))
        model.col_upper_ = np.full(len(self._cost), inf)
        model.row_lower_, model.row_upper_ = np.array(self._low), np.array(self._high)
        matrix: Any = model.a_matrix_
        matrix.format_ = highspy.MatrixFormat.kRowwise
        matrix.start_, matrix.index_ = np.array(self._starts), np.array(self._columns)
        matrix.value_ = np.array(self._values)
        solver = Quiet()
        for name, value in {
            "threads": 1,
            "solver": "ipm" if centre else "simplex",
            "run_crossover": "off" if centre else "on",
        }.items():
            solver.setOptionValue(name, value)
        solver.passModel(model)
        if not centre:
            self._simplex = solver
        found = self._run(solver)
        return self.solve(centre=False) if centre and found is None else found

    def _run(self, solver: Any) -> list[float] | None:
        import highspy

        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = solver.getSolution()
        self.duals = list(solution.row_dual)
        return list(solution.col_value)


class ShareColumns:
    """The columns X of a problem within a program: of each group of jobs (a kind, or a single job)
    and each type the time of all its jobs together, and the same of pairs of groups.

    scale: the column by which the rights of all rows are multiplied; None: they are as they are
    by_left: the time of a group is divided among its jobs by what each has to go, and not equally.
        So that none of them needs more than all of the time, a group gets at most as much time as
        its longest job can use: the sum of what they have to go by that of the longest
    """

    def __init__(
        self,
        program: Program,
        problem: ShareProblem,
        groups: Sequence[Sequence[Job]],
        *,
        packed: bool = False,
        scale: int | None = None,
        by_left: bool = False,
    ) -> None:
        self._groups = groups
        self._weights = [
            [max(job.left, LEAST) if by_left else 1.0 for job in group] for group in groups
        ]
        self._alone: list[tuple[int, int, int]] = []  # (group, type, column)
        self._pairs: list[tuple[int, int, int, int]] = []
        self.made: list[list[tuple[int, float]]] = [[] for _ in groups]  # steps per second
        self.used: list[list[tuple[int, float]]] = [[] for _ in problem.gpus]  # GPUs of each type
        spent: list[list[tuple[int, float]]] = [[] for _ in groups]
        for at, group in enumerate(groups):
            for kind, rate in enumerate(group[0].rates):
                if rate > 0:
                    column = program.column()
                    self._alone.append((at, kind, column))
                    self.made[at].append((column, rate))
                    self.used[kind].append((column, group[0].gpus))
                    spent[at].append((column, 1.0))
        for one, two in _pairs_of(groups) if packed else ():
            rates = problem.pair(groups[one][0], groups[two][0])
            for kind, (mine, other) in enumerate(rates or ()):
                if mine <= 0 or other <= 0:
                    continue
                column = program.column()
                self._pairs.append((one, two, kind, column))
                self.used[kind].append((column, groups[one][0].gpus))
                if one == two:
                    self.made[one].append((column, mine + other))
                    spent[one].append((column, 2.0))
                else:
                    self.made[one].append((column, mine))
                    self.made[two].append((column, other))
                    spent[one].append((column, 1.0))
                    spent[two].append((column, 1.0))
        bounds = [(row, sum(w) / max(w)) for row, w in zip(spent, self._weights, strict=True)]
        bounds += zip(self.used, map(float, problem.gpus), strict=True)
        for row, limit in bounds:
            if scale is None:
                program.row(row, high=limit)
            else:
                program.row([*row, (scale, -limit)], high=0.0)

    def shares(self, values: Sequence[float], scale: float = 1.0) -> Shares:
        """Return the part of the time of each combination."""
        types = len(self.used)
        found: dict[Combination, list[float]] = {}
        for at, kind, column in self._alone:
            each = values[column] / scale / sum(self._weights[at])
            for job, weight in zip(self._groups[at], self._weights[at], strict=True):
                if (part := each * weight) > TINY:
                    found.setdefault((job.number,), [0.0] * types)[kind] = min(part, 1.0)
        for one, two, kind, column in self._pairs:
            first = list(zip(self._groups[one], self._weights[one], strict=True))
            second = list(zip(self._groups[two], self._weights[two], strict=True))
            whole = sum(weight for _, weight in first)
            if one == two:
                pairs = (whole**2 - sum(weight**2 for _, weight in first)) / 2
            else:
                pairs = whole * sum(weight for _, weight in second)
            each = values[column] / scale / pairs
            for place, (job, weight) in enumerate(first):
                for other, its in first[place + 1 :] if one == two else second:
                    if (part := each * weight * its) > TINY:
                        key = min(job.number, other.number), max(job.number, other.number)
                        found.setdefault(key, [0.0] * types)[kind] = min(part, 1.0)
        return {key: tuple(parts) for key, parts in found.items()}


def _pairs_of(groups: Sequence[Sequence[Job]]) -> Iterable[tuple[int, int]]:
    for one, group in enumerate(groups):
        if len(group) > 1:
            yield one, one
        for two in range(one + 1, len(groups)):
            if groups[two][0].gpus == group[0].gpus:
                yield one, two
