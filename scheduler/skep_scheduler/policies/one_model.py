"""Shares of time on GPUs of one model, in closed form: Gavel's policies without a solver.

Narayanan et al., OSDI 2020, section 4, for a cluster of N equal GPUs: `x_j` is the part of the time
that job j runs on its `n_j` GPUs, with `0 <= x_j <= 1` and `sum_j n_j x_j <= N`.

- `isolated`: `x_j = N / (J n_j)`, at most 1: an equal part of the cluster for each of J jobs;
  `equal_time`: `x_j = N / J`, at most 1, whatever its size (Shockwave's Gandiva_fair)
- `max_min` (least attained service): maximise the least `n_j x_j`
- `finish_time_fair` (Themis as Gavel has it): minimise the largest
  `rho_j = (elapsed_j + left_j / x_j) / isolated_j`, with `left_j` seconds of work, and `isolated_j`
  what the job takes with an equal part of the cluster
- `least_makespan`: the least T with `x_j T >= left_j` for all, to 5 %, in [100, 10^6] s
- `max_sum`: maximise `sum_j rate_j x_j`

Where the best is not unique, an interior-point method ends in the middle of all best answers; that
is what Gavel's published numbers come from. `middle` is that point: the analytic centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

EXACT = 1e-9


def equal_time(jobs: int, gpus: int) -> list[float]:
    share = gpus / jobs if jobs else 0.0
    return [share / max(share, 1.0)] * jobs


def isolated(sizes: Sequence[int], gpus: int) -> list[float]:
    shares = [gpus / len(sizes) / size for size in sizes]
    return [share / max(share, 1.0) for share in shares]


def max_min(sizes: Sequence[int], gpus: int) -> list[float]:
    if not sizes:
        return []
    least = min(gpus / len(sizes), float(min(sizes)))
    return middle([least / size for size in sizes], sizes, gpus)


def finish_time_fair(
    elapsed: Sequence[float],
    left: Sequence[float],
    alone: Sequence[float],
    sizes: Sequence[int],
    gpus: int,
) -> list[float]:
    """`alone` is the time of each job with an equal part of the cluster; all in seconds."""
    if not sizes:
        return []

    def least(rho: float) -> list[float]:
        return [
            work / max(rho * own - waited, work) if work > 0 else 0.0
            for waited, work, own in zip(elapsed, left, alone, strict=True)
        ]

    rho = max((w + max(r, 0.0)) / own for w, r, own in zip(elapsed, left, alone, strict=True))
    if _fits(least(rho), sizes, gpus):
        return middle(least(rho), sizes, gpus)
    jobs = [
        (n, work, waited, own)
        for n, work, waited, own in zip(sizes, left, elapsed, alone, strict=True)
        if work > 0
    ]
    # 1 / used is concave in rho: Newton's method comes from below, without bounds.
    for _ in range(100):
        used = slope = 0.0
        for n, work, waited, own in jobs:
            span = max(rho * own - waited, work)
            used += n * work / span
            slope += n * work * own / span**2
        step = used * (used / gpus - 1) / slope
        if step <= rho * 1e-15:
            break
        rho += step
    return least(rho)


def least_makespan(left: Sequence[float], sizes: Sequence[int], gpus: int) -> list[float]:
    low, high, wide, found = 100.0, 1e6, 1e6, 0.0
    while not found:
        while 1.05 * low < high:
            between = (low + high) / 2
            shares = [max(work, 0.0) / between for work in left]
            if max(shares, default=0.0) <= 1 and _fits(shares, sizes, gpus):
                found = high = between
            else:
                low = between
        low, high, wide = wide, wide * 10, wide * 10
    return middle([max(work, 0.0) / found for work in left], sizes, gpus)


def max_sum(rates: Sequence[float], sizes: Sequence[int], gpus: int) -> list[float]:
    """Jobs of equal rate for each GPU share what is left for them."""
    shares = [0.0] * len(sizes)
    worth: dict[float, list[int]] = {}
    for job, (rate, size) in enumerate(zip(rates, sizes, strict=True)):
        if rate > 0:
            worth.setdefault(rate / size, []).append(job)
    free = float(gpus)
    for rate in sorted(worth, reverse=True):
        need = sum(sizes[job] for job in worth[rate])
        for job in worth[rate]:
            shares[job] = min(1.0, free / need)
        free = max(free - need, 0.0)
    return shares


def middle(least: Sequence[float], sizes: Sequence[int], gpus: int) -> list[float]:
    """Return the analytic centre of `least_j <= x_j <= 1`, `x_j >= 0` and `sum_j n_j x_j <= N`.

    It maximises the sum of the logarithms of all slacks: at a price `p = 1 / (N - sum_j n_j x_j)`
    of GPUs, `1 / (x_j - least_j) + 1 / x_j - 1 / (1 - x_j) = n_j p`.
    """
    slack = gpus - fsum(n * x for n, x in zip(sizes, least, strict=True))
    if slack <= EXACT * gpus:
        return list(least)
    kinds = {
        (x, n): (x + 1) / 2 for x, n in zip(least, sizes, strict=True) if x < 1 - EXACT
    }  # equal jobs get equal shares
    count: dict[tuple[float, int], int] = dict.fromkeys(kinds, 0)
    for pair in zip(least, sizes, strict=True):
        if pair in count:
            count[pair] += 1
    fixed = fsum(n * x for x, n in zip(least, sizes, strict=True) if (x, n) not in kinds)
    cheap, dear = 1e-3 / gpus, 1 / slack * 1e9
    for _ in range(80):
        price = (cheap * dear) ** 0.5
        used = fixed
        for (x, n), guess in kinds.items():
            kinds[x, n] = _balanced(x, n * price, guess)
            used += count[x, n] * n * kinds[x, n]
        if used + 1 / price > gpus:
            cheap = price
        else:
            dear = price
        if dear - cheap < 1e-13 * dear:
            break
    return [kinds.get(pair, pair[0]) for pair in zip(least, sizes, strict=True)]


def _balanced(least: float, price: float, guess: float) -> float:
    """Return the x in (least, 1) at which the marginal slack equals a price (Newton, guarded)."""
    low, high, x = least, 1.0, guess
    for _ in range(60):
        a, b, c = x - least, x, 1 - x
        value = 1 / a + 1 / b - 1 / c - price
        if value > 0:
            low = x
        else:
            high = x
        step = x + value / (1 / a**2 + 1 / b**2 + 1 / c**2)
        following = step if low < step < high else (low + high) / 2
        if abs(following - x) < 1e-15 or not low < following < high:
            return x
        x = following
    return x


def _fits(shares: Sequence[float], sizes: Sequence[int], gpus: int) -> bool:
    return fsum(n * x for n, x in zip(sizes, shares, strict=True)) <= gpus * (1 + 1e-12)
