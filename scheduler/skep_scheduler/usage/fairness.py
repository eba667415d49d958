"""Finish-time fairness: by what factor a job took longer than on an equal share of the GPUs.

`rho = (elapsed + left) / (duration * max(1, J * n / N))`: from the submission until now, or until
the end, and what is left; by the time that the job takes alone on its `n` GPUs, stretched to an
equal part of `N` GPUs among the `J` jobs that were there on average during its life (Mahajan et
al., NSDI 2020, section 3). 1 is fair; the live pages and the simulator count it alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

UNFAIR = 1.05


@dataclass(frozen=True, slots=True)
class Life:
    """A job from its submission until its end, or until now; in seconds.

    duration_s: how long it runs at the size that it asks for, with its GPUs to itself; None: that
        is not known, and the job counts for others only
    left_s: the part of it that it has not run yet
    known_from: since when the jobs beside it are known, where that is later than its submission
    """

    submitted_at: float
    until: float
    gpus: int
    duration_s: float | None
    left_s: float = 0.0
    known_from: float | None = None


def finish_time_fairness(lives: Sequence[Life], gpus: int) -> list[float | None]:
    """Return rho of each job; None where it has none: it has no duration, or no time has passed."""
    if not gpus:
        return [None] * len(lives)
    mean_jobs = _mean_jobs(lives)
    found: list[float | None] = []
    for life, jobs in zip(lives, mean_jobs, strict=True):
        took = life.until - life.submitted_at + life.left_s
        if life.duration_s is None or life.duration_s <= 0 or took <= 0:
            found.append(None)
        else:
            found.append(took / (life.duration_s * max(1.0, jobs * life.gpus / gpus)))
    return found


def jain_index(shares: Sequence[float]) -> float | None:
    """Return `J = (sum x)^2 / (n * sum x^2)` of what each of `n` users got, of any unit and none of
    it negative: 1 where all got the same, `1 / n` where one got all; None without users (Jain,
    Chiu and Hawe, DEC-TR-301, 1984, section 3)."""
    most = max(shares, default=None)
    if most is None:
        return None
    if most == 0:
        return 1.0
    parts = [share / most for share in shares]  # so that no square overflows or is lost
    return fsum(parts) ** 2 / (len(parts) * fsum(part * part for part in parts))


def _mean_jobs(lives: Sequence[Life]) -> list[float]:
    """Return how many jobs there were on average during the life of each: the integral of those
    that had come and not ended, by its length."""
    changes = sorted(
        [(life.submitted_at, 1) for life in lives] + [(life.until, -1) for life in lives]
    )
    moments, integral, present = [], [], []
    total, active, before = 0.0, 0, 0.0
    for moment, change in changes:
        total += active * (moment - before)
        before, active = moment, active + change
        moments.append(moment)
        integral.append(total)
        present.append(active)

    def until(moment: float) -> float:
        last = bisect_right(moments, moment) - 1
        return integral[last] + present[last] * (moment - moments[last])

    means = []
    for life in lives:
        start = max(life.submitted_at, life.known_from or life.submitted_at)
        length = life.until - start
        means.append((until(life.until) - until(start)) / length if length > 0 else 1.0)
    return means
