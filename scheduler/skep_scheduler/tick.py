"""`Tick`: one tick of the scheduler, as numbered steps, on the state itself by trial and undo."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial

from skep_scheduler import resizing
from skep_scheduler.backfill.admission import Backfill, HeldBack, put
from skep_scheduler.backfill.reservations import Reservation
from skep_scheduler.backfill.timeline import NEVER
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.cells.state import Domain
from skep_scheduler.explain.reasons import Blocked, Explainer
from skep_scheduler.memory import IDLE, REFRESH_S, SENSITIVE, DomainMemory, Memory, domain_of
from skep_scheduler.model import (
    Code,
    Downgrade,
    ElasticRange,
    Gang,
    Options,
    Placement,
    Plan,
    Preemption,
    Reason,
    Resize,
)
from skep_scheduler.placement import preemption, user_limits
from skep_scheduler.placement.base import Answer, Found, Task
from skep_scheduler.placement.cells_placer import (
    LACKS_RESOURCES,
    OWN_REFUSALS,
    NodeExclusion,
    unplaced,
)
from skep_scheduler.placement.displacing import Displacer
from skep_scheduler.policies import PolicyOf, policy_of
from skep_scheduler.policies.base import Decision, Keep, View
from skep_scheduler.policies.domain import KindsOn, VcDomain, shaped_for, warnings_of
from skep_scheduler.scope import Scope
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import ReservedStart, held
from skep_scheduler.state.queues import Lane
from skep_scheduler.state.request_classes import Kind, Request
from skep_scheduler.usage import unavailable_of


class Tick:
    """Cells and node resources only fill up while it runs, so what was refused once stays refused:
    one answer is for all gangs of a kind. (What gives something back clears `_refused`.)"""

    def __init__(
        self,
        state: ClusterState,
        now: float,
        options: Options,
        scope: Scope | None = None,
        policies: PolicyOf | None = None,
        memory: Memory | None = None,
    ) -> None:
        """With a `scope` it does no more than that needs, and `queue` has only that VC's gangs."""
        self._memory = memory if memory is not None else Memory(options)
        self.state, self.now, self.options = state, now, options
        self._scope = scope
        self._policy_of = policies or policy_of(state.policies, options)
        self._decisions: dict[str, Decision] = {}
        self._counts = self._memory.counts(state)
        self._next_at = NEVER
        self.queue: list[Gang] = []
        more = {scope.vc: scope.reservations} if scope is not None else {}
        self._backfill = Backfill(state, now, options, more, self.decision, self._remembered)
        self._exclusion = NodeExclusion(state, now, options)
        self._refused: dict[Kind | Request, Refusal] = {}
        self._kinds_on, self._displacer = KindsOn(state), Displacer(state, now)
        self._refused_tasks: dict[tuple[Kind | Request, int], Refusal] = {}  # of incremental gangs
        self._yielded: dict[Request, set[str]] = {}  # who would have yielded, and it was not enough
        self._placements: list[Placement] = []
        self._preemptions: list[Preemption] = []
        self._downgrades = {g: state.downgrade_reason(g) for g in state.downgraded()}
        self._cancels: dict[str, Reason] = {}
        self._resizes: list[Resize] = []
        self._blocked: list[Blocked] = []
        self._sizeless: list[Gang] = []  # its policy gave them nothing
        self._walked: set[str] = set()  # domains that are planned
        self._sensitive = False
        self._walking = IDLE

    def run(self) -> Plan:
        # 1. Downgraded gangs are restored where their virtual cluster can account for them again.
        restored = tuple(self.state.restored(self._memory.touched_vcs()))
        # 2. Nominations: cancel those that cannot be kept, start those whose victims are gone.
        self._continue_nominations()
        # 3. In each domain that can have changed, gangs start, make others leave, or wait.
        if self._scope is not None:
            self._walk_scope(self._scope)
        else:
            self._walk_domains()
        # 4. Every gang of these domains that goes on waiting gets a reason.
        explainer = Explainer(self.state, self.now, self.options, self.decision)
        reasons = explainer.reasons(self._blocked)
        self._memory.planned(again=bool(restored))
        return Plan(
            tuple(self._placements),
            tuple(self._preemptions),
            self._downgrades,
            restored,
            self._cancels,
            reasons,
            self._next_at if self._next_at < NEVER else None,
            warnings_of({vc: self._decisions[vc] for vc in sorted(self._walked)}),
            tuple(self._resizes),
        )

    def _walk_domains(self) -> None:
        """The virtual cluster whose first gang was submitted first comes first, the idle domain
        last: what guaranteed gangs get does not depend on it."""
        memory = self._memory
        memory.catch_up(self.state, self.now, self.decision)
        for name in memory.due_vcs(self._is_due):
            self._walk(name, memory.domains[name])
        idle = memory.domains.get(IDLE)
        if idle is not None and (memory.changed or self._placements or self._is_due(idle)):
            self._walk(IDLE, idle)
        for domain in memory.domains.values():
            self._wake(domain.look_at)

    def _is_due(self, domain: DomainMemory) -> bool:
        shared = domain.sensitive and self._memory.changed
        due = min(domain.look_at, domain.refresh_at) <= self.now
        return domain.stale or shared or due

    def _walk(self, name: str, domain: DomainMemory) -> None:
        """Consider the gangs of a domain in order: the heads of its lanes are merged, and a lane
        ends where all behind would be refused alike."""
        self._walked.add(name)
        self._memory.planned_domains.add(name)
        self._walking = name
        before = self._acts()
        self._sensitive, outer, self._next_at = False, self._next_at, NEVER
        decision, lanes = self.decision(name), list(domain.queue.lanes.values())
        rank, rises = decision.rank, decision.note_start is not None
        self._wake(decision.wake_at)
        for gang in domain.queue.backoff.values():
            self._consider(gang)
        own = domain.queue.positions(self.state.reservations)
        heap = [(rank(lane.gangs[0]), n, 0) for n, lane in enumerate(lanes)]
        heapq.heapify(heap)
        noted: set[int] = set()  # refusals, which live until the end of the plan
        while heap:
            before_rank, n, position = heapq.heappop(heap)
            lane = lanes[n]
            if rises and position >= 0:
                now_rank = rank(lane.gangs[position])
                if now_rank != before_rank:
                    heapq.heappush(heap, (now_rank, n, position))
                    continue
            refusal = self._refusal_of_rest(lane) if position >= 0 else None
            if refusal is None:
                self._consider(lane.gangs[abs(position) - (position < 0)])
                position += 1
                if 0 < position < len(lane):
                    heapq.heappush(heap, (rank(lane.gangs[position]), n, position))
                continue
            rest = lane.gangs[position:]
            # Gangs with a reservation are considered one by one: it may be kept or dropped.
            if lane in own:
                for later in sorted((p for p in own[lane] if p >= position), reverse=True):
                    heapq.heappush(heap, (rank(lane.gangs[later]), n, -1 - later))
                    del rest[later - position]
            if rest:
                self._blocked.append(Blocked(rest[0], lane.kind, refusal, None, rest))
                if id(refusal) not in noted:
                    noted.add(id(refusal))
                    self._wake_for(refusal, None)
        self._settle_sizes(name, decision)
        domain.stale = self._acts() != before
        domain.sensitive = self._sensitive or self._backfill.met_shortage(name)
        domain.look_at = min(self._next_at, domain.queue.next_at())
        domain.refresh_at = self.now + REFRESH_S
        self._next_at = outer

    def _acts(self) -> tuple[int, ...]:
        acts = len(self._placements), len(self._preemptions), len(self._resizes)
        return *acts, len(self._downgrades), len(self._cancels)

    def _refusal_of_rest(self, lane: Lane) -> Refusal | None:
        """Return what all further gangs of a lane are refused with; None: ask for the next one."""
        kind = lane.kind
        decision = self.decision(domain_of(lane.gangs[0]))
        single = decision.leaf_of is None or len(lane) == 1  # a leaf type is that of one gang
        if kind.incremental or decision.tasks_of is not None or not single:
            return None
        if kind.vc not in self.state.allocations.cells.vcs:
            return Refusal(Code.UNKNOWN_VC, "", {"vc": kind.vc})
        if lane.owner and (over := user_limits.exceeded(self.state, lane.gangs[0])) is not None:
            return over
        _, asked = self._kinds_on.chosen(lane.gangs[0], kind, decision)
        return self._backfill.refusal_of_rest(lane, self._refusal_on(lane.gangs[0], kind, asked))

    def _known_refusal(self, kind: Kind, gang: Gang) -> Refusal | None:
        """Return what all gangs of a kind are refused with. Where shares decide who yields, others
        may yield to the gang of another tenant than to those that were refused."""
        refusal = self._refused.get(kind.request) or self._refused.get(kind)
        if refusal is None or refusal.code != Code.VC_BUSY or kind.incremental:
            return refusal
        decision = self.decision(domain_of(gang))
        if decision.note_start is None or decision.yielding is None:
            return refusal
        more = set(decision.yielding(gang)) - self._yielded.get(kind.request, set())
        return None if more else refusal

    def _walk_scope(self, scope: Scope) -> None:
        for gang in scope.gangs(self.state, self.decision):
            self.queue.append(gang)
            self._consider(gang)
        if self._sizeless:
            self._settle_sizes(scope.vc, self.decision(scope.vc))

    def decision(self, domain: str) -> Decision:
        """Return the order of a domain: of a virtual cluster by name, "" of the idle domain."""
        if domain not in self._decisions:
            view = View(domain, self.now, self.options, self._facts_of(domain))
            decision = self._decisions[domain] = self._policy_of(domain).decide(view)
            self._wake(decision.wake_at)
        return self._decisions[domain]

    def _facts_of(self, domain: str) -> VcDomain | None:
        if domain == IDLE:
            return None
        also = self._scope.also if self._scope is not None else None
        also = also if also is not None and domain_of(also) == domain else None
        return VcDomain(self.state, domain, self._counts, also, self._unavailable)

    def _unavailable(self, vc: str, domain: Domain) -> int:
        return unavailable_of(self.state, vc, [domain]).idle

    def _note_start(self, gang: Gang) -> None:
        """Note that a gang got places, or has them reserved: the order of the others may change."""
        decision = self.decision(domain_of(gang))
        if decision.note_start is not None:
            decision.note_start(gang)

    def _remembered(self, kind: Kind, ask: Callable[[], bool]) -> bool:
        return self._memory.could_ever_start(kind, self.now, ask)

    def _wake(self, at: float | None) -> None:
        if at is not None and self.now < at < self._next_at:
            self._next_at = at

    def reservations_of(self, vc: str) -> list[Reservation]:
        """Return the reservations of a virtual cluster, by start."""
        return self._backfill.reservations_of(vc)

    def reserved_starts(self) -> dict[str, ReservedStart]:
        """Return the starts that are reserved for waiting gangs, by gang id."""
        return self._backfill.reserved_starts(lambda gang: domain_of(gang) in self._walked)

    def _continue_nominations(self) -> None:
        for gang_id in sorted(self.state.nominated):
            nomination = self.state.nominated[gang_id]
            why = preemption.broken(self.state, nomination)
            if why is not None:
                self.state.allocations.release(gang_id)
                self._cancels[gang_id] = why
            elif preemption.is_cleared(self.state, nomination):
                self.state.allocations.put(nomination.gang, nomination.tasks)
                self._placements.append(nomination.placement)
                self._backfill.note_start(nomination.gang, self.now)
            else:
                leaving = list(preemption.waited_for(self.state, nomination))
                self._block(nomination.gang, Refusal(Code.PREEMPTING, "", {"leaving": leaving}))

    def _consider(self, gang: Gang) -> None:
        decision = self.decision(domain_of(gang))
        tasks = decision.tasks_of(gang) if decision.tasks_of is not None else None
        if tasks:
            gang = gang.resized(tasks)
        kind = self.state.kind_of(gang) if not tasks else self.state.kind_as_asked(gang)
        if gang.not_before > self.now:
            self._block(gang, Refusal(Code.BACKOFF, "", {"until": gang.not_before}))
        elif gang.vc not in self.state.allocations.cells.vcs:
            self._block(gang, Refusal(Code.UNKNOWN_VC, "", {"vc": gang.vc}))
        elif (over := self._over_limit(gang)) is not None:
            self._block(gang, over)
        elif decision.declined is not None and (declined := decision.declined(gang)) is not None:
            self._block(gang, Refusal(Code.NOT_ADMITTED, "", dict(declined)))
        elif tasks == 0:
            self._sizeless.append(gang)
        elif tasks:
            self._place_sized(gang, kind, tasks)
        elif gang.incremental:
            self._place_one_by_one(gang, kind)
        else:
            self._place_whole(gang, kind)

    def _over_limit(self, gang: Gang) -> Refusal | None:
        """Return the limit of its owner that it would exceed; incremental ones ask by task."""
        return user_limits.exceeded(self.state, gang, () if gang.incremental else None)

    def _place_sized(self, gang: Gang, kind: Kind, tasks: int) -> None:
        """Start a gang with the tasks that its policy gives it. Where it finds no place for so
        many, and none is about to become free, it starts with fewer."""
        answer = self._known_refusal(kind, gang) or self._find(gang, kind)
        fewer = resizing.fewer(self.state, gang, tasks) if isinstance(answer, Refusal) else ()
        for smaller in fewer:
            asked = self.state.kind_as_asked(smaller)
            found = self._known_refusal(asked, smaller) or self._find(smaller, asked)
            if isinstance(found, Found):
                gang, kind, answer = smaller, asked, found
                break
        self._place_whole(gang, kind, answer)

    def _settle_sizes(self, vc: str, decision: Decision) -> None:
        """Ask for resizes of a virtual cluster. Where there are none, gangs without a size start
        on what is idle: a policy counts GPUs, and may give them to a gang with no place on them."""
        wanted = decision.wanted_sizes
        made = resizing.of(self.state, vc, decision, self._exclusion) if wanted else []
        self._resizes += made
        tight = bool(made) or resizing.leaves_any(self.state, vc)
        sizeless, self._sizeless = self._sizeless, []
        full: set[tuple[Kind, ElasticRange | None]] = set()  # who finds no places, as all like it
        for gang in sizeless:
            kind, sizes = self.state.kind_of(gang), gang.elastic
            if tight or (kind, sizes) in full or self._over_limit(gang) is not None:
                self._block(gang, resizing.NO_SIZE)
            elif (refusal := self._refused_at_least(gang, kind)) is not None:
                if refusal.code not in OWN_REFUSALS:
                    full.add((kind, sizes))
                self._wake_for(refusal, None)
                self._block(gang, resizing.NO_SIZE)
            else:
                self._place_sized(gang, kind, sizes.asked if sizes is not None else gang.tasks)

    def _refused_at_least(self, gang: Gang, kind: Kind) -> Refusal | None:
        """Return why a gang finds no places even with the least size that it can have."""
        if gang.elastic is not None:
            gang = gang.resized(gang.elastic.min)
            kind = self.state.kind_as_asked(gang)
        answer = self._known_refusal(kind, gang) or self._find(gang, kind)
        return answer if isinstance(answer, Refusal) else None

    def _place_whole(self, gang: Gang, kind: Kind, known: Answer | None = None) -> None:
        """Start a gang, where it finds a place: the one that is `known` already."""
        leaf, asked = self._kinds_on.chosen(gang, kind, self.decision(domain_of(gang)))
        refused = self._refusal_on(gang, kind, asked)
        answer = self._backfill.admit(
            gang, kind, refused, lambda: known or self._find_shaped(gang, kind, leaf, asked)
        )
        if isinstance(answer, HeldBack):
            if answer.refusal.code == Code.NEVER_FITS_VC:
                self._refused[kind.request] = answer.refusal
            self._block(gang, answer.refusal, answer.reservation)
        elif new := preemption.undoes(self.state, answer.found, self._preemptions):
            young = {"at": self.now, "victims": list(new)}
            self._block(gang, Refusal(Code.VICTIMS_TOO_YOUNG, "", young))
        elif answer.found.victims or answer.found.overcommitters:
            self._preempt(gang, answer.found)
        else:
            self._start(gang, answer.found)

    def _refusal_on(self, gang: Gang, kind: Kind, asked: Kind) -> Refusal | None:
        """Return the known refusal as `asked`, if idle GPUs of another type do not do either."""
        refused = self._known_refusal(asked, gang)
        return refused if refused is None or asked is kind else self._known_refusal(kind, gang)

    def _find_shaped(self, gang: Gang, kind: Kind, leaf: str | None, asked: Kind) -> Answer:
        """Search places on the chosen GPU model, and then on what is idle of any."""
        if leaf is None:
            return self._find(gang, kind)
        answer = self._known_refusal(asked, gang) or self._find(shaped_for(gang, leaf), asked)
        if isinstance(answer, Refusal):
            return self._known_refusal(kind, gang) or self._find(gang, kind, displace=False)
        return answer

    def _find(self, gang: Gang, kind: Kind, *, displace: bool = True) -> Answer:
        """Search places for a gang, and remember what all gangs of its kind are refused with."""
        answer = self._exclusion.find(gang, kind)
        if displace and isinstance(answer, Refusal) and answer.code == Code.VC_BUSY:
            answer = self._displacing(gang, kind) or answer
        if isinstance(answer, Refusal) and answer.code not in OWN_REFUSALS:
            self._refused[kind if answer.code in LACKS_RESOURCES else kind.request] = answer
        return answer

    def _displacing(self, gang: Gang, kind: Kind) -> Found | None:
        decision = self.decision(domain_of(gang))
        if gang.opportunistic or decision.keep is Keep.FIRM:
            return None
        search = partial(self._exclusion.outside, gang, kind)
        found = self._displacer.find(gang, kind, decision, search)
        if found is None and decision.yielding is not None and decision.note_start is not None:
            self._yielded.setdefault(kind.request, set()).update(decision.yielding(gang))
        return found

    def _place_one_by_one(self, gang: Gang, kind: Kind) -> None:
        """Start tasks of an incremental gang, as many as find a place."""
        held_back = self._backfill.check(gang, kind, self._known_refusal(kind, gang))
        if held_back is not None:
            self._block(gang, held_back.refusal, held_back.reservation)
            return
        placed: list[Found] = []
        refusal, due = None, unplaced(self.state, gang, kind, self.now)
        if not due:
            delays = [moment for *_, moment in self.state.running[gang.id].delays]
            later = [moment for moment in delays if moment > self.now]
            if not later:
                return  # its own running tasks are as many as may run at a time
            refusal = Refusal(Code.BACKOFF, "", {"until": min(later)})
        for task in due:
            over = user_limits.exceeded(self.state, gang, [task])
            answer = over if over is not None else self._find_task(gang, kind, task)
            if isinstance(answer, Refusal):
                refusal = answer
                break
            refusal = self._backfill.delay(gang, [*placed, answer])
            if refusal is not None:
                break
            if preemption.undoes(self.state, answer, self._preemptions):
                break
            if answer.victims or answer.overcommitters:
                if not placed and gang.id not in self.state.running:
                    self._preempt(gang, answer)
                    return
                break
            self._apply(gang, answer)
            placed.append(answer)
            put(self.state, gang, placed)
        if placed:
            tasks = tuple(task for found in placed for _, task in found.tasks)
            self._note_start(gang)
            self._placements.append(Placement(gang.id, tasks))
        elif refusal is not None:
            self._block(gang, refusal)

    def _find_task(self, gang: Gang, kind: Kind, task: Task) -> Found | Refusal:
        """Tasks of one role are alike."""
        role, refused = task[0], self._refused_tasks
        known = refused.get((kind.request, role)) or refused.get((kind, role))
        if known is not None:
            return known
        answer = self._exclusion.find(gang, kind, [task])
        if isinstance(answer, Refusal) and answer.code not in OWN_REFUSALS:
            by_cells = answer.code not in LACKS_RESOURCES
            self._refused_tasks[kind.request if by_cells else kind, role] = answer
        return answer

    def _start(self, gang: Gang, found: Found) -> None:
        self._apply(gang, found)
        put(self.state, gang, [found])
        self._backfill.note_start(gang, self.now)
        self._note_start(gang)
        self._placements.append(Placement(gang.id, tuple(task for _, task in found.tasks)))

    def _preempt(self, gang: Gang, found: Found) -> None:
        """Reserve its places in any case, so that no gang behind it takes them."""
        placement = Placement(gang.id, tuple(task for _, task in found.tasks))
        refusal = preemption.too_early(self.state, gang, found, self.now, self.options)
        if refusal is not None and refusal.code == Code.COOLING_DOWN:
            self._block(gang, refusal)
            return
        if refusal is None:
            self._apply(gang, found)
            decision = self.decision(domain_of(gang))
            made = preemption.of(self.state, gang, placement, found, self.now, decision)
            self._preemptions.append(made)
            self._backfill.note_start(gang, self.now + self.options.leave_s)
        self.state.allocations.reserve(gang, held(gang, placement))
        self._note_start(gang)
        if refusal is not None:
            self._block(gang, refusal)

    def _apply(self, gang: Gang, found: Found) -> None:
        """What it does to others that go on."""
        for other in found.cancels:
            self.state.allocations.release(other)
            if other in self.state.nominated:
                self._cancels[other] = preemption.outranked(gang)
        for other in found.downgrades:
            self.state.allocations.downgrade(other, Downgrade.PREEMPTED_LAZILY)
            self._downgrades[other] = preemption.downgraded(gang)
        if found.cancels or found.downgrades:
            self._refused.clear()
            self._refused_tasks.clear()
            self._yielded.clear()

    def _block(self, gang: Gang, refusal: Refusal, reservation: Reservation | None = None) -> None:
        if reservation is None:
            self._backfill.withdraw(gang)
        self._wake_for(refusal, reservation)
        kind = self.state.kind_of(gang)
        self._blocked.append(Blocked(gang, kind, refusal, reservation, [gang]))

    def _wake_for(self, refusal: Refusal, reservation: Reservation | None) -> None:
        """Note when the answer may be another one although nothing happens, and whether it may be
        another one when something happens in another domain."""
        self._sensitive = self._sensitive or refusal.code in SENSITIVE
        for key in ("until", "at", "by_start"):
            self._wake(refusal.details.get(key))
        if reservation is not None:
            self._wake(reservation.start)
