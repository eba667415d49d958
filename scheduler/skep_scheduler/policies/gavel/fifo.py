"""First in, first out in Gavel (Narayanan et al., OSDI 2020): each job a whole type, by arrival.

- `FifoForLife` (habit of the artifact): a job keeps its type for life. It gets the *last* type by
  name that is still listed, which is v100 here. A type is taken off the list when the last listed
  one is used up, and which one is drawn at random, so that v100 can be overbooked: its jobs then
  share it by rounds. The place of a job that ended goes to the first of the queue.
- `fifo_perf`: chosen anew each time; each job in turn gets the type on which it is fastest and that
  has GPUs left. The first job that fits nowhere ends it.
- `fifo_packed`: then those that wait are packed, each onto the job without companion with which the
  sum of their normalised rates is largest and above 1.5; the first that finds none ends it.
"""

from __future__ import annotations

from typing import Protocol

from skep_scheduler.policies.gavel.problem import Combination, Job, ShareProblem, Shares

THRESHOLD = 1.5  # normalised rate of a pair that is worth packing


class Draws(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def randrange(self, stop: int, /) -> int: ...


class FifoForLife:
    """FIFO that knows no rates; `random` decides which type is taken off its list."""

    def __init__(self, random: Draws) -> None:
        self._random = random
        self._held: dict[int, tuple[int, int]] = {}  # job: (type, GPUs)

    def __call__(self, problem: ShareProblem) -> Shares:
        jobs = {job.number: job for job in problem.jobs}
        left = list(problem.gpus)
        queue = [job for number, job in jobs.items() if number not in self._held]
        for number, (at, gpus) in sorted(self._held.items()):
            if number in jobs:
                left[at] -= gpus
                continue
            del self._held[number]
            if queue and queue[0].gpus <= left[at] and queue[0].rates[at] > 0:
                self._hold(queue.pop(0), at, left)
        listed = sorted(
            (at for at, gpus in enumerate(left) if gpus > 0), key=lambda at: problem.types[at]
        )
        for job in queue:
            fits = [place for place, at in enumerate(listed) if left[at] >= job.gpus]
            if not fits:
                break
            drawn, at = self._random.randrange(len(fits)), listed[-1]
            if job.rates[at] > 0:
                self._hold(job, at, left)
                if left[at] == 0:
                    listed.pop(fits[drawn])
        return {(number,): _whole(problem, at) for number, (at, _) in self._held.items()}

    def _hold(self, job: Job, at: int, left: list[int]) -> None:
        self._held[job.number] = at, job.gpus
        left[at] -= job.gpus


def fifo_perf(problem: ShareProblem) -> Shares:
    """Return the fastest free type of each job, by arrival."""
    placed, _ = _fastest(problem)
    return {(job.number,): _whole(problem, at) for job, at in placed}


def fifo_packed(problem: ShareProblem) -> Shares:
    """Return the same, and companions for those that wait."""
    placed, waiting = _fastest(problem)
    alone = {job.number: (job, at) for job, at in placed}
    pairs: dict[Combination, int] = {}
    for job in waiting:
        best, chosen = THRESHOLD, None
        for number, (other, at) in alone.items():
            rates = problem.pair(other, job)
            if rates is None or other.rates[at] <= 0 or job.rates[at] <= 0:
                continue
            gain = rates[at][0] / other.rates[at] + rates[at][1] / job.rates[at]
            if gain > best:
                best, chosen = gain, number
        if chosen is None:
            break
        _, at = alone.pop(chosen)
        pairs[min(chosen, job.number), max(chosen, job.number)] = at
    shares: Shares = {(number,): _whole(problem, at) for number, (_, at) in alone.items()}
    return shares | {pair: _whole(problem, at) for pair, at in pairs.items()}


def _fastest(problem: ShareProblem) -> tuple[list[tuple[Job, int]], list[Job]]:
    """Return the jobs with their types, and those that wait. The one that did not fit is in
    neither (habit of the artifact)."""
    left = list(problem.gpus)
    names = sorted(range(len(left)), key=lambda at: problem.types[at])
    placed: list[tuple[Job, int]] = []
    for position, job in enumerate(problem.jobs):
        if not any(left):
            return placed, list(problem.jobs[position:])
        fits = [at for at in names if left[at] >= job.gpus]
        if not fits:
            return placed, list(problem.jobs[position + 1 :])
        at = max(fits, key=lambda at: job.rates[at])
        if job.rates[at] > 0:
            placed.append((job, at))
            left[at] -= job.gpus
    return placed, []


def _whole(problem: ShareProblem, at: int) -> tuple[float, ...]:
    return tuple(float(other == at) for other in range(len(problem.types)))
