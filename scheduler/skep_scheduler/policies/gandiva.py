"""Gandiva (Xiao et al., OSDI 2018), sections 3 and 4: introspective time-slicing, packing,
migration, and growing and shrinking of jobs that train neural networks.

- Time-slicing: with more jobs than GPUs each runs for a quantum `quantum_s`; then those that
  waited longest have their turn.
- Packing: while jobs wait, a job is put on the GPUs of another one of its size, the pair with the
  least use of GPU and memory first, if their memory fits. After a quantum the pair stays if
  `sum of rate packed / rate alone >= 1 + margin`; else the guest leaves, and the pair is never
  tried again. Guests get GPUs of their own when no job waits.
- Migration: while jobs wait, each window of `window` quanta, one job moves from the node with the
  most free GPUs to one with fewer, which leaves larger places.
- Growing: GPUs that no job waits for go to jobs on the same node, which are doubled as often as it
  has enough, the smallest first; they are given back when a job waits.

The paper prints no constants but the quantum; the window and the margin are ours. It is our reading
of the paper, as there is no public code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, inf
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.packing import FreeGpus, Gpus, Machines, PackedFacts, Packing

EPSILON = 1e-6


@dataclass(slots=True)
class Turns:
    """What Gandiva remembers of a job."""

    began: float
    place: int = 0  # in the line of those whose turn began then
    last: float = -inf
    guest_of: str = ""
    packed_at: float = 0.0
    home: Gpus = ()
    never: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True, slots=True)
class GandivaPolicy:
    """Jobs take turns on GPUs for a quantum each; pairs that run well together share GPUs, jobs
    move so that nodes are not fragmented, and grow where GPUs are idle."""

    name: ClassVar[str] = "gandiva"

    quantum_s: float = parameter(60.0, "Seconds of a turn.", minimum=1, maximum=86400)
    window: int = parameter(5, "Quanta between two migrations.", minimum=1, maximum=1000)
    margin: float = parameter(0.05, "Gain that a pair has to show.", minimum=0, maximum=1)
    pack: str = parameter("yes", "Whether jobs share GPUs.", choices=("yes", "no"))
    grow: str = parameter("yes", "Whether jobs grow onto idle GPUs.", choices=("yes", "no"))

    def decide(self, jobs: Sequence[PackedFacts], machines: Machines, now: float) -> Packing:
        for job in jobs:
            job.memo = job.memo or Turns(now)
        known = {job.id: job for job in jobs}
        free = FreeGpus(machines)
        places = self._turns([job for job in jobs if not job.memo.guest_of], free, now)
        self._keep_pairs(known, places, now)
        waiting = [job for job in jobs if job.id not in places]
        if waiting and self.pack == "yes":
            self._pack(waiting, known, places, now)
            waiting = [job for job in waiting if job.id not in places]
        slices = floor(now / self.quantum_s + EPSILON)
        if waiting and slices % self.window == 0 and abs(slices * self.quantum_s - now) < EPSILON:
            _migrate(known, places, free)
        if not waiting:
            _part(jobs, places, free, now)
            if self.grow == "yes":
                _grow(known, places, free)
        for job in jobs:
            if job.id not in places and job.held:
                job.memo.last, job.memo.home = now, job.held[: job.gpus]
            elif job.id in places and not job.held:
                job.memo.began = now
        trial = any(
            job.memo.guest_of and now - job.memo.packed_at < self.quantum_s - EPSILON
            for job in jobs
        )
        again = bool(waiting) or trial
        return Packing(places, wake_at=(slices + 1) * self.quantum_s if again else inf)

    def _turns(self, jobs: Sequence[PackedFacts], free: FreeGpus, now: float) -> dict[str, Gpus]:
        """Return who has a turn where: those amid theirs, then who waits longest, then those that
        had a whole one."""

        def rank(job: PackedFacts) -> tuple[int, float, int]:
            if not job.held:
                return (1, job.memo.last, job.memo.place)
            over = now - job.memo.began >= self.quantum_s - EPSILON
            return (2 if over else 0, job.memo.began, job.memo.place)

        places: dict[str, Gpus] = {}
        ranked = sorted(jobs, key=rank)
        for job in ranked:
            own = job.held[: job.gpus]
            if own and rank(job)[0] == 0 and free.has(own):
                places[job.id] = own
                free.take(own)
        others = [job for job in ranked if job.id not in places]
        for number, job in enumerate(others):
            job.memo.place = number
        enough = sum(job.gpus for job in others) <= free.count
        for job in others:
            own = job.held[: job.gpus] or job.memo.home
            if own and free.has(own) and (job.held or not enough):
                place = own
            else:
                place = _beside_held(job, others, free) if enough else ()
                place = place or free.place(job.gpus)
            if place:
                places[job.id] = place
                free.take(place)
                job.memo.began = now
        return places

    def _keep_pairs(
        self, known: dict[str, PackedFacts], places: dict[str, Gpus], now: float
    ) -> None:
        """Keep guests whose host runs on where it did, unless their trial failed."""
        for job in known.values():
            memo = job.memo
            if not memo.guest_of:
                continue
            host = known.get(memo.guest_of)
            tried = now - memo.packed_at >= self.quantum_s - EPSILON
            if host is not None and tried and job.speed + host.speed < 1 + self.margin:
                memo.never |= {host.id}
                host = None
            stays = host is not None and places.get(host.id) == job.held != ()
            if stays:
                places[job.id] = job.held
            else:
                memo.guest_of = ""

    def _pack(
        self,
        waiting: Sequence[PackedFacts],
        known: dict[str, PackedFacts],
        places: dict[str, Gpus],
        now: float,
    ) -> None:
        hosts_of = {job.memo.guest_of for job in known.values() if job.memo.guest_of}
        alone = [
            job
            for job in known.values()
            if job.id in places and not job.memo.guest_of and job.id not in hosts_of
        ]
        pairs = sorted(
            (job.use + host.use + job.memory + host.memory, n, m)
            for n, job in enumerate(waiting)
            for m, host in enumerate(alone)
            if job.gpus == host.gpus
            and job.memory + host.memory <= 1
            and host.id not in job.memo.never
            and job.id not in host.memo.never
        )
        taken = set[str]()
        for _, n, m in pairs:
            job, host = waiting[n], alone[m]
            if job.id in taken or host.id in taken:
                continue
            taken |= {job.id, host.id}
            places[job.id] = places[host.id]
            job.memo.guest_of, job.memo.packed_at = host.id, now


def _beside_held(job: PackedFacts, others: Sequence[PackedFacts], free: FreeGpus) -> Gpus:
    """Return a place that takes nothing of what others hold."""
    held = [other.held[: other.gpus] for other in others if other is not job]
    held = [own for own in held if own and free.has(own)]
    for own in held:
        free.take(own)
    place = free.place(job.gpus)
    for own in held:
        free.give_back(own)
    return place


def _migrate(known: dict[str, PackedFacts], places: dict[str, Gpus], free: FreeGpus) -> None:
    """Move one job from the node with the most free GPUs, of those in use, to one with fewer."""
    held = list(places.values())
    found = []
    for job_id, gpus in places.items():
        nodes = {free.node_of(gpu) for gpu in gpus}
        if len(nodes) > 1 or held.count(gpus) > 1 or len(gpus) != known[job_id].gpus:
            continue
        home = len(free.nodes[nodes.pop()])
        place = free.place(len(gpus))
        target = free.nodes[free.node_of(place[0])] if place else []
        if place and len(target) < home:
            found.append((-home, len(gpus), job_id, place))
    if found:
        _, _, job_id, place = min(found)
        free.give_back(places[job_id])
        free.take(place)
        places[job_id] = place


def _part(jobs: Sequence[PackedFacts], places: dict[str, Gpus], free: FreeGpus, now: float) -> None:
    """Give guests GPUs of their own where there are some."""
    for job in jobs:
        place = free.place(job.gpus) if job.memo.guest_of else ()
        if place:
            free.take(place)
            places[job.id] = place
            job.memo.guest_of, job.memo.began = "", now


def _grow(known: dict[str, PackedFacts], places: dict[str, Gpus], free: FreeGpus) -> None:
    """Give idle GPUs of a node to jobs that are there alone, the smallest first."""
    counted = list(places.values())
    for job_id in sorted(places, key=lambda job_id: (len(places[job_id]), job_id)):
        gpus = places[job_id]
        nodes = {free.node_of(gpu) for gpu in gpus}
        if len(nodes) > 1 or counted.count(gpus) > 1:
            continue
        idle = free.nodes[nodes.pop()]
        size = len(gpus)
        while size * 2 <= len(gpus) + len(idle):
            size *= 2
        own = [gpu for gpu in known[job_id].held if gpu in idle]  # what it grew onto before
        rest = [gpu for gpu in idle if gpu not in own]
        more = tuple((own + rest)[: size - len(gpus)])
        if more:
            free.take(more)
            places[job_id] = (*gpus, *more)
