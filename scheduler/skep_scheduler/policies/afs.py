"""Apathetic future share (AFS-L) and CoDDL (Hwang et al., NSDI 2021): elastic sizes for least JCT.

Rule, section 3: GPUs are given one by one, each to the winner of a contest between jobs. With
`p_j(k)` the rate of job j on k GPUs, `p_j = p_j(k_j)` and `p_j' = p_j(k_j + 1)`, of two jobs

- without GPUs both, the one that is shorter on one GPU wins;
- else let a be the one that ends sooner with its GPUs, b the other: b wins if
  `(p_b' - p_b) / P_b > (p_a' - p_a) / p_a`. A job that gets no faster (`p' <= p`) is out.

`P_b` is the rate of b when a has ended. The paper's text leaves open with how many GPUs that is:
`future=all` (default) takes all GPUs, which gives the two-job optimum of the paper and makes AFS
equal to SRTF where speed-up is linear, as the paper says; `future=next` takes `p_b'`, as public
re-implementations do, and then a job without GPUs always gets its first. They also differ in the
last denominator, `p_a` (default) or `p_a'` (`share=next`).

CoDDL carries it out: sizes change at arrivals and ends only, and a job is not resized again within
`hold` times the cost of a resize (3 in CoDDL). Of jobs without GPUs only the shortest is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from skep_scheduler.policies.base import Needs, parameter
from skep_scheduler.policies.elastic import NEEDS, ElasticFacts, Sizes

MOST_LOOKS = 2_000_000


@dataclass(slots=True)
class Contender:
    """A job in the contest with k GPUs. `now`, `more`: its rates on k and on `step` more."""

    job: ElasticFacts
    future: float
    k: int = 0
    now: float = 0.0
    more: float = 0.0
    step: int = 1

    def __post_init__(self) -> None:
        self.step = max(self.job.least, min(self.step, self.job.largest))
        self.more = self.job.rate(self.step)

    def grow(self, further: int) -> None:
        """Give it its step; it asks for so many more next."""
        self.k += self.step
        self.now = self.more
        self.ask(further)

    def ask(self, further: int) -> None:
        self.step = max(min(further, self.job.largest - self.k), 1)
        self.more = self.job.rate(self.k + self.step) if self.k < self.job.largest else 0.0

    @property
    def ends_in(self) -> float:
        return self.job.left / self.now if self.now else inf


def shares(
    jobs: Sequence[ElasticFacts], gpus: int, *, future: str = "all", share: str = "now"
) -> Mapping[str, int]:
    """Return the GPUs of each job by its id. Where all contests would be more than `MOST_LOOKS`
    comparisons, two, four, eight, … GPUs are given at a time, and the last ones one by one."""
    further = 1 << max(gpus * len(jobs) // MOST_LOOKS, 1).bit_length() - 1
    waiting = [
        Contender(job, job.rate(min(gpus, job.largest)), step=further)
        for job in jobs
        if job.least <= gpus
    ]
    waiting.sort(key=lambda one: -one.job.left / one.more)  # the shortest is the last
    running: list[Contender] = []

    def beats(b: Contender, a: Contender) -> bool:
        if b.ends_in < a.ends_in:
            return not beats(a, b)
        after = b.more if future == "next" else max(b.future, b.more)
        return (b.more - b.now) / after > (a.more - a.now) / (a.more if share == "next" else a.now)

    free = gpus
    while free:
        best: Contender | None = None
        for one in running:
            if one.more > one.now and one.step <= free and (best is None or beats(one, best)):
                best = one
        while waiting and waiting[-1].step > free:
            waiting.pop()
        if waiting and (best is None or beats(waiting[-1], best)):
            best = waiting.pop()
            running.append(best)
        if best is None and further > 1:
            further = 1
            for one in running:
                one.ask(further)
            continue
        if best is None:
            break
        free -= best.step
        best.grow(further)
    return {one.job.id: one.k for one in running}


@dataclass(frozen=True, slots=True)
class Afs:
    """Gives GPUs one by one, to short jobs and to those that use them well, so that the mean
    completion time is small. Sizes change at arrivals and ends."""

    name: ClassVar[str] = "afs"
    label: ClassVar[str] = "GPUs where they help most"
    needs: ClassVar[Needs] = NEEDS

    future: str = parameter(
        "all", "The GPUs of a job when the other one has ended.", choices=("all", "next")
    )
    share: str = parameter(
        "now", "What a gain of the shorter job is part of.", choices=("now", "next")
    )
    hold: float = parameter(
        0.0, "Not resized again within so many times the cost of a resize.", minimum=0, maximum=1000
    )

    def decide(self, jobs: Sequence[ElasticFacts], gpus: int, now: float) -> Sizes:
        held: dict[str, int] = {}
        wake_at = inf
        for job in jobs:
            until = job.rescaled_at + self.hold * job.rescale_s
            if job.held and until > now:
                held[job.id] = job.held
                wake_at = min(wake_at, until)
        free = gpus - sum(held.values())
        others = [job for job in jobs if job.id not in held]
        sizes = shares(others, free, future=self.future, share=self.share)
        return Sizes({**held, **sizes}, wake_at=wake_at)


@dataclass(frozen=True, slots=True)
class Coddl(Afs):
    """The sizes of AFS; a job is not resized again within three times the cost of a resize."""

    name: ClassVar[str] = "coddl"

    hold: float = parameter(
        3.0, "Not resized again within so many times the cost of a resize.", minimum=0, maximum=1000
    )
