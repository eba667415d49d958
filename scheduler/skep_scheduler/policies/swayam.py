"""Replicas of a service: Gujarati et al., "Swayam: Distributed Autoscaling to Meet SLAs of Machine
Learning Inference Services with Resource Efficiency", Middleware 2017, sections 4 and 5.

A service guarantees that a part `level` of its requests is answered within `sla_s`. Each decision:

1. Rate. `lambda = burst * max(average, trend)`: an exponentially weighted average of the requests
   of each window, and the line through the last windows as it will be when a replica that starts
   now is warm (`cold_s` later): a replica must be there before the requests are.
2. Number. The least n with `P(W + S <= sla_s) >= level` where requests go to one of n replicas at
   random. Each replica is an M/G/1 queue with the load `rho = lambda E[S] / n`; with
   `C^2 = Var[S] / E[S]^2` its wait is taken as
   `P(W > t) = rho exp(-2 (1 - rho) t / (E[S] (1 + C^2)))`, exact for exponential S, and S is what
   was measured.
3. Requests go to the first n replicas in a fixed order. The others get none, and stop by
   themselves when they were idle for `idle_s`.

This is our reading of the paper, which has no public code: it writes of a waiting-time model for
random dispatch, of log-normal service times, and of frontends that each predict their own rate; we
have one frontend, measured times, and the approximation above.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from skep_scheduler.policies.base import parameter

TREND = 6  # windows through which the line goes
POINTS = 100  # quantiles that stand for all service times


@dataclass(frozen=True, slots=True)
class Swayam:
    """Starts as many replicas as keep the guarantee at the rate that is expected when they are
    warm, and lets those stop that no request reaches any more."""

    sla_s: float = parameter(
        1.0, "Seconds within which a request shall be answered.", minimum=1e-6, maximum=1e6
    )
    level: float = parameter(
        0.99, "Part of the requests that shall be.", minimum=0.01, maximum=0.99999
    )
    cold_s: float = parameter(
        30.0, "Seconds until a replica that starts is warm.", minimum=0, maximum=1e5
    )
    idle_s: float = parameter(
        60.0, "Seconds without a request after which a replica stops.", minimum=0, maximum=1e6
    )
    window_s: float = parameter(10.0, "Seconds between two decisions.", minimum=0.1, maximum=1e5)
    smoothing: float = parameter(
        0.3, "Weight of the last window in the average.", minimum=0.001, maximum=1
    )
    burst: float = parameter(
        1.0, "By how much more than expected the rate may rise.", minimum=1, maximum=100
    )

    def rate(self, average: float, counts: Sequence[int]) -> float:
        """Return the requests a second that are expected `cold_s` from now: `average` is that of
        the windows so far, `counts` are the requests of the last ones."""
        line = trend([count / self.window_s for count in counts], 1 + self.cold_s / self.window_s)
        return self.burst * max(average, line, 0.0)

    def needed(self, rate: float, services: Sequence[float], most: int) -> int:
        """Return the least number of replicas that keeps the guarantee, at most `most`."""
        low, high = 1, max(most, 1)
        if within(self.sla_s, rate, high, services) < self.level:
            return high
        while low < high:
            middle = (low + high) // 2
            if within(self.sla_s, rate, middle, services) >= self.level:
                high = middle
            else:
                low = middle + 1
        return low


def trend(values: Sequence[float], ahead: float) -> float:
    """Return the value of the least-squares line through `values`, `ahead` steps behind the last
    one."""
    n = len(values)
    if n < 2:
        return values[0] if values else 0.0
    middle, mean = (n - 1) / 2, sum(values) / n
    spread = sum((i - middle) ** 2 for i in range(n))
    slope = sum((i - middle) * value for i, value in enumerate(values)) / spread
    return mean + slope * (n - 1 + ahead - middle)


def quantiles(services: Sequence[float]) -> list[float]:
    """Return at most `POINTS` service times that stand for all, in ascending order."""
    ordered = sorted(services)
    if len(ordered) <= POINTS:
        return ordered
    return [ordered[int((i + 0.5) * len(ordered) / POINTS)] for i in range(POINTS)]


def within(sla_s: float, rate: float, replicas: int, services: Sequence[float]) -> float:
    """Return the probability that a request is answered within `sla_s`. It never falls with the
    number of replicas."""
    if not services:
        return 1.0
    mean = sum(services) / len(services)
    load = rate * mean / replicas
    if load >= 1:
        return 0.0
    if mean == 0:
        return 1.0
    variation = sum((one - mean) ** 2 for one in services) / len(services) / mean**2
    decay = 2 * (1 - load) / (mean * (1 + variation))
    answered = (1 - load * exp(-decay * (sla_s - one)) for one in services if one <= sla_s)
    return sum(answered) / len(services)
