"""Salus (Yu and Chowdhury, MLSys 2020), section 3: lanes of GPU memory.

A job i keeps `P_i` of the memory of a GPU (its model) and needs `E_i` more while it makes an
iteration. Jobs of one lane take turns at the ends of iterations, so that their `E_i` are there one
at a time; lanes run at once. A GPU admits a job if afterwards

    sum of P_i over its jobs + sum over its lanes of the largest E_i in it <= capacity.

A new job goes to a lane whose region does not grow if there is one, as the paper's `auto`; else to
a new lane; else into the one whose region grows least; else to other GPUs, or it waits. Who has the
turns of a lane is `turns`: `fair` (all the same), `fifo` (the first submitted) or `srtf` (the least
left); `pack` puts a job into a new lane wherever one fits, so that as many as possible run at once.

The condition is recalled from the paper; it is our reading. A job on several GPUs is in the same
lane on each. `memo` is its lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from skep_scheduler.policies.base import parameter
from skep_scheduler.policies.packing import FreeGpus, Gpus, Machines, PackedFacts, Packing

CAPACITY = 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class Salus:
    """Jobs share GPUs as far as their memory fits: those of a lane take turns, lanes run at
    once."""

    name: ClassVar[str] = "salus"

    turns: str = parameter(
        "fair", "Who has the turns of a lane.", choices=("fair", "fifo", "srtf", "pack")
    )

    def decide(self, jobs: Sequence[PackedFacts], machines: Machines, now: float) -> Packing:
        groups: dict[Gpus, list[PackedFacts]] = {}
        for job in jobs:
            if job.held:
                groups.setdefault(job.held, []).append(job)
        free = FreeGpus(machines, list(groups))
        refused: set[tuple[int, float, float]] = set()
        for job in jobs:
            kind = job.gpus, job.persistent, job.memory
            if job.held or kind in refused:
                continue
            place = free.place(job.gpus)
            if place:
                free.take(place)
                groups[place] = [job]
                job.memo = 0
                continue
            chosen = self._choose(job, groups)
            if chosen:
                groups[chosen].append(job)
            else:
                refused.add(kind)
        places, shares = dict[str, Gpus](), dict[str, float]()
        for gpus, members in groups.items():
            for lane in sorted({job.memo for job in members}):
                inside = [job for job in members if job.memo == lane]
                places |= {job.id: gpus for job in inside}
                shares |= self._shares(inside)
        return Packing(places, shares)

    def _choose(self, job: PackedFacts, groups: dict[Gpus, list[PackedFacts]]) -> Gpus:
        """Put the job into the lane where memory and load rise least; return its GPUs."""
        found = []
        for gpus, members in groups.items():
            if len(gpus) != job.gpus:
                continue
            load = sum(member.use for member in members)
            lanes = {member.memo for member in members}
            before = region(members)
            for lane in [*sorted(lanes), max(lanes) + 1]:
                job.memo = lane
                after = region([*members, job])
                if after > CAPACITY:
                    continue
                rise = after - before - job.persistent
                new = lane not in lanes
                wish = (not new, load) if self.turns == "pack" else (load, rise, new)
                found.append((*wish, gpus, lane))
        if not found:
            job.memo = None
            return ()
        best = min(found)
        job.memo = best[-1]
        return best[-2]

    def _shares(self, lane: Sequence[PackedFacts]) -> dict[str, float]:
        if self.turns in ("fair", "pack"):
            return {job.id: 1 / len(lane) for job in lane}

        def key(job: PackedFacts) -> tuple[float, float, str]:
            left = job.left_s if self.turns == "srtf" else 0.0
            return (left, job.submitted_at, job.id)

        first = min(lane, key=key)
        return {job.id: float(job is first) for job in lane}


def region(members: Sequence[PackedFacts]) -> float:
    """Return the memory that jobs with these lanes (`memo`) may need at once, as a part of 1."""
    largest: dict[int, float] = {}
    for job in members:
        ephemeral = job.memory - job.persistent
        largest[job.memo] = max(largest.get(job.memo, 0.0), ephemeral)
    return sum(job.persistent for job in members) + sum(largest.values())
