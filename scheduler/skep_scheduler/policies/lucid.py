"""Lucid (Hu et al., ASPLOS 2023), section 3: indolent packing, without preemption.

- Profile: a new job of up to 8 GPUs first runs on one of `profile_nodes` nodes for at most
  `profile_s` seconds; what it needs of a GPU is known then. With 0 nodes it is known beforehand.
- Score (the paper's table of interference): the mean speed of the job beside others that use 25,
  50 and 75 % of a GPU: 0 (tiny) if it is at least .95, 1 (medium) if at least .85, else 2 (jumbo).
  The paper learns the label by a decision tree; here it follows from the measured use.
- Order: expected duration x GPUs, the least first; expected by recurrence (`recurrence`).
- Place in that order: shared first, on the GPUs of a job of the same size up to 8 that is alone on
  them, with a sum of memory below `memory_limit`, a sum of scores of at most `score_limit`, and
  with an expected duration of at least half of the guest's; the least sum of scores wins. Else
  GPUs of its own, consolidated. Else it waits, and the next is looked at.
- Sharing is off while GPUs are in small demand: GPU time submitted within `window_s`, by that of
  the cluster, below `busy`. The paper's measure is not printed; this one is ours.

No running job is ever moved or preempted, but by the end of its profile. Jobs that need more GPUs
than the other nodes have wait for ever. `memo` is when the profile of a job ends, then True.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.packing import FreeGpus, Gpus, Machines, PackedFacts, Packing

LARGEST = 8
UNKNOWN_S = 3600.0
COMPANIONS = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class Lucid:
    """Jobs with the least expected GPU time start first, and share GPUs where they hardly slow each
    other down; none is preempted."""

    name: ClassVar[str] = "lucid"

    sharing: str = parameter(
        "auto", "Whether jobs share GPUs: auto, always or never.",
        choices=("auto", "always", "never"),
    )  # fmt: skip
    score_limit: int = parameter(2, "Largest sum of the scores of two.", minimum=0, maximum=4)
    memory_limit: float = parameter(0.95, "Largest sum of their memory.", minimum=0.1, maximum=1)
    profile_nodes: int = parameter(0, "Nodes that only profile.", minimum=0, maximum=1000)
    profile_s: float = parameter(200.0, "Seconds of a profile.", minimum=1, maximum=86400)
    window_s: float = parameter(3600.0, "Seconds that demand is measured over.", minimum=60)
    busy: float = parameter(0.5, "Demand from which jobs share.", minimum=0, maximum=10)

    def decide(self, jobs: Sequence[PackedFacts], machines: Machines, now: float) -> Packing:
        pool, rest, wake = self._profile(jobs, machines, now)
        places = {job.id: job.held for job in jobs if job.held and job.id in rest}
        own = FreeGpus(Machines(machines.nodes[self._profilers(machines) :], 0, 0))
        for gpus in dict.fromkeys(places.values()):
            own.take(gpus)
        shares = self.sharing == "always" or (
            self.sharing == "auto" and self._demand(jobs, machines.gpus, now) >= self.busy
        )
        known = {job.id: job for job in jobs}
        counted = list(places.values())
        alone = {job_id: gpus for job_id, gpus in places.items() if counted.count(gpus) == 1}
        waiting = [job for job in jobs if job.id in rest and job.id not in places]
        refused: set[int] = set()
        for job in sorted(waiting, key=lambda job: (expected(job) * job.gpus, job.submitted_at)):
            host = self._host(job, alone, known) if shares else ""
            if host:
                places[job.id] = alone.pop(host)
                continue
            place = () if job.gpus in refused else own.place(job.gpus)
            if place:
                own.take(place)
                places[job.id] = alone[job.id] = place
            else:
                refused.add(job.gpus)
        return Packing(places | pool, wake_at=wake)

    def _profilers(self, machines: Machines) -> int:
        return min(self.profile_nodes, len(machines.nodes) - 1)

    def _profile(
        self, jobs: Sequence[PackedFacts], machines: Machines, now: float
    ) -> tuple[dict[str, Gpus], set[str], float]:
        """Return the places of those in the profile, who is not in it, and when one ends."""
        nodes = machines.nodes[: self._profilers(machines)]
        largest = min(max(map(len, nodes), default=0), LARGEST)
        places: dict[str, Gpus] = {}
        rest, wake, new = set[str](), inf, list[PackedFacts]()
        for job in jobs:
            if job.memo is True or job.gpus > largest:
                rest.add(job.id)
            elif job.memo is None:
                new.append(job)
            elif now >= job.memo - 1e-6:
                job.memo = True
                rest.add(job.id)
                job.held = ()
            else:
                places[job.id] = job.held
                wake = min(wake, job.memo)
        if nodes:
            free = FreeGpus(Machines(nodes, 0, 0), list(places.values()))
            for job in new:
                place = free.place(job.gpus)
                if place:
                    free.take(place)
                    places[job.id], job.memo = place, now + self.profile_s
                    wake = min(wake, job.memo)
        return places, rest, wake

    def _host(self, job: PackedFacts, alone: dict[str, Gpus], known: dict[str, PackedFacts]) -> str:
        best, best_key = "", (inf, inf)
        for host_id in alone:
            host = known[host_id]
            total = score(job.use) + score(host.use)
            if (
                host.gpus == job.gpus <= LARGEST
                and job.memory + host.memory < self.memory_limit
                and total <= self.score_limit
                and expected(job) <= 2 * expected(host)
                and (total, host.use) < best_key
            ):
                best, best_key = host_id, (total, host.use)
        return best

    def _demand(self, jobs: Sequence[PackedFacts], gpus: int, now: float) -> float:
        recent = [job for job in jobs if job.submitted_at > now - self.window_s or not job.held]
        return sum(job.gpus * min(expected(job), self.window_s) for job in recent) / (
            gpus * self.window_s
        )


def expected(job: PackedFacts) -> float:
    """Return how long it probably runs (seconds), some hours where nothing is known."""
    return UNKNOWN_S if job.expected_s is None else job.expected_s


def score(use: float) -> int:
    """Return the label of a job by its use of a GPU: 0 tiny, 1 medium, 2 jumbo."""
    speed = sum(min(1.0, 1 / (use + other)) for other in COMPANIONS) / len(COMPANIONS)
    return 0 if speed >= 0.95 else 1 if speed >= 0.85 else 2
