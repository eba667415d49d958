"""A cluster with a clock of its own: gangs arrive, start, end, are preempted and wait again.

Events are kept in a heap. All events of one instant are applied before the engine plans once: ends
first, then arrivals, so that a plan sees everything that is free at that moment (the order of
`docs/simulator.md`).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum

from skep_scheduler import engine, policies
from skep_scheduler.model import (
    DEFAULTS,
    Allocation,
    Gang,
    Inventory,
    Node,
    Options,
    Plan,
    PolicyChoice,
    VirtualCluster,
)
from skep_scheduler.policies.base import MOST_SERVICES, SERVICES_S
from skep_scheduler.policies.recurrence import Families, Recurrence
from skep_scheduler.policies.sized import speed_of
from skep_scheduler.simulator.commit import commit
from skep_scheduler.simulator.invariants import StateChecks, require
from skep_scheduler.simulator.node_events import NodeAction, NodeChange
from skep_scheduler.simulator.results import JobResult, Outcome
from skep_scheduler.state import ClusterState

NEVER = float("inf")
SAMPLES = 250  # of the series, for each tick of a job


class EventKind(IntEnum):
    """What happens, in the order in which the events of one instant are applied."""

    LEAVE = 0  # the grace period of a preempted gang is over
    FAIL = 1  # an attempt fails, and is retried
    END = 2
    NODE = 3
    ARRIVE = 4


@dataclass(order=True, slots=True)
class Event:
    """`start` is the number of the start that an END, FAIL or LEAVE belongs to: an event of an
    earlier start of the same gang is stale, and dropped. Of NODE it is the number of the change."""

    at: float
    kind: EventKind
    gang_id: str
    start: int = field(compare=False, default=0)


@dataclass(slots=True)
class History:
    """What happened to one gang. Times are seconds since the epoch, None until they happened."""

    gang: Gang
    first_started_at: float | None = None
    last_started_at: float | None = None
    running: bool = False
    ended_at: float | None = None
    starts: int = 0
    preemptions: int = 0
    failures: int = 0
    losses: int = 0  # of its attempts, by nodes that were lost
    served_s: float = 0.0  # on its GPUs, over all of its starts
    remaining_s: float | None = None  # to run; None: it runs until `end` is called
    speed: float = 1.0  # of an elastic gang, relative to the size that it asks for


class SimulatedCluster:
    """Runs `engine.plan` on a state that it moves through time.

    state: the cluster state, as the live scheduler keeps it
    now: seconds since the epoch
    history: what happened to each gang so far, by id
    lifetimes: how long gangs really run (seconds), by id; a gang that is not in it runs for its
        own `duration_s`, and without one until `end` is called
    failures: how long gangs run until an attempt of them fails, by id, attempt by attempt; all
        further ones end well. What a failed attempt did is lost, unless `keep_progress`
    retry_delay_s: how long a gang waits after its nth failure before it may start again
    families: what jobs have in common by which durations are predicted, by id; only gangs that
        ended before one arrives teach how long it will run
    keep_progress: whether a preempted gang goes on where it stopped (it saved a checkpoint), or
        starts from the beginning
    restart_s: how much longer a gang that keeps its progress runs for each preemption, where that
        was not measured of it (`Gang.warmup_s`)
    decide_s: how long after an event the engine plans; what happens meanwhile is in that plan
    noticed_at: when the engine plans next, at this moment or later, if nothing happens; a moment
        that its plan names as the next one (a retry, a limit of time) is acted on then
    """

    def __init__(
        self,
        nodes: Iterable[Node],
        vcs: Iterable[VirtualCluster],
        options: Options = DEFAULTS,
        grace_s: float = 5.0,
        *,
        keep_progress: bool = False,
        restart_s: float = 0.0,
    ) -> None:
        self.state = ClusterState()
        self.options = options
        self.grace_s = grace_s
        self.keep_progress = keep_progress
        self.restart_s = restart_s
        self.now = 0.0
        self.lifetimes: dict[str, float] = {}
        self.failures: dict[str, list[float]] = {}
        self.retry_delay_s: Callable[[int], float] = lambda failures: 0.0
        self.decide_s = 0.0
        self.noticed_at: Callable[[float], float] = lambda at: at
        self.families: dict[str, Families] = {}
        self.recurrence = Recurrence()
        self.history: dict[str, History] = {}
        self._services: dict[str, deque[float]] = {}
        self._hour = 0.0
        self.series: list[tuple[float, int, int]] = []  # (second, jobs that wait, GPUs in use)
        self.ended = 0
        self._events: list[Event] = []
        self._node_changes: list[NodeChange] = []
        self._checks = StateChecks(self.state)
        self.state.set_inventory(Inventory(tuple(nodes), tuple(vcs)))

    def submit(self, *gangs: Gang) -> None:
        """Make gangs wait from now on. The next tick considers them."""
        for gang in gangs:
            self.history[gang.id] = History(gang)
            self.state.set_waiting(gang)

    def submit_later(self, gang: Gang) -> None:
        """Make a gang arrive at its own `submitted_at`."""
        self.history[gang.id] = History(gang)
        heapq.heappush(self._events, Event(gang.submitted_at, EventKind.ARRIVE, gang.id))

    def change_node_later(self, change: NodeChange) -> None:
        """Make something happen to a node at its moment. Raises `KeyError` for an unknown node."""
        if change.node not in self.state.nodes:
            raise KeyError(change.node)
        number = len(self._node_changes)
        self._node_changes.append(change)
        # Those of one instant happen in the order in which they were given.
        heapq.heappush(self._events, Event(change.at, EventKind.NODE, f"{number:09}", number))

    def resume(self, allocation: Allocation) -> None:
        """Make a gang hold places that it was given before this moment."""
        gang_id = allocation.gang.id
        self.history[gang_id] = History(allocation.gang)
        self._checks.resumed(gang_id)
        self.state.set_running(allocation)
        self._note_start(gang_id)

    def plan(self) -> Plan:
        """Return the engine's plan for this moment without carrying it out."""
        self._learn_services()
        return engine.plan(self.state, self.now, self.options)

    def tick(self) -> Plan:
        """Plan, and carry the plan out. Raises `RunInvariantError` where what was carried out
        before broke an invariant."""
        decided = self.plan()
        self._checks.decided(self.history, self.now)
        victims = commit(self.state, decided, self.now)
        for gang_id in victims:
            self.history[gang_id].preemptions += 1
            self._leave_later(gang_id)
        for placement in decided.placements:
            self._note_start(placement.gang)
        return decided

    def ask_to_leave(self, gang_id: str) -> None:
        """Preempt a running gang: it leaves at the end of its grace period, and waits again."""
        self.state.set_running(replace(self.state.running[gang_id], leaving=True))
        self._leave_later(gang_id)

    def end(self, gang_id: str) -> None:
        """End a gang now, for good, wherever it is."""
        history = self.history[gang_id]
        self._note_service(gang_id)
        history.ended_at = self.now
        self.ended += 1
        history.starts += 1  # makes its pending events stale
        if gang_id in self.families:
            ran = self.lifetimes.get(gang_id, history.gang.duration_s or history.served_s)
            self.recurrence.learn(self.families[gang_id], ran, history.gang.predicted_s)
        services = self._services_of(history.gang.vc)
        if services is not None and not history.gang.opportunistic:
            services.append(history.served_s * gpus_of(history.gang))
        self.state.forget(gang_id)

    def advance(self, until: float, step_s: float = NEVER) -> None:
        """Let time pass until `until`, with a tick at each event and every `step_s` seconds."""
        while self.now < until:
            self._move_to(min(until, self.now + step_s, self._next_event()))
            self.tick()

    def step(self, wake_ups: Iterable[float] = ()) -> Plan:
        """Let time pass until the next event, or until the first of `wake_ups` that is not past,
        and tick. Without any of them the tick is at this moment."""
        later = (at for at in wake_ups if at > self.now)
        at = min([self._next_event(), *later])
        self._move_to(at if at < NEVER else self.now)
        return self.tick()

    def run_to_end(
        self, tick_limit: int | None = None, report: Callable[[int], None] | None = None
    ) -> int:
        """Let time pass until no event is left: all gangs have ended, or cannot start any more
        (none started on the idle cluster, and none is put off to a later moment). Returns the
        number of ticks. `report` is called with the number of gangs that ended.

        Raises `RuntimeError` after `tick_limit` ticks, and `RunInvariantError`.
        """
        ticks, wake_at = 0, NEVER
        chosen = self.state.policies.values()
        has_limits = any(policies.has_limits(choice) for choice in chosen)
        while (at := min(self._next_event() + self.decide_s, wake_at)) < NEVER:
            self._move_to(at)
            decided = self.tick()
            next_at = decided.next_at
            if self.idle() and not decided.placements and not self._may_start_later():
                next_at = None
            wake_at = NEVER
            if next_at is not None and next_at > self.now:
                wake_at = self.noticed_at(next_at)
            if has_limits and decided.placements:
                wake_at = self.now  # the plan did not know when those reach a limit that it started
            ticks += 1
            if ticks % max(len(self.history) // SAMPLES, 1) == 0:
                self.sample()
                if report is not None:
                    report(self.ended)
            if tick_limit is not None and ticks >= tick_limit:
                raise RuntimeError(f"not finished after {ticks} ticks, at {self.now:.0f} s")
        self._checks.whole(self.history, self.now)
        return ticks

    def _services_of(self, vc: str) -> deque[float] | None:
        """Return the services of the last gangs of a virtual cluster that ended; None: its policy
        does not ask for them."""
        if vc not in self._services:
            if not policies.learns_services(self.state.policies.get(vc, PolicyChoice())):
                return None
            before = self.state.services.get(vc, ())
            self._services[vc] = deque(before, maxlen=MOST_SERVICES)
        return self._services[vc]

    def _learn_services(self) -> None:
        """Make known what ended before the present hour, as the platform does."""
        hour = self.now // SERVICES_S
        if hour != self._hour:
            self._hour = hour
            learned = {vc: tuple(some) for vc, some in self._services.items()}
            self.state.set_services(self.state.services | learned)

    def sample(self) -> None:
        """Add this moment to `series`."""
        used = sum(map(gpus_of, self.state.running.values()))
        waiting = len(self.state.waiting) + len(self.state.nominated)
        self.series.append((self.now, waiting, used))

    def outcome(self) -> Outcome:
        """Return what became of all gangs that were submitted.

        Raises `RunInvariantError` if one is lost: neither ended nor waiting nor running.
        """
        known = {*self.state.waiting, *self.state.running, *self.state.nominated}
        results = []
        for gang_id, history in self.history.items():
            there = history.ended_at is not None or gang_id in known
            require(there, f"{gang_id} is lost: it did not end, and is not there.", self.now)
            gang = history.gang
            due, ended_at = gang.deadline_at, history.ended_at
            results.append(
                JobResult(
                    gang_id,
                    gpus_of(gang),
                    gang.submitted_at,
                    history.first_started_at,
                    history.ended_at,
                    history.served_s,
                    self.lifetimes.get(gang_id, gang.duration_s or 0.0),
                    gang.vc,
                    gang.owner,
                    history.preemptions,
                    met=None if due is None else ended_at is not None and ended_at <= due + 1e-6,
                )
            )
        gpus = sum(len(node.devices) for node in self.state.nodes.values())
        return Outcome(results, gpus, series=self.series)

    def idle(self) -> bool:
        """Whether nothing runs and nothing is to arrive any more."""
        return not self.state.running and self._next_event() == NEVER

    def _may_start_later(self) -> bool:
        later = any(gang.not_before > self.now for gang in self.state.waiting.values())
        return later or bool(self.state.nominated)

    def _next_event(self) -> float:
        while self._events and self._is_stale(self._events[0]):
            heapq.heappop(self._events)
        return self._events[0].at if self._events else NEVER

    def _is_stale(self, event: Event) -> bool:
        if event.kind is EventKind.NODE:
            return False
        return event.start != self.history[event.gang_id].starts

    def _move_to(self, at: float) -> None:
        """Let events happen at their moments until `at`, which is the present then."""
        while self._next_event() <= at:
            event = heapq.heappop(self._events)
            self.now = max(self.now, event.at)
            if event.kind is EventKind.ARRIVE:
                self._arrive(self.history[event.gang_id])
            elif event.kind is EventKind.END:
                self.end(event.gang_id)
            elif event.kind is EventKind.NODE:
                self._change_node(self._node_changes[event.start])
            elif event.kind is EventKind.FAIL:
                self._fail(event.gang_id)
            else:
                self._requeue(event.gang_id)
        self.now = max(self.now, at)

    def _arrive(self, history: History) -> None:
        gang = history.gang
        if gang.id in self.families:
            predicted_s = self.recurrence.predict(self.families[gang.id])
            gang = history.gang = replace(gang, predicted_s=predicted_s)
        self.state.set_waiting(gang)

    def _fail(self, gang_id: str) -> None:
        history = self.history[gang_id]
        self.failures[gang_id].pop(0)
        history.failures += 1
        self._requeue(gang_id)
        not_before = self.now + self.retry_delay_s(history.failures)
        self.state.set_waiting(replace(self.state.waiting[gang_id], not_before=not_before))

    def _change_node(self, change: NodeChange) -> None:
        there = [
            gang_id
            for gang_id, allocation in self.state.running.items()
            if any(task.node == change.node for task in allocation.tasks)
        ]
        for gang_id in there:
            if change.action is NodeAction.LOSE:
                self._lose(gang_id)
            elif change.action is NodeAction.DRAIN and not self.state.running[gang_id].leaving:
                self.history[gang_id].preemptions += 1
                self.ask_to_leave(gang_id)
        node = self.state.nodes[change.node]
        is_open = change.action is NodeAction.OPEN
        by_admin = change.action in (NodeAction.CLOSE, NodeAction.DRAIN)
        self.state.set_node(replace(node, schedulable=is_open, cordoned=by_admin))

    def _lose(self, gang_id: str) -> None:
        history = self.history[gang_id]
        at_start_s = history.remaining_s  # progress is counted when an attempt ends
        history.losses += 1
        self._requeue(gang_id)
        history.remaining_s = at_start_s

    def _requeue(self, gang_id: str) -> None:
        history = self.history[gang_id]
        before = history.served_s
        self._note_service(gang_id)
        history.starts += 1
        if self.keep_progress and history.remaining_s is not None:
            warmup_s = history.gang.warmup_s
            history.remaining_s += self.restart_s if warmup_s is None else warmup_s
        allocation = self.state.running[gang_id]
        served_gpu_s = (history.served_s - before) * gpus_of(allocation)
        attained_gpu_s = allocation.gang.attained_gpu_s + served_gpu_s
        asked = allocation.gang.as_asked()
        gang = replace(asked, waits_since=self.now, attained_gpu_s=attained_gpu_s)
        self.state.forget(gang_id)
        self.state.set_waiting(gang)

    def _leave_later(self, gang_id: str) -> None:
        start = self.history[gang_id].starts
        leave_s = self.history[gang_id].gang.leave_s
        leaves_at = self.now + (self.grace_s if leave_s is None else leave_s)
        leave = Event(leaves_at, EventKind.LEAVE, gang_id, start)
        heapq.heappush(self._events, leave)

    def _note_start(self, gang_id: str) -> None:
        history = self.history[gang_id]
        if history.running:
            return  # further tasks of an incremental gang that runs already
        history.running, history.last_started_at = True, self.now
        if history.first_started_at is None:
            history.first_started_at = self.now
        history.starts += 1
        if history.remaining_s is None:
            history.remaining_s = self.lifetimes.get(gang_id, history.gang.duration_s)
        history.speed = speed_of(self.state.running[gang_id].gang)
        if self.failures.get(gang_id):
            fails_at = self.now + self.failures[gang_id][0]
            fail = Event(fails_at, EventKind.FAIL, gang_id, history.starts)
            heapq.heappush(self._events, fail)
        if history.remaining_s is not None:
            ends_at = self.now + history.remaining_s / history.speed
            heapq.heappush(self._events, Event(ends_at, EventKind.END, gang_id, history.starts))

    def _note_service(self, gang_id: str) -> None:
        history = self.history[gang_id]
        if not history.running or history.last_started_at is None:
            return
        ran_s = self.now - history.last_started_at
        history.running = False
        history.served_s += ran_s
        if self.keep_progress and history.remaining_s is not None:
            history.remaining_s = max(history.remaining_s - ran_s * history.speed, 0.0)


def gpus_of(allocation: Allocation | Gang) -> int:
    """Return the number of GPUs that an allocation holds, or that a gang asks for."""
    if isinstance(allocation, Allocation):
        return sum(len(task.gpu_uuids) for task in allocation.tasks)
    return sum(member.count * member.gpus for member in allocation.members)
