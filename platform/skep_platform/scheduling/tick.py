"""One tick of the scheduler: catch up, plan, commit. Only the process that leads ticks, see
`core.leadership`; each commit checks again under its own locks, so that one which does not know yet
that it leads no longer does no harm.

Besides placements a tick stores why jobs wait, and nominations: the places of gangs whose victims
are asked to leave. Of the reasons only changes are written, and never all of a long queue at once.
A nomination is a row, so that it outlives the scheduler; it ends when the gang is placed, when the
plan cancels it, or when the gang does not wait any more.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from skep_platform.core import gc_control, notifications
from skep_platform.core.bulk import database_time, update_rows
from skep_platform.core.events import record
from skep_platform.core.leadership import Leader
from skep_platform.jobs import queries
from skep_platform.jobs.lifecycle import messages, preempting, resizing
from skep_platform.jobs.lifecycle.job_state import lock
from skep_platform.jobs.models import Job
from skep_platform.scheduling import metrics, placing, planned
from skep_platform.scheduling.metrics import PlanMetrics
from skep_platform.scheduling.models import Nomination
from skep_platform.scheduling.placing import UsableNodes
from skep_platform.scheduling.planned import PlanStore
from skep_platform.scheduling.read_facts import placement_data
from skep_platform.scheduling.source import StateSource
from skep_scheduler import engine
from skep_scheduler.explain.reasons import Reasons as Explained
from skep_scheduler.memory import Memory
from skep_scheduler.model import Code, Options, Plan, Preemption, Reason
from skep_scheduler.state import ClusterState

log = structlog.get_logger(__name__)

LEADER = Leader("scheduler")
ROUNDS_S = 5.0  # after which a tick ends although more hints came: its message would come again
# A round costs a rest of some times its own length, so that planning never takes more than a share
# of a core however fast the hints come.
REST_FACTOR = 2.0
LEAST_REST_S = 0.02
MOST_REST_S = 0.5
# Nodes that join one by one change the inventory with each of them, and laying out the cells costs
# time with the size of the cluster: a longer rest lets one round take in many of them.
RELAID_REST_FACTOR = 10.0
MOST_RELAID_REST_S = 1.0
OWED_S = 0.3  # so much rest is not taken yet: some rounds of a small cluster follow each other


@dataclass(slots=True)
class Pace:
    """How long to rest between two rounds. A rest is owed, and taken when much is owed: a job that
    is submitted just after another one ended is planned at once, a stream of hints is not.

    owed_s: the rest that was not taken when the last round ended
    at: when that was, by the monotonic clock
    """

    owed_s: float = 0.0
    at: float = 0.0

    def rest_s(self, round_s: float, now: float, *, relaid: bool) -> float:
        """Return how long to rest after a round of `round_s` that ended now; `relaid`: it laid out
        all cells anew, and its rest is taken whole. Time that passes without a round is rest."""
        factor = RELAID_REST_FACTOR if relaid else REST_FACTOR
        most = MOST_RELAID_REST_S if relaid else MOST_REST_S
        rest = min(max(round_s * factor, LEAST_REST_S), most)
        idle = now - round_s - self.at
        self.owed_s, self.at = max(self.owed_s - idle, 0.0) + rest, now
        return max(self.owed_s - OWED_S, rest if relaid else 0.0)


@dataclass(slots=True)
class Scheduler:
    """What a process keeps between its ticks. None of it is truth.

    next_at: when the plan may change although no fact does (seconds since the epoch)
    idle: the last plan had nothing to do, and all that it says is stored
    warnings: what was wrong with the policy of a virtual cluster in its last plan, by its name
    verified_at: when the state was compared with the database last, by the monotonic clock
    term, state: those of the last plan; see `begin`
    """

    source: StateSource = field(default_factory=StateSource)
    reasons: Reasons = field(default_factory=lambda: Reasons())
    memory: Memory = field(default_factory=lambda: Memory(limits()))
    planned: PlanStore = field(default_factory=PlanStore)
    next_at: float | None = None
    idle: bool = False
    warnings: dict[str, str] = field(default_factory=dict)
    metrics: PlanMetrics = field(default_factory=PlanMetrics)
    pace: Pace = field(default_factory=Pace)
    verified_at: float = field(default_factory=time.monotonic)
    term: int = 0
    state: ClusterState | None = None

    def begin(self, state: ClusterState, term: int) -> None:
        """Go on from what is stored, as another process led meanwhile, or the state was read anew,
        as after a failover that lost something: what this one has stored may have been replaced."""
        if self.term != term:  # one that was just built has read them
            planned.load(state)
        self.reasons, self.planned, self.memory = Reasons(), PlanStore(), Memory(limits())
        self.idle, self.next_at = False, None
        self.term, self.state = term, state

    def warn(self, warnings: Mapping[str, str]) -> None:
        """Log what is wrong with the policy of a virtual cluster, once as long as it is."""
        for vc, warning in warnings.items():
            if self.warnings.get(vc) != warning:
                log.warning("policy_falls_back", vc=vc, warning=warning)
        for vc in self.memory.planned_domains - warnings.keys():
            self.warnings.pop(vc, None)
        self.warnings.update(warnings)


def tick(scheduler: Scheduler) -> int:
    """Run rounds until no hint is left. Returns their number, 0 when another process leads."""
    rounds = 0
    leads = LEADER.leads() or LEADER.claim()
    end = time.monotonic() + ROUNDS_S
    while leads and (rounds == 0 or (notifications.tick_hinted() and time.monotonic() < end)):
        started = time.monotonic()
        scheduler.metrics.begins()
        with LEADER.working(), metrics.ROUND_SECONDS.time():
            run_once(scheduler, partial(_leads_in, LEADER.term), LEADER.term)
        rounds += 1
        ended = time.monotonic()
        pace, relaid = scheduler.pace, scheduler.source.relaid
        time.sleep(pace.rest_s(ended - started, ended, relaid=relaid))
        leads = LEADER.leads()
    return rounds


def _leads_in(term: int) -> bool:
    """Return whether no other process has led since: not where this one, which was stopped for a
    while, leads again."""
    return LEADER.leads() and LEADER.term == term


def run_once(
    scheduler: Scheduler, leads: Callable[[], bool] = lambda: True, term: int = 0
) -> set[str]:
    """Run one round. Returns the ids of the gangs that were placed. A plan is thrown away if this
    process does not lead any more when it is made, and what it says of the future when it does not
    once the gangs are placed. `term`: of the leadership."""
    # 1. From here on a hint means a change that this round may not have seen.
    notifications.take_tick_hint()
    # 2. Catch up. What an earlier round wrote is in the log, too.
    state = scheduler.source.catch_up()
    news = scheduler.source.take_news()
    if scheduler.state is not state or scheduler.term != term:
        scheduler.begin(state, term)
    now = time.time()
    due = scheduler.next_at is not None and scheduler.next_at <= now
    if scheduler.idle and not news and not due:
        return set()
    # 3. Decide.
    scheduler.idle = False  # also when what follows fails
    with gc_control.paused(), metrics.PLAN_SECONDS.time():
        plan = engine.plan(state, now, limits(), memory=scheduler.memory)
    scheduler.metrics.seen(plan, len(state.waiting))
    scheduler.warn(plan.warnings)
    if not leads():
        log.warning("plan_dropped", reason="another scheduler leads")
        scheduler.state = None  # should it lead again, all of it is planned anew
        return set()
    # 4. Act, preemption first; each gang is placed whole or not at all.
    _change_ranks(plan)
    _cancel(state, {*plan.cancels, *scheduler.source.left_nominated})
    nominated = nominate(plan.preemptions)
    _resize(plan)
    placed = placing.place(plan.placements)
    scheduler.metrics.acted(plan, len(placed), len(nominated))
    # 5. Store why the others wait, and what was planned for them.
    if not leads():
        log.warning("plan_not_stored", reason="another scheduler leads")
        scheduler.state = None
        return placed
    for gang_id in placed:
        state.note_started(gang_id)
    scheduler.reasons.forget(placement.gang for placement in plan.placements)
    scheduler.reasons.forget_all_but(state.waiting)
    scheduler.reasons.store(plan.reasons)
    scheduler.planned.store(state, scheduler.memory, now, limits(), placed)
    behind = scheduler.reasons.is_behind or scheduler.planned.is_behind
    scheduler.idle = not (behind or _acts(plan))
    scheduler.next_at = plan.next_at
    if len(placed) < len(plan.placements) or len(nominated) < len(plan.preemptions):
        notifications.notify_scheduler()  # the facts changed meanwhile: plan again
    return placed


def limits() -> Options:
    """Return the options of the engine as the operator set them."""
    return Options(**settings.SKEP_SCHEDULING)


def _change_ranks(plan: Plan) -> None:
    if not plan.downgrades and not plan.restored:
        return
    now = database_time()
    reasons = {UUID(gang): plain(why) for gang, why in plan.downgrades.items()}
    with transaction.atomic():
        preempting.downgrade(reasons, now)
        preempting.restore([UUID(gang) for gang in plan.restored], now)


def _resize(plan: Plan) -> None:
    if plan.resizes:
        with transaction.atomic():
            resizing.ask(plan.resizes, database_time())


def _cancel(state: ClusterState, gangs: set[str]) -> None:
    cancel_nominations(gangs)
    now = time.time()
    for gang in gangs & state.waiting.keys():
        state.note_cancelled(gang, now)


def _acts(plan: Plan) -> bool:
    acts: tuple[Mapping[str, object] | tuple[object, ...], ...] = (
        *(plan.placements, plan.preemptions, plan.downgrades),
        *(plan.restored, plan.cancels, plan.resizes),
    )
    return any(acts)


REFRESH_S = 10.0  # numbers of a reason may be this old; a new code is stored at once
REFRESH_SHARE = 0.05  # of the scheduler's time that looking for new numbers takes, at most
MOST = 500  # rows per tick
STILL_WAITING = """
t.stop_requested_at IS NULL AND (
    t.state = 'WAITING' AND t.placed_at IS NULL OR t.unplaced > 0 AND t.preempting_at IS NULL)
"""
Ask = Callable[[], Reason]


class Reasons:
    """Remembers what it stored; a new process stores every reason once. A round costs the gangs
    that have a new code, and little for each other gang of the domains that were planned."""

    def __init__(self) -> None:
        self._codes: dict[str, str] = {}
        self._numbers: dict[str, tuple[int, float]] = {}  # a hash of what is stored, and since when
        self._pending: dict[str, Ask] = {}
        self._resumes = 0.0  # by the monotonic clock

    def store(self, reasons: Mapping[str, Reason]) -> int:
        """Write the news among the reasons (by job id), and what was left of earlier ones; returns
        the number of rows written. At most `MOST` are written: see `is_behind`."""
        now = time.monotonic()
        if self._pending:
            for job in [job for job in self._pending if job in reasons]:
                del self._pending[job]
        self._pending |= self._news(reasons)
        rows: list[dict[str, Any]] = []
        taken = {job: self._pending.pop(job) for job in list(islice(self._pending, MOST))}
        for job, ask in taken.items():
            reason = ask()
            self._codes[job], self._numbers[job] = reason.code, (_content(reason), now)
            rows.append({"id": job, "wait_reason": plain(reason)})
        if not self._pending and now >= self._resumes and isinstance(reasons, Explained):
            began = time.monotonic()
            rows += self._refreshed(reasons, now, MOST - len(rows))
            ended = time.monotonic()
            self._resumes = ended + (ended - began) / REFRESH_SHARE
        try:
            return update_rows(Job, ("wait_reason",), rows, STILL_WAITING)
        except DatabaseError:
            self.forget(row["id"] for row in rows)
            self._pending |= taken  # a plan without changes does not name them again
            raise

    @property
    def is_behind(self) -> bool:
        """Whether reasons are left to be written."""
        return bool(self._pending)

    def forget(self, jobs: Iterable[str]) -> None:
        """These jobs do not wait any more: when they do again, their reason is news."""
        for job in jobs:
            self._codes.pop(job, None)
            self._numbers.pop(job, None)
            self._pending.pop(job, None)

    def forget_all_but(self, jobs: Collection[str]) -> None:
        """Free what is remembered of jobs that are gone, when it is much."""
        if len(self._codes) > 2 * len(jobs) + MOST:
            self.forget([job for job in self._codes if job not in jobs])

    def _news(self, reasons: Mapping[str, Reason]) -> dict[str, Ask]:
        """Return how to get the reason of each job whose code is not the stored one."""
        if not isinstance(reasons, Explained):
            return {job: partial(reasons.__getitem__, job) for job in reasons}
        found: dict[str, Ask] = {}
        codes = self._codes
        for group in reasons.groups:
            code = group.code
            if code == Code.BACKOFF:  # who made it wait has said so, and why
                self.forget([gang.id for gang in group.gangs if gang.id in codes])
                continue
            for gang in group.gangs:
                if gang.id not in codes or codes[gang.id] != code:
                    found[gang.id] = partial(reasons.reason, gang, group)
        return found

    def _refreshed(self, reasons: Explained, now: float, most: int) -> list[dict[str, Any]]:
        """Return the rows of jobs whose numbers are old and have changed; the oldest of so many
        jobs are looked at."""
        known, rows = self._numbers, []
        old = [
            (known[gang.id][1], gang.id, gang, group)
            for group in reasons.groups
            for gang in group.gangs
            if gang.id in known and now - known[gang.id][1] >= REFRESH_S
        ]
        for _, job, gang, group in heapq.nsmallest(most, old, key=itemgetter(0)):
            reason = reasons.reason(gang, group)
            content = _content(reason)
            if content != known[job][0]:
                rows.append({"id": job, "wait_reason": plain(reason)})
            known[job] = content, now
        return rows


def _content(reason: Reason) -> int:
    """Return a hash of a reason without the moment it was made at: that alone is no news."""
    details = {key: value for key, value in reason.details.items() if key != "told_at"}
    return hash(repr((reason.message, details)))


def plain(reason: Reason) -> messages.Reason:
    """As it is stored and shown."""
    return messages.reason(str(reason.code), reason.message, **reason.details)


def nominate(preemptions: Iterable[Preemption]) -> set[str]:
    """Store the nominations and ask the victims to leave. Returns the ids of the gangs whose
    nomination is stored."""
    return {p.gang for p in preemptions if _try_to_nominate(p)}


def cancel_nominations(gangs: Collection[str]) -> None:
    """Delete the nominations of these gangs, which wait like others again. Victims that were
    asked already go on leaving, and are queued again."""
    if not gangs:
        return
    Nomination.objects.filter(job_id__in=gangs).delete()
    for gang in gangs:
        notifications.notify_topic("job", gang)


def _try_to_nominate(preemption: Preemption) -> bool:
    try:
        return _nominate(preemption)
    except DatabaseError as error:
        if not connection.is_usable():
            raise
        log.warning("gang_not_nominated", job_id=preemption.gang, error=str(error)[:300])
        return False


@transaction.atomic
def _nominate(preemption: Preemption) -> bool:
    victims = [UUID(victim.gang) for victim in preemption.victims]
    # All in the order of their ids: whoever locks several of them does so too.
    lock(Job.objects.filter(pk__in=[*victims, preemption.gang]))
    job = queries.queue().filter(pk=preemption.gang).select_related("vc").first()
    usable = UsableNodes([preemption.placement])
    if job is None or not usable.has(preemption.placement.tasks):
        return False
    leaving = [victim.gang for victim in preemption.victims] + list(preemption.leaving)
    Nomination.objects.update_or_create(
        job=job,
        defaults={"placement": placement_data(preemption.placement), "victims": leaving},
    )
    standings = {UUID(one.gang): one.standing for one in preemption.victims if one.standing}
    preempting.preempt(victims, job, usable.now, standings)
    _record_nomination(job, preemption)
    return True


def _record_nomination(job: Job, preemption: Preemption) -> None:
    """Record the event. It counts the victims and does not name them: not every reader of the job
    may see them."""
    count, nodes = len(preemption.victims), list(preemption.placement.nodes)
    message = f"Reserved its place on {_some(nodes)}"
    if count:
        message += f" and asked {count} running {_jobs(count)} to leave"
    record("job", job.pk, "job.reserved", message + ".", nodes=nodes, asked=count)
    notifications.notify_topic("job", job.pk)


def _jobs(count: int) -> str:
    return "job" if count == 1 else "jobs"


def _some(names: list[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


SCHEDULER = Scheduler()  # of a worker, which runs one task at a time
