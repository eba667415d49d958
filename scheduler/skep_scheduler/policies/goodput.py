"""Goodput of a training job: how fast it makes progress at a size, with the batch that suits it.

Source: Pollux (Qiao et al., OSDI 2021), sections 3 and 4.1. Goodput is throughput times statistical
efficiency. With K GPUs on N nodes, m samples on each GPU at a time and s accumulated steps, the
global batch is `M = m * K * (s + 1)` and

    T_acc  = alpha_c + beta_c * m
    T_net  = 0 where K = 1, alpha_r + beta_r * max(K - 2, 0) on one node, else the same with _n
    T_step = s * T_acc + (T_acc ** gamma + T_net ** gamma) ** (1 / gamma)
    gain   = (var + sqr) / (var / sigma + sqr), with sigma = M / M0
    goodput = gain / T_step: steps at the initial batch M0 per second

`var` and `sqr` are the variance and the squared norm of the gradient at M0; throughput is
`M / T_step`, efficiency `gain / sigma`. `fit` finds the seven parameters of times that were
measured. It differs from the paper as its code does: what was never seen is fixed at values that
favour trying it, and where a batch of one GPU exceeds M0 it accumulates at least one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.optimize import minimize

Array = np.ndarray[Any, Any]
LEAST = 1e-8
BATCHES = 50  # global batches that are tried, in a geometric series


@dataclass(frozen=True, slots=True)
class Speed:
    """The fitted parameters, in seconds but for `gamma`."""

    alpha_c: float
    beta_c: float
    alpha_n: float
    beta_n: float
    alpha_r: float
    beta_r: float
    gamma: float

    def step_s(self, nodes: Array, gpus: Array, local: Array, steps: Array) -> Array:
        """Return the time of one step with `steps` accumulated ones."""
        compute = self.alpha_c + self.beta_c * local
        over = nodes > 1
        more = np.maximum(gpus - 2, 0)
        network = np.where(over, self.alpha_n, self.alpha_r)
        network = network + np.where(over, self.beta_n, self.beta_r) * more
        network = np.where(gpus == 1, LEAST, network)
        last = np.logaddexp(self.gamma * np.log(compute), self.gamma * np.log(network))
        return np.asarray(steps * compute + np.exp(last / self.gamma))


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches that a job may have: `initial` (M0) to `largest` in all, `least` to `most` on one
    GPU. `fixed`: the job keeps the batch `largest`."""

    initial: int
    largest: int
    least: int
    most: int
    fixed: bool = False


def gain(sqr: float, var: float, sigma: Any) -> Any:
    """Return the progress of a step of `sigma` times the initial batch, in initial steps."""
    below = var / sigma + sqr
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, (var + sqr) / below, 1.0)


def split(batches: Batches, gpus: Array, whole: Array) -> tuple[Array, Array]:
    """Return (samples on each GPU at a time, accumulated steps) of global batches."""
    local = whole / gpus
    steps = np.ceil(local / batches.most - LEAST) - 1
    alone = (gpus == 1) & (local > batches.initial + LEAST)
    steps = np.where(alone, np.maximum(steps, 1), steps).astype(int)
    return np.ceil(local / (steps + 1) - LEAST).astype(int), steps


def best(
    speed: Speed, noise: tuple[float, float], batches: Batches, nodes: Array, gpus: Array
) -> tuple[Array, Array, Array]:
    """Return, for each size (nodes, GPUs), the best goodput and its (m, s); goodput 0 where no
    batch is allowed. `noise` is (sqr, var)."""
    nodes, gpus = np.asarray(nodes), np.asarray(gpus)
    if batches.fixed:
        whole = np.full((1, len(gpus)), float(batches.largest))
    else:
        first = np.maximum(batches.initial, batches.least * gpus).astype(float)
        whole = first * (batches.largest / first) ** np.linspace(0, 1, BATCHES)[:, None]
    local, steps = split(batches, gpus, whole)
    # A global batch that is no multiple of the GPUs is rounded up on each of them.
    sigma = gpus * local * (steps + 1) / batches.initial
    goodput = gain(*noise, sigma) / speed.step_s(nodes, gpus, local, steps)
    allowed = (batches.least <= local) & (local <= batches.most)
    goodput = np.where(allowed, goodput, 0.0)
    chosen = np.argmax(goodput, axis=0)
    columns = np.arange(len(gpus))
    return goodput[chosen, columns], local[chosen, columns], steps[chosen, columns]


def fit(seen: Sequence[tuple[int, int, int, float, float]]) -> Speed:
    """Return the parameters of measured (nodes, GPUs, m, T_acc, T_step), at least one of them."""
    table = np.array(seen, dtype=float)
    nodes, gpus, local, acc, step = table.T
    start = np.array([0.1, 0.01, 0.1, 0.01, 0.1, 0.01, 1.001])
    lower = np.array([LEAST] * 6 + [1.0])
    upper = np.array([np.inf] * 6 + [10.0])
    fixed = {}
    if len(np.unique(local)) == 1:
        fixed[0] = float(acc.mean() / 2)
    if not ((nodes == 1) & (gpus > 1)).any():
        fixed[4] = fixed[5] = LEAST
    if not (nodes > 1).any():
        fixed[2] = fixed[3] = LEAST
    if not (gpus > 2).any():
        fixed[3] = fixed[5] = LEAST
    for index, value in fixed.items():
        start[index] = lower[index] = upper[index] = value
    loss = _Loss(nodes, gpus, local, np.log(acc), np.log(step))
    bounds = list(zip(lower, upper, strict=True))
    with np.errstate(all="ignore"):
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    p = [float(value) for value in found.x]
    if not (nodes > 1).any():
        p[2], p[3] = max(p[2], p[4] * 1.1), max(p[3], p[5] * 1.1)
    return Speed(*p)


class _Loss:
    """The loss of the fit and its gradient: RMSE of log T_acc and of log T_step, and what draws
    gamma to 1 and the betas below the alphas."""

    def __init__(self, nodes: Array, gpus: Array, local: Array, acc: Array, step: Array) -> None:
        self._acc, self._step = acc, step
        over, within = (nodes > 1) & (gpus > 1), (nodes <= 1) & (gpus > 1)
        more = np.maximum(gpus - 2, 0)
        # T_acc and T_net are linear in the parameters.
        self._compute = np.column_stack([np.ones(len(local)), local])
        self._network = np.column_stack([over, over * more, within, within * more]).astype(float)
        self._least = np.where(gpus == 1, LEAST, 0.0)

    def __call__(self, p: Array) -> tuple[float, Array]:
        _, _, alpha_n, beta_n, alpha_r, beta_r, gamma = (float(value) for value in p)
        compute = self._compute @ p[:2]
        network = self._network @ p[2:6] + self._least
        log_c, log_n = np.log(compute), np.log(network)
        both = np.logaddexp(gamma * log_c, gamma * log_n)
        share = np.exp(gamma * log_c - both)  # of compute in the last step
        last = both / gamma
        err_a, grad_a = _rmse(log_c - self._acc)
        err_s, grad_s = _rmse(last - self._step)
        slow_n, slow_r = beta_n / alpha_n, beta_r / alpha_r
        loss = err_a + err_s + 1e-3 * (gamma - 1) ** 2 + 1e-2 * (slow_n**2 + slow_r**2)
        of_share = grad_s * share
        gradient = np.empty(7)
        gradient[:2] = ((grad_a + of_share) / compute) @ self._compute
        gradient[2:6] = ((grad_s - of_share) / network) @ self._network
        gradient[2] -= 2e-2 * slow_n**2 / alpha_n
        gradient[3] += 2e-2 * slow_n / alpha_n
        gradient[4] -= 2e-2 * slow_r**2 / alpha_r
        gradient[5] += 2e-2 * slow_r / alpha_r
        of_gamma = of_share @ log_c + (grad_s - of_share) @ log_n - grad_s @ last
        gradient[6] = float(of_gamma) / gamma + 2e-3 * (gamma - 1)
        return loss, gradient


def _rmse(errors: Array) -> tuple[float, Array]:
    value = sqrt(float(errors @ errors) / len(errors))
    return value, errors * (1 / (len(errors) * value) if value else 0.0)
