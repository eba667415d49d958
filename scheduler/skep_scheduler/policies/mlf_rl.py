"""MLF-RL (Wang et al., MLFS, CoNEXT 2020, section 3.3): a network orders jobs. Experimental.

Rule: at each event, and each round while jobs wait, a network is asked again and again which of the
jobs that fit runs next, at the size that it asks for; others yield. It sees what MLF-H (`mlfs`)
weighs, learns first from the decisions of MLF-H, and then by the policy gradient with the reward
`sum of b_i g_i`: completion times and deadlines. The paper's other three (bandwidth, accuracy, and
accuracy met) are not in the simulator, and their weights (.25, .15, .15) are left out of
b = (.5, .55, .25, .15, .15).

It differs from the paper: a network scores each job by itself, and the baseline is the mean of
several runs of the same trace. Our reading of the paper: there is no public code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, log1p
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.elastic import ElasticFacts
from skep_scheduler.policies.learned import Choose, starving
from skep_scheduler.policies.mlfs import Mlfs, learning

FREE = 8  # the feature that changes with each choice


@dataclass(frozen=True, slots=True)
class MlfRl:
    """Experimental: a network that was trained in the simulator chooses which job runs next;
    running ones yield."""

    name: ClassVar[str] = "mlf_rl"
    features: ClassVar[tuple[str, ...]] = (
        "priority of MLF-H",
        "what it learns",
        "due",
        "remaining time",
        "remaining GPU time",
        "waited",
        "part of all GPUs",
        "runs",
        "free GPUs",
        "jobs for each GPU",
        "part of work done",
    )

    slot_s: float = parameter(60.0, "Seconds between two decisions.", minimum=1, maximum=86400)
    starvation_s: float = parameter(
        86400.0, "A job that waited longer comes first.", minimum=60, maximum=31536000
    )

    def is_due(self, now: float) -> bool:
        return True

    def next_at(self, now: float, *, waits: bool) -> float:
        return (floor(now / self.slot_s + 1e-9) + 1) * self.slot_s if waits else inf

    def sizes(
        self, jobs: Sequence[ElasticFacts], gpus: int, now: float, choose: Choose
    ) -> dict[str, int]:
        import numpy as np

        size = [min(job.gpus, job.largest) for job in jobs]
        given, free = dict[str, int](), gpus
        number = {job.id: n for n, job in enumerate(jobs)}
        for job in starving(jobs, now, self.starvation_s):
            if size[number[job.id]] <= free:
                given[job.id] = size[number[job.id]]
                free -= given[job.id]
        weights = Mlfs().priorities(jobs, now) if jobs else []
        most = max(weights, default=0.0) or 1.0
        rows = np.array(
            [
                self._row(job, size[n], weights[n] / most, gpus, now, len(jobs))
                for n, job in enumerate(jobs)
            ]
        )
        open_ = [n for n, job in enumerate(jobs) if job.id not in given and job.rate(size[n]) > 0]
        while open_ := [n for n in open_ if size[n] <= free]:
            rows[:, FREE] = free / gpus
            taken = open_.pop(choose(rows[open_], [-weights[n] for n in open_]))
            given[jobs[taken].id] = size[taken]
            free -= size[taken]
        return given

    def _row(
        self, job: ElasticFacts, size: int, weight: float, gpus: int, now: float, jobs: int
    ) -> list[float]:
        left, ran = min(job.left_s(size), 1e9), job.attained_gpu_s / size
        due = job.deadline_at - now
        waited = max(now - job.submitted_at - ran, 0.0)
        crowd = jobs / gpus
        return [
            weight,
            learning(job.total - job.left, job.total),
            left / (due + left) if 0 < due < inf else 0.0,
            _scaled(left),
            _scaled(left * size),
            _scaled(waited),
            size / gpus,
            float(job.held > 0),
            0.0,
            crowd / (1 + crowd),
            1 - job.left / job.total if job.total else 1.0,
        ]


def _scaled(seconds: float) -> float:
    """Return 0 to 1 for nothing to four months."""
    return min(log1p(max(seconds, 0.0)) / log1p(1e7), 1.0)
