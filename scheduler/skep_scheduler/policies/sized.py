"""Makes decisions of an elastic policy: with how many tasks each gang of a virtual cluster runs.

The policies are those of the simulator (`elastic.ElasticPolicy`), and decide the same live. What
they do not have to know is here:

- Work is seconds at the size that a gang asks for. Its speed at other sizes is what it declares
  (`extras.skep.elastic.speedup`), else Amdahl's law with the serial part `SERIAL`. What it has done
  in earlier attempts follows from the GPU time that it was served, as if that had been at the size
  asked for. A gang without a known duration is taken for as long again as it has run, for
  `UNKNOWN_S` at least.
- Gangs that are not elastic have one size. A running one keeps its places; so does an elastic one
  that is not preemptible, or has run for less than `Options.resize_hold_s` (and `HOLD_COSTS` times
  what its restart costs) since its last start.
- A policy decides for gangs of one priority on GPUs of one type, among the first `MOST_WAITING`
  that wait; those of a lower priority share what is left. A gang that accepts any type counts on
  the one of which most is left for it. A gang that starves comes first, at the size that it asks
  for, or else its least.
- A size that a gang cannot have (its tasks have several GPUs each) is rounded down to one.
- A running gang changes its size by a restart from its checkpoint. It grows only to more than
  `GROWTH` times its tasks, and where that saves `WORTH` times the cost of the restart; it shrinks
  only where others get what it gives up.

Nothing is stored: a decision follows from the facts of its moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from skep_scheduler.model import ElasticRange, Gang
from skep_scheduler.policies.admission import earliest_deadline
from skep_scheduler.policies.base import (
    BackfillMode,
    Decision,
    DomainFacts,
    Keep,
    Rank,
    Standing,
    View,
    WantedSize,
    only_gpus,
)
from skep_scheduler.policies.elastic import ElasticFacts, LiveElasticPolicy
from skep_scheduler.policies.ordered import is_starving, outranking, starves_at
from skep_scheduler.policies.shares import by_submission

SERIAL = 0.1  # of the work of a gang that declares no speed-up
UNKNOWN_S = 3600.0
COST_S = 30.0  # of a restart that was not measured
HOLD_COSTS = 20.0
WORTH = 2.0
GROWTH = 1.25
MOST_WAITING = 2000  # by priority and submission; those behind them wait for a later decision
MOST_VETOES = 4  # rounds in which growth that is not worth it is taken out


@dataclass(frozen=True, slots=True)
class Sized:
    """Ranks gangs by (starving, priority, submission), and gives each a number of tasks."""

    policy: LiveElasticPolicy

    def decide(self, view: View) -> Decision:
        now, starvation_s = view.now, view.options.starvation_s
        sizes = _Sizes(self.policy, view, view.domain) if view.domain is not None else None

        def rank(gang: Gang) -> Rank:
            starving = starves_at(gang, starvation_s) <= now
            return not starving, -gang.priority, gang.submitted_at, gang.id

        def standing(gang: Gang) -> Standing:
            tasks, gpus = sizes.shown(gang) if sizes is not None else (gang.tasks, gang.gpus)
            return {"policy": self.policy.name, "tasks": tasks, "gpus": gpus}

        return Decision(
            rank,
            by_submission,
            BackfillMode.SKIP,
            outranking(now, view.options),
            Keep.FIRM,
            self.policy.label,
            sizes.wake_at if sizes is not None and sizes.wake_at < inf else None,
            lane_of=_id_of,
            standing=standing,
            tasks_of=sizes.tasks_of if sizes is not None else None,
            declined=sizes.declined if sizes is not None else None,
            wanted_sizes=sizes.wanted if sizes is not None else (),
        )


@dataclass(slots=True)
class _Job:
    """A gang in a decision. GPUs are those of `leaf`: `fixed` ones, and `each` of a task of its
    elastic role, of which it has `tasks` from now on (of a rigid gang: 1, or 0 while it waits)."""

    gang: Gang
    leaf: str
    fixed: int
    each: int
    sizes: ElasticRange
    held: int = 0  # tasks
    placed_at: float | None = None
    tasks: int = 0
    pinned: bool = False

    @property
    def cost_s(self) -> float:
        return self.gang.restart_s or COST_S

    def gpus(self, tasks: int) -> int:
        return self.fixed + self.each * tasks if tasks else 0

    def fitting(self, gpus: float) -> int:
        """Return the most tasks that it can have with so many GPUs; 0: too few for any."""
        tasks = min(int((gpus - self.fixed) // self.each), self.sizes.max)
        return tasks if tasks >= self.sizes.min else 0

    def speed(self, gpus: float) -> float:
        """Return its speed on so many GPUs, relative to that at the size that it asks for."""
        tasks = (gpus - self.fixed) / self.each
        if tasks < self.sizes.min:
            return 0.0
        tasks = min(tasks, float(self.sizes.max))
        return _speed(self.sizes, tasks) / _speed(self.sizes, float(self.sizes.asked))

    def left_s(self, now: float) -> float:
        """Return the seconds at the size asked for that it has still to run."""
        asked = self.gpus(self.sizes.asked)
        ran = self.gang.attained_gpu_s / asked if asked else 0.0
        if self.placed_at is not None:
            ran += max(now - self.placed_at, 0.0) * self.speed(self.gpus(self.held))
        expected = self.gang.expected_s
        if expected is None:
            return max(ran, UNKNOWN_S)
        return max(expected - ran, 0.05 * ran, 1.0)

    def facts(self, now: float, *, new: bool = False) -> ElasticFacts:
        left, gang = self.left_s(now), self.gang
        held = self.gpus(self.held)
        served = held * (now - self.placed_at) if self.placed_at is not None else 0.0
        return ElasticFacts(
            gang.id,
            gang.submitted_at,
            self.gpus(self.sizes.asked),
            self.speed,
            self.gpus(self.sizes.max),
            left,
            max(gang.expected_s or left, left),
            inf if gang.deadline_at is None else gang.deadline_at,
            self.cost_s,
            held=held,
            attained_gpu_s=gang.attained_gpu_s + served,
            rescaled_at=-inf if self.placed_at is None else self.placed_at,
            admitted=not new,
            least=self.gpus(self.sizes.min),
        )


RIGID = ElasticRange(1, 1, 1)


@dataclass(slots=True)
class _Sizes:
    """The sizes of all gangs of a domain, decided when it is made.

    tasks_of: see `Decision`
    wanted: the running gangs that shall have another size, those that shrink first
    """

    policy: LiveElasticPolicy
    view: View
    domain: DomainFacts
    wake_at: float = inf
    wanted: Sequence[WantedSize] = ()
    _left: dict[str, float] = field(default_factory=dict)
    _jobs: dict[str, _Job] = field(default_factory=dict)
    _beyond: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        domain, now = self.domain, self.view.now
        self._left = dict(domain.usable_gpus())
        for some in domain.leaving():
            self._take(only_gpus(some.amounts))
        tiers: defaultdict[int, list[_Job]] = defaultdict(list)
        for some in domain.held():
            if (job := self._job(some.gang)) is None:
                self._take(only_gpus(some.amounts))
                continue
            here = only_gpus(some.amounts)
            if here and job.leaf not in here:  # it accepts any model, and runs on another one
                job.leaf = max(sorted(here), key=lambda leaf: here[leaf])
            job.held = job.tasks = round((here.get(job.leaf, 0.0) - job.fixed) / job.each)
            job.placed_at = some.placed_at
            tiers[some.gang.priority].append(job)
        waiting = [gang for gang in domain.waiting() if gang.not_before <= now]
        waiting.sort(
            key=lambda gang: (gang is not domain.also, -gang.priority, by_submission(gang))
        )
        self._beyond = {gang.id for gang in waiting[MOST_WAITING:]}
        unclaimed = dict(self._left)
        for job in self._jobs.values():
            unclaimed[job.leaf] = unclaimed.get(job.leaf, 0.0) - job.gpus(job.sizes.min)
        for gang in waiting[:MOST_WAITING]:
            if (job := self._job(gang)) is None:
                continue
            if domain.accepts_any(gang):  # it counts where most is left for those that came first
                job.leaf = max(sorted(unclaimed), key=lambda leaf: unclaimed[leaf])
            unclaimed[job.leaf] = unclaimed.get(job.leaf, 0.0) - job.gpus(job.sizes.min)
            tiers[gang.priority].append(job)
        for priority in sorted(tiers, reverse=True):
            self._decide_tier(tiers[priority])
        self._keep_unclaimed()
        self._use_idle()
        wanted = [
            WantedSize(job.gang, job.held, job.tasks)
            for job in self._jobs.values()
            if job.held and job.placed_at is not None and job.tasks != job.held
        ]
        self.wanted = sorted(
            wanted, key=lambda one: (one.tasks > one.held, by_submission(one.gang))
        )

    def tasks_of(self, gang: Gang) -> int | None:
        """Return the tasks of its elastic role with which a waiting gang starts; 0: it waits; None:
        as it asks."""
        job = self._jobs.get(gang.id)
        if job is None:
            return 0 if gang.id in self._beyond else None
        return None if job.tasks and job.sizes is RIGID else job.tasks

    def declined(self, gang: Gang) -> Mapping[str, float] | None:
        """Return the deadline of a gang that is asked about and would not be admitted, and the
        earliest that it could have; None: it would be."""
        job = self._jobs.get(gang.id)
        if job is None or gang.deadline_at is None or job.gang is not self.domain.also:
            return None
        # Sizes may change long before a deadline, so that all of its GPUs count, and no size is
        # kept but that of a rigid gang.
        tier = [one for one in self._jobs.values() if one.leaf == job.leaf]
        above = (one for one in tier if one.gang.priority > gang.priority)
        gpus = self.domain.usable_gpus().get(job.leaf, 0.0) - sum(o.gpus(o.tasks) for o in above)
        peers = [one for one in tier if one.gang.priority == gang.priority]
        peers.sort(key=lambda one: by_submission(one.gang))
        now, own = self.view.now, job.gang

        def admits(deadline: float) -> bool:
            job.gang = replace(own, deadline_at=deadline)
            facts = [one.facts(now, new=one is job) for one in peers]
            return gang.id not in self.policy.decide(facts, int(gpus), self._asked_at).refuse

        try:
            if admits(gang.deadline_at):
                return None
            earliest = earliest_deadline(admits, now, job.left_s(now))
        finally:
            job.gang = own
        known = {} if earliest is None else {"earliest": earliest}
        return {"deadline": gang.deadline_at, **known}

    def shown(self, gang: Gang) -> tuple[int, int]:
        """Return the tasks and GPUs that the policy gives to a gang."""
        job = self._jobs.get(gang.id)
        if job is None:
            return (0, 0) if gang.id in self._beyond else (gang.tasks, gang.gpus)
        if job.sizes is RIGID:
            return (gang.tasks, job.gpus(1)) if job.tasks else (0, 0)
        return job.tasks, job.gpus(job.tasks)

    def _job(self, gang: Gang) -> _Job | None:
        """Return what is decided for a gang; None for one that has no GPUs, or starts one task at
        a time."""
        gpus = only_gpus(self.domain.demand(gang))
        if gang.incremental or not gpus:
            return None
        leaf = max(sorted(gpus), key=lambda name: gpus[name])
        job = _Job(gang, leaf, 0, round(gpus[leaf]), RIGID)
        if (sizes := gang.elastic) is not None:
            one, two = map(only_gpus, self.domain.demand_of_steps(gang))
            grown = {name: two[name] - one.get(name, 0.0) for name in two}
            grows = max(sorted(grown), key=lambda name: grown[name])
            if grown[grows] > 0:
                each = round(grown[grows])
                job = _Job(gang, grows, round(one[grows]) - each, each, sizes)
        self._jobs[gang.id] = job
        return job

    def _take(self, gpus: Mapping[str, float]) -> None:
        for leaf, number in gpus.items():
            self._left[leaf] = self._left.get(leaf, 0.0) - number

    def _decide_tier(self, tier: Sequence[_Job]) -> None:
        options, now = self.view.options, self.view.now
        for job in tier:
            if job.held:
                job.pinned = self._is_pinned(job)
            elif is_starving(job.gang, now, options):
                job.pinned = True
                left = self._left.get(job.leaf, 0.0)
                asked = job.gpus(job.sizes.asked)
                job.tasks = job.sizes.asked if asked <= left else job.sizes.min
            if job.pinned:
                self._take({job.leaf: job.gpus(job.tasks)})
        by_leaf: defaultdict[str, list[_Job]] = defaultdict(list)
        for job in sorted(tier, key=lambda job: by_submission(job.gang)):
            if not job.pinned:
                by_leaf[job.leaf].append(job)
        for leaf, jobs in by_leaf.items():
            self._decide_pool(leaf, jobs)
            self._take({leaf: sum(job.gpus(job.tasks) for job in jobs)})

    def _is_pinned(self, job: _Job) -> bool:
        """Return whether a gang that holds places keeps its size for now."""
        if job.placed_at is None or job.sizes is RIGID or not job.gang.preemptible:
            return True
        hold = max(self.view.options.resize_hold_s, HOLD_COSTS * job.gang.restart_s)
        until = job.placed_at + hold
        if until > self.view.now:
            self.wake_at = min(self.wake_at, until)
            return True
        return False

    @property
    def _asked_at(self) -> float:
        """Return the moment for which the policy decides: for one with intervals the start of the
        present one, as a tick never meets it exactly, and no gang waits for the next."""
        now, interval_s = self.view.now, getattr(self.policy, "interval_s", 0.0)
        return now // interval_s * interval_s if interval_s else now

    def _decide_pool(self, leaf: str, jobs: Sequence[_Job]) -> None:
        """Decide for gangs of one priority and type, without growth that is not worth it."""
        now, vetoed = self.view.now, set[str]()
        for _ in range(MOST_VETOES):
            free = [job for job in jobs if job.gang.id not in vetoed]
            kept = sum(job.gpus(job.held) for job in jobs if job.gang.id in vetoed)
            gpus = max(int(self._left.get(leaf, 0.0)) - kept, 0)
            sizes = self.policy.decide([job.facts(now) for job in free], gpus, self._asked_at)
            self.wake_at = min(self.wake_at, sizes.wake_at)
            _round_down(free, sizes.gpus, gpus)
            new = {job.gang.id for job in free if job.tasks > job.held > 0 and not _pays(job, now)}
            if not new:
                break
            vetoed |= new
        for job in jobs:
            if job.gang.id in vetoed:
                job.tasks = job.held

    def _keep_unclaimed(self) -> None:
        """Let gangs keep what they would give up for no one."""
        for job in sorted(self._jobs.values(), key=lambda job: by_submission(job.gang)):
            given_up = job.gpus(job.held) - job.gpus(job.tasks)
            if given_up > 0 and job.placed_at is not None and given_up <= self._left[job.leaf]:
                job.tasks = job.held
                self._left[job.leaf] -= given_up

    def _use_idle(self) -> None:
        """Give what is idle to gangs that got nothing, the first first: GPUs of a type of which no
        gang asked for more, or what is left by sizes that do not fill a pool."""
        waiting = (job for job in self._jobs.values() if not job.held and not job.tasks)
        for job in sorted(waiting, key=lambda job: by_submission(job.gang)):
            anywhere = self.domain.accepts_any(job.gang)
            for leaf in sorted(self._left) if anywhere else [job.leaf]:
                idle = self._left.get(leaf, 0.0)
                if tasks := job.fitting(min(idle, job.gpus(job.sizes.asked))):
                    job.tasks = tasks
                    self._left[leaf] = idle - job.gpus(tasks)
                    break


def _round_down(jobs: Iterable[_Job], gpus_of: Mapping[str, int], gpus: int) -> None:
    """Give each job the most tasks that it can have with its GPUs. What that leaves goes to those
    that lack least of a further task."""
    idle, lacks = gpus, list[tuple[int, int, _Job]]()
    for number, job in enumerate(jobs):
        given = gpus_of.get(job.gang.id, 0)
        job.tasks = job.fitting(given)
        idle -= job.gpus(job.tasks)
        more = job.gpus(job.tasks + 1 if job.tasks else job.sizes.min)
        if 0 < given < more and job.tasks < job.sizes.max and job.gpus(job.tasks) < given:
            lacks.append((more - given, number, job))
    for _, _, job in sorted(lacks, key=lambda one: one[:2]):
        tasks = job.tasks + 1 if job.tasks else job.sizes.min
        if (more := job.gpus(tasks) - job.gpus(job.tasks)) <= idle:
            job.tasks, idle = tasks, idle - more


def _pays(job: _Job, now: float) -> bool:
    """Return whether growth is worth a restart."""
    if job.tasks <= GROWTH * job.held:
        return False
    left = job.left_s(now)
    before, after = (job.speed(job.gpus(tasks)) for tasks in (job.held, job.tasks))
    return bool(before) and left / before - left / after >= WORTH * job.cost_s


def speed_of(gang: Gang) -> float:
    """Return the speed of a gang with the tasks that it has, relative to that with the tasks that
    it asks for; 1 for one that is not elastic."""
    if (sizes := gang.elastic) is None:
        return 1.0
    tasks = next(member.count for member in gang.members if member.elastic is not None)
    return _speed(sizes, tasks) / _speed(sizes, sizes.asked)


def _speed(sizes: ElasticRange, tasks: float) -> float:
    if not sizes.speedup:
        return 1 / (SERIAL + (1 - SERIAL) / tasks)
    known = sorted(sizes.speedup)
    at = bisect_right(known, (tasks, inf))
    if at in (0, len(known)):
        return known[max(at - 1, 0)][1]
    (low, slow), (high, fast) = known[at - 1], known[at]
    return slow + (tasks - low) / (high - low) * (fast - slow)


def _id_of(gang: Gang) -> str:
    return gang.id


def fallbacks(gang: Gang, tasks: int) -> Sequence[int]:
    """Return smaller numbers of tasks to try where a gang does not fit with `tasks`: the halves,
    and the least."""
    sizes, found = gang.elastic, list[int]()
    if sizes is None:
        return ()
    while (tasks := tasks // 2) > sizes.min:
        found.append(tasks)
    return [*found, sizes.min] if tasks else found
