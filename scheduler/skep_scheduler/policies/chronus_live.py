"""Chronus live: deadlines by terms of minutes, with admission when a job is submitted.

As `chronus` after Gao et al., SoCC 2021, section 4, but for what takes a program: of the jobs with
a deadline each takes its latest terms, by deadline, in the time that it has left times 1.1 and what
a restart costs (`as_many`). A job whose deadline leaves it too few terms is refused when it is
submitted, and so is one that takes them from a job that was admitted before. The paper solves a
program where that check fails, and may admit more: that takes seconds, which a tick has not.

GPUs are lent for terms of `term_s`, ten minutes instead of one, as a job gives them back by a
restart from its checkpoint. Those whose plan has the present term come first, then the other jobs
in the order of `Chronus.rank`: best effort that waited for `patience_s`, jobs by deadline (also
those that cannot meet theirs any more), and best effort. GPUs of each model are planned by
themselves; those of a running job without a deadline that is not preemptible, or of a higher
priority, count as taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from skep_scheduler.model import Gang
from skep_scheduler.policies.admission import admission_parameter
from skep_scheduler.policies.base import Knows, Needs, Ranking, RoundView, parameter
from skep_scheduler.policies.chronus import SAFETY, Chronus, Demand, Schedule, as_many
from skep_scheduler.policies.elastic import ElasticFacts
from skep_scheduler.policies.mlfs import facts_of

MOST_TERMS = 288  # ahead: two days of the default; a later deadline counts as the end of these


@dataclass(frozen=True, slots=True)
class ChronusLive:
    """Admits jobs whose deadlines can be met, lends GPUs for terms so that they are, and fills the
    rest with jobs without a deadline. Running jobs yield when their term ends."""

    name: ClassVar[str] = "chronus"
    label: ClassVar[str] = "deadlines by terms"
    needs: ClassVar[Needs] = Needs(
        frozenset({Knows.DURATION, Knows.DEADLINE}),
        "It gets what is idle. A job of unknown duration is taken for as long again as it has run, "
        "for an hour at least.",
    )

    admission: str = admission_parameter()
    term_s: float = parameter(600.0, "Seconds of a term.", minimum=5, maximum=86_400)
    patience_s: float = parameter(
        3600.0,
        "Wait after which a job without a deadline goes before those that need no GPUs now.",
        minimum=0,
    )
    fill: str = parameter(
        "las", "The order of jobs without a deadline: las or srtf.", choices=("las", "srtf")
    )

    @property
    def round_s(self) -> float:
        return self.term_s

    def ranking(self, view: RoundView) -> Ranking:
        """Return the order of the gangs of a view: those whose plan has the first term, then the
        others."""
        order: list[tuple[Any, ...]] = []
        numbers: dict[str, Mapping[str, Any]] = {}
        by_rank = Chronus(self.term_s, self.patience_s, self.fill).rank
        for leaf, gangs in sorted(_pools(view).items()):
            for priority in sorted({gang.priority for gang in gangs}, reverse=True):
                tier = [gang for gang in gangs if gang.priority == priority]
                jobs = {gang.id: _facts(view, gang) for gang in tier}
                plan = self._plan(view, leaf, gangs, priority, jobs)
                for gang in tier:
                    job = jobs[gang.id]
                    job.memo = True  # whoever has a deadline was admitted
                    now = 0 in plan.get(gang.id, ())
                    rank = (job.deadline_at,) if now else by_rank(job, view.start)
                    order.append((not now, *rank, gang.submitted_at, gang.id))
                    due = "" if gang.deadline_at is None else "met" if gang.id in plan else "late"
                    numbers[gang.id] = {"due": due, "planned": now}
        return Ranking([entry[-1] for entry in sorted(order)], numbers)

    def admits_by(self, view: RoundView, gang: Gang) -> Callable[[float], bool]:
        """Return what says whether a gang of a view can meet a deadline (seconds since the epoch)
        beside the others of its priority that can meet theirs."""
        most = view.main_gpus(gang)
        if most is None:
            return lambda deadline: True
        leaf, priority = most[0], gang.priority
        gangs = _pools(view)[leaf]
        jobs = {one.id: _facts(view, one) for one in gangs if one.priority == priority}
        own = jobs.pop(gang.id)
        kept = {name: jobs[name] for name in self._plan(view, leaf, gangs, priority, jobs)}
        kept[gang.id] = own

        def admits(deadline: float) -> bool:
            own.deadline_at = deadline
            return len(self._plan(view, leaf, gangs, priority, kept)) == len(kept)

        return admits

    def _plan(
        self,
        view: RoundView,
        leaf: str,
        gangs: Sequence[Gang],
        priority: int,
        jobs: Mapping[str, ElasticFacts],
    ) -> Schedule:
        """Return the terms of those of the jobs of one priority that can meet their deadlines."""
        gpus = int(view.capacity.get(leaf, 0.0))
        for gang in gangs:
            firm = not gang.preemptible and gang.id in view.placed_at and gang.deadline_at is None
            if gang.priority > priority or (gang.priority == priority and firm):
                gpus -= round(view.gpus(gang)[leaf])
        demands = []
        for job in jobs.values():
            left = job.left * SAFETY + (0.0 if job.held else job.rescale_s)
            if view.start < job.deadline_at < inf and job.gpus <= gpus:
                ahead = (job.deadline_at - view.start) / self.term_s + 1e-9
                demands.append(Demand(job.id, job.gpus, left, min(int(ahead), MOST_TERMS)))
        demands.sort(key=lambda one: one.id)
        return as_many(demands, gpus, [self.term_s] * MOST_TERMS)


def _facts(view: RoundView, gang: Gang) -> ElasticFacts:
    """Return a gang as `facts_of`, but for one that is about to end: it needs no term more than is
    left of its estimate."""
    job, ran = facts_of(view, gang), view.ran_s(gang)
    if gang.expected_s is not None and gang.expected_s > ran:
        job.left = max(gang.expected_s - ran, 1.0)
    return job


def _pools(view: RoundView) -> dict[str, list[Gang]]:
    """Return the gangs that ask for GPUs by the leaf type of which they ask for the most."""
    found: dict[str, list[Gang]] = {}
    for gang in view.gangs:
        if (most := view.main_gpus(gang)) is not None:
            found.setdefault(most[0], []).append(gang)
    return found
