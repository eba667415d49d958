"""Data-parallel logistic regression in plain Python: each rank holds a part of the samples, the
gradients are summed over sockets at rank 0, and every rank takes the same step.

The platform sets the rank of each task and the address of rank 0: MASTER_ADDR, MASTER_PORT, RANK,
WORLD_SIZE, and OpenPAI's PAI_* variables.
"""

from __future__ import annotations

import math
import os
import random
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

FEATURES = 12
SAMPLES = 1500  # per rank
EPOCHS = int(os.environ.get("EPOCHS", "25"))
STEP = 4.0
ENOUGH = 0.95  # of the samples classified right
REACH_MASTER_WITHIN_S = 60.0

Vector = list[float]


@dataclass(frozen=True)
class Place:
    """Who this task is, in the platform's words."""

    rank: int
    world: int
    master: tuple[str, int]

    @classmethod
    def from_environment(cls) -> Place:
        env = os.environ
        return cls(
            int(env["RANK"]),
            int(env["WORLD_SIZE"]),
            (env["MASTER_ADDR"], int(env["MASTER_PORT"])),
        )


def main() -> int:
    place = Place.from_environment()
    _check_pai_words(place)
    job, gpus = os.environ["PAI_JOB_NAME"], os.environ.get("NVIDIA_VISIBLE_DEVICES", "")
    print(f"rank {place.rank} of {place.world} of {job}, GPUs {gpus}", flush=True)
    truth = _unit_vector(random.Random(7))
    samples = _samples(truth, random.Random(100 + place.rank))
    weights = train(place, samples)
    angle = sum(a * b for a, b in zip(truth, weights, strict=True)) / (math.hypot(*weights) or 1.0)
    right = sum((_dot(weights, x) > 0) == (y > 0.5) for x, y in samples) / len(samples)
    print(f"rank {place.rank}: {right:.1%} right, cosine to the truth {angle:.4f}", flush=True)
    if right < ENOUGH:
        print(f"rank {place.rank}: did not converge", file=sys.stderr)
        return 1
    print(f"rank {place.rank}: converged", flush=True)
    return 0


def train(place: Place, samples: list[tuple[Vector, float]]) -> Vector:
    """Return the weights after EPOCHS equal steps of every rank."""
    weights = [0.0] * FEATURES
    all_reduce = _lead(place) if place.rank == 0 else _join(place)
    for epoch in range(1, EPOCHS + 1):
        started = time.perf_counter()
        gradient, loss = _gradient(weights, samples)
        *total, total_loss = all_reduce([*gradient, loss])
        scale = 1 / (SAMPLES * place.world)
        weights = [w - STEP * g * scale for w, g in zip(weights, total, strict=True)]
        took = time.perf_counter() - started
        print(
            f"epoch {epoch:2}/{EPOCHS}  loss {total_loss * scale:.4f}  "
            f"own {loss / SAMPLES:.4f}  {took * 1000:.0f} ms",
            flush=True,
        )
    everyone = all_reduce(weights)
    if any(abs(e - place.world * w) > 1e-9 for e, w in zip(everyone, weights, strict=True)):
        raise RuntimeError("the ranks have different weights")
    return weights


def _lead(place: Place) -> Callable[[Vector], Vector]:
    """Rank 0: take every other rank's vector, give back the sum."""
    listener = socket.create_server(("", place.master[1]))
    peers = [listener.accept()[0] for _ in range(place.world - 1)]
    print(f"all {place.world} ranks are here", flush=True)

    def all_reduce(own: Vector) -> Vector:
        vectors = [own, *(_receive(peer, len(own)) for peer in peers)]
        total = [sum(column) for column in zip(*vectors, strict=True)]
        for peer in peers:
            _send(peer, total)
        return total

    return all_reduce


def _join(place: Place) -> Callable[[Vector], Vector]:
    """Any other rank: connect to rank 0, which may start later than we do."""
    deadline = time.monotonic() + REACH_MASTER_WITHIN_S
    while True:
        try:
            master = socket.create_connection(place.master, timeout=5)
            break
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    master.settimeout(None)

    def all_reduce(own: Vector) -> Vector:
        _send(master, own)
        return _receive(master, len(own))

    return all_reduce


def _send(peer: socket.socket, vector: Vector) -> None:
    peer.sendall(struct.pack(f"!{len(vector)}d", *vector))


def _receive(peer: socket.socket, length: int) -> Vector:
    data = b""
    while len(data) < 8 * length:
        piece = peer.recv(8 * length - len(data))
        if not piece:
            raise ConnectionError("a rank went away")
        data += piece
    return list(struct.unpack(f"!{length}d", data))


def _gradient(weights: Vector, samples: list[tuple[Vector, float]]) -> tuple[Vector, float]:
    """Sum of the gradients of the logistic loss over the samples, and of the loss."""
    total, loss = [0.0] * FEATURES, 0.0
    for x, y in samples:
        score = _dot(weights, x)
        guess = 1 / (1 + math.exp(-score))
        loss += math.log1p(math.exp(-abs(score))) + max(score, 0.0) - y * score
        for i, value in enumerate(x):
            total[i] += (guess - y) * value
    return total, loss


def _samples(truth: Vector, dice: random.Random) -> list[tuple[Vector, float]]:
    points = [[dice.gauss(0, 1) for _ in range(FEATURES)] for _ in range(SAMPLES)]
    return [(x, 1.0 if _dot(truth, x) + dice.gauss(0, 0.02) > 0 else 0.0) for x in points]


def _unit_vector(dice: random.Random) -> Vector:
    raw = [dice.gauss(0, 1) for _ in range(FEATURES)]
    return [value / math.hypot(*raw) for value in raw]


def _dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def _check_pai_words(place: Place) -> None:
    """Check that OpenPAI's variables say the same."""
    env = os.environ
    role = env["PAI_CURRENT_TASK_ROLE_NAME"]
    index = env["PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX"]
    assert env["PAI_TASK_ROLE_LIST"].split(",") == [role]
    assert int(env[f"PAI_TASK_ROLE_TASK_COUNT_{role}"]) == place.world
    assert int(index) == place.rank
    assert f"PAI_HOST_IP_{role}_{index}" in env


if __name__ == "__main__":
    sys.exit(main())
