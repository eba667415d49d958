"""The network of learned policies: it scores choices by their features, and learns by gradients.

One multilayer perceptron with two hidden layers of ReLU gives a score to each choice; a choice is
taken with the probability `softmax(scores)`, or the best one. As all choices share the weights, the
order and the number of jobs do not matter, unlike in DL2 (Peng et al., 2019), whose input is 20
jobs side by side. Weights begin as He et al. (2015) have it; steps are those of Adam.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
HIDDEN = 16


@dataclass(slots=True)
class Network:
    """`layers` are weights and biases in turn."""

    layers: list[Array]

    @classmethod
    def random(cls, features: int, seed: int) -> Network:
        draw = np.random.default_rng(seed)
        sizes = (features, HIDDEN, HIDDEN, 1)
        layers: list[Array] = []
        for n, m in pairwise(sizes):
            layers += [draw.normal(0, np.sqrt(2 / n), (n, m)), np.zeros(m)]
        return cls(layers)

    @property
    def features(self) -> int:
        return int(self.layers[0].shape[0])

    def copy(self) -> Network:
        return Network([layer.copy() for layer in self.layers])

    def scores(self, rows: Array) -> Array:
        w1, b1, w2, b2, w3, b3 = self.layers
        hidden = np.maximum(np.maximum(rows @ w1 + b1, 0) @ w2 + b2, 0)
        return np.asarray((hidden @ w3)[:, 0] + b3[0])

    def best(self, rows: Array, keys: Sequence[float]) -> int:
        """Return the choice with the highest score. Raises `FloatingPointError` where one is
        not finite."""
        scores = self.scores(rows)
        if not np.isfinite(scores).all():
            raise FloatingPointError("scores are not finite")
        return int(np.argmax(scores))

    def gradient(self, rows: Array, starts: Array, at: Array, weight: Array) -> list[Array]:
        """Return the gradient of `sum of weight * log probability` of the rows `at`, one of each
        group of `rows`; groups begin at `starts`."""
        w1, b1, w2, b2, w3, b3 = self.layers
        first = np.maximum(rows @ w1 + b1, 0)
        second = np.maximum(first @ w2 + b2, 0)
        parts = probabilities((second @ w3)[:, 0] + b3[0], starts)
        sizes = np.diff(np.append(starts, len(rows)))
        out = -parts * np.repeat(weight, sizes)
        out[at] += weight
        back2 = (out[:, None] @ w3.T) * (second > 0)
        back1 = (back2 @ w2.T) * (first > 0)
        return [
            rows.T @ back1,
            back1.sum(0),
            first.T @ back2,
            back2.sum(0),
            second.T @ out[:, None],
            np.array([out.sum()]),
        ]


def probabilities(scores: Array, starts: Array) -> Array:
    """Return the softmax of each group of scores."""
    sizes = np.diff(np.append(starts, len(scores)))
    raised = np.exp(scores - np.repeat(np.maximum.reduceat(scores, starts), sizes))
    return np.asarray(raised / np.repeat(np.add.reduceat(raised, starts), sizes))


class Adam:
    """Kingma and Ba (2015), with their constants; it goes up the gradient."""

    def __init__(self, network: Network, rate: float) -> None:
        self._network, self._rate, self._step = network, rate, 0
        self._mean = [np.zeros_like(layer) for layer in network.layers]
        self._square = [np.zeros_like(layer) for layer in network.layers]

    def climb(self, gradient: Sequence[Array]) -> None:
        self._step += 1
        for n, slope in enumerate(gradient):
            self._mean[n] = 0.9 * self._mean[n] + 0.1 * slope
            self._square[n] = 0.999 * self._square[n] + 0.001 * slope**2
            mean = self._mean[n] / (1 - 0.9**self._step)
            square = self._square[n] / (1 - 0.999**self._step)
            self._network.layers[n] += self._rate * mean / (np.sqrt(square) + 1e-8)
