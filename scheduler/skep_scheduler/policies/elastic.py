"""The contract of elastic policies: how many GPUs each job has from now on, and when to ask again.

An elastic policy is a frozen dataclass as an order policy is: its fields are its parameters, made
with `base.parameter`. It is pure: what it remembers of a job is in `memo`, which it may lose.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, Protocol, runtime_checkable

from skep_scheduler.policies.base import Knows, Needs


@dataclass(slots=True)
class ElasticFacts:
    """What an elastic policy reads of a job. Work is in any unit, such as steps.

    gpus: what it asks for; least, largest: the fewest and the most GPUs that it can use
    rate: work per second on so many GPUs, 0 where it cannot run
    left, total: work; attained_gpu_s: GPU-seconds held so far
    held: its GPUs now; rescaled_at: when that changed last; rescale_s: what a change costs it
    admitted: False at the decision that follows its arrival
    """

    id: str
    submitted_at: float
    gpus: int
    rate: Callable[[int], float]
    largest: int
    left: float
    total: float
    deadline_at: float = inf
    rescale_s: float = 0.0
    held: int = 0
    attained_gpu_s: float = 0.0
    rescaled_at: float = -inf
    admitted: bool = False
    least: int = 1
    memo: Any = None

    def left_s(self, gpus: int) -> float:
        """Return how long it still runs on so many GPUs (seconds)."""
        rate = self.rate(gpus) if gpus else 0.0
        return self.left / rate if rate else inf

    def levels(self, most: int) -> list[int]:
        """Return the least size and the powers of two, up to `most`, with which it gets faster and
        faster."""
        found, best = list[int](), 0.0
        most = min(most, self.largest)
        sizes = {1 << power for power in range(most.bit_length())} | {self.least}
        for size in sorted(sizes):
            if size <= most and (rate := self.rate(size)) > best:
                found.append(size)
                best = rate
        return found


@dataclass(frozen=True, slots=True)
class Sizes:
    """The GPUs of each job by its id; a job that is not named has none.

    refuse: jobs that are never run, with the reason
    wake_at: decide again then, even if nothing happens
    fell_back: why a learned policy left this decision to its fallback
    """

    gpus: Mapping[str, int] = field(default_factory=dict)
    refuse: Mapping[str, str] = field(default_factory=dict)
    wake_at: float = inf
    fell_back: str = ""


class ElasticPolicy(Protocol):
    """Decides the sizes of all jobs of a pool of equal GPUs."""

    @property
    def name(self) -> str: ...

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        """Return the sizes from now on. `jobs` are in the order of their submission; `gpus` is the
        size of the pool."""
        ...


# Of elastic jobs, by policies that choose sizes live (`sized`).
ASSUMES = {
    Knows.SPEEDUP: "Its speed at other sizes is taken from Amdahl's law with a serial part of a "
    "tenth.",
    Knows.RESTART: "A change of its size is taken to cost 30 s.",
}
NEEDS = Needs(
    frozenset({Knows.DURATION}),
    "A job of unknown duration is taken for as long again as it has run, for an hour at least.",
    ASSUMES,
)


@runtime_checkable
class LiveElasticPolicy(Protocol):
    """An elastic policy that a virtual cluster can choose. `sized.Sized` makes decisions of it."""

    name: ClassVar[str]
    label: ClassVar[str]
    needs: ClassVar[Needs]

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        """Return the sizes from now on, see `ElasticPolicy`."""
        ...
