"""Displacing: whose places a gang may have, by the order of the policy of their virtual cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice

from skep_scheduler.cells.journal import Journal
from skep_scheduler.model import Allocation, Gang, Placement
from skep_scheduler.placement.base import Answer, Found
from skep_scheduler.placement.device_bound import DeviceBound
from skep_scheduler.policies.base import Decision, Rank
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import held
from skep_scheduler.state.request_classes import Kind

MOST_TRIES = 4  # to place a preemptor elsewhere
Search = Callable[[Collection[str]], Answer]


class Displacer:
    """Looks for gangs to displace, for the length of a plan. It remembers of running gangs what
    does not change in it: their ranks, and where they are."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self._state, self._now = state, now
        self._running: dict[str, Sequence[tuple[Rank, Allocation]]] = {}  # by virtual cluster
        self._chains: dict[str, frozenset[str]] = {}  # by node

    def find(self, gang: Gang, kind: Kind, decision: Decision, search: Search) -> Found | None:
        """Find places for a gang on those of running gangs of its virtual cluster that come later
        in the order of a policy, or that yield to it as the policy says, for a policy that
        displaces. None: that would not be enough.

        Those that leave anyway go first and then the first that yields, until the gang fits; of
        these as many stay as it fits beside, the last that would yield before the others, so that
        none leaves without need. Gangs on other GPU models than it may have do not matter.
        `search` finds places without those on some excluded nodes."""
        state, chains = self._state, _chains_for(self._state, kind)
        trial = _Trial(state, DeviceBound(state, kind), lambda: search(()))

        def victims_by(fits: Callable[[], bool]) -> Sequence[Allocation]:
            enough = self._enough(self._yielding(gang, decision), chains, trial, fits)
            return _needed(enough[::-1], trial, fits, known_not_to_fit=True)

        with state.trial():
            # By devices alone: if it fits without these, it also does without any more, and no
            # search would have named others.
            victims = victims_by(trial.could_fit)
            with trial.without(victims):
                fits = bool(victims) and trial.fits()
            if victims and not fits:
                victims = victims_by(trial.fits)
            if not victims:
                return None
            with trial.without(victims):
                first = trial.answer()

        def found_without(excluded: Collection[str]) -> Answer:
            with state.trial():
                state.allocations.release_all([victim.gang.id for victim in victims])
                return search(excluded)

        others = (found_without(excluded) for excluded in _exclusions(state, victims, first))
        for answer in chain([first], others):
            if (
                isinstance(answer, Found)
                and _takes_from_all(answer, victims)
                and _can_be_reserved(state, gang, answer)
            ):
                return answer
        return None

    def _yielding(self, gang: Gang, decision: Decision) -> Iterator[Allocation]:
        """Yield the gangs whose places a waiting one may take, the first to leave first."""
        later: Iterator[Allocation]
        if decision.yielding is None:
            mine = decision.order(gang)
            later = (one for rank, one in self._by_order(gang.vc, decision) if rank > mine)
        else:
            later = self._by_turn(gang, decision, decision.yielding(gang))
        for one in later:
            if (
                (one.leaving or one.gang.preemptible)
                and one.gang.priority <= gang.priority
                and self._state.is_guaranteed(one.gang.id)
            ):
                yield one

    def _by_order(self, vc: str, decision: Decision) -> Sequence[tuple[Rank, Allocation]]:
        """Return the running gangs of a virtual cluster with their ranks, those that leave first,
        and then the last in the order."""
        if vc not in self._running:
            running = (self._state.running[gang_id] for gang_id in self._state.running_of[vc])
            ranks = [(decision.order(one.served(self._now)), one) for one in running]
            ranks.sort(key=lambda pair: (pair[1].leaving, pair[0]), reverse=True)
            self._running[vc] = ranks
        return self._running[vc]

    def _by_turn(
        self, gang: Gang, decision: Decision, yielding: Sequence[str]
    ) -> Iterator[Allocation]:
        """Yield the running gangs of the virtual cluster of a waiting one that yield to it, and
        before them those that leave, if any of them yields."""
        if not yielding:
            return
        running, turn = self._state.running, {gang_id: n for n, gang_id in enumerate(yielding)}
        here = self._state.running_of[gang.vc]
        leaving = [running[gang_id] for gang_id in here if running[gang_id].leaving]
        leaving.sort(key=lambda one: (turn.get(one.gang.id, 0), decision.order(one.gang)))
        yield from leaving
        for gang_id in yielding:
            if gang_id in here and not running[gang_id].leaving:
                yield running[gang_id]

    def _enough(
        self,
        gangs: Iterator[Allocation],
        chains: Collection[str] | None,
        trial: _Trial,
        fits: Callable[[], bool],
    ) -> Sequence[Allocation]:
        """Return the first gangs in these chains without which it fits, up to twice as many as it
        takes; none if all of them are too few."""
        more, freed = 1, list[Allocation]()
        with trial.without(()):
            while some := list(islice(gangs, more)):
                more *= 2
                if chains is not None:
                    some = [one for one in some if self._is_in(one, chains)]
                if some:
                    trial.take_away(some)
                    freed += some
                    if fits():
                        return freed
        return []

    def _is_in(self, allocation: Allocation, chains: Collection[str]) -> bool:
        """Return whether a gang has anything on a node with GPUs of some chains."""
        known, nodes = self._chains, self._state.cells.nodes
        for task in allocation.tasks:
            if (here := known.get(task.node)) is None:
                leaves = nodes.get(task.node, ())
                here = known[task.node] = frozenset(leaf.shape.chain for leaf in leaves)
            if not here.isdisjoint(chains):
                return True
        return False


def _chains_for(state: ClusterState, kind: Kind) -> Collection[str] | None:
    """Return the chains in which gangs of a kind may have places; None: all nodes matter."""
    types = {asked.leaf_type for part in kind.parts for asked in part.asked}
    if kind.bare or None in types:
        return None
    return {name for name, pool in state.cells.chains.items() if pool.shape.leaf_type in types}


class _Trial:
    """What a search answers without some running gangs, within a trial of the state. They are only
    released for a search, and that is only made where the devices would do; what it answered
    without the same gangs before, it answers again."""

    def __init__(
        self, state: ClusterState, bound: DeviceBound, search: Callable[[], Answer]
    ) -> None:
        self._state, self._bound, self._search = state, bound, search
        self._away: list[Sequence[str]] = []  # ids, as they were taken away
        self._marks: list[int] = []  # of the journal, before each of the first of them was released
        self._answers: dict[frozenset[str], Answer] = {}

    @contextmanager
    def without(self, gangs: Iterable[Allocation]) -> Iterator[None]:
        """These gangs are away within it, and those that are taken away there."""
        depth = len(self._away)
        self.take_away(gangs)
        yield
        if len(self._marks) > depth:
            self._journal.rollback(self._marks[depth])
            del self._marks[depth:]
        for ids in self._away[depth:]:
            self._bound.put_back(ids)
        del self._away[depth:]

    def take_away(self, gangs: Iterable[Allocation]) -> None:
        self._away.append([one.gang.id for one in gangs])
        self._bound.take_away(self._away[-1])

    def could_fit(self) -> bool:
        return self._bound.could_fit()

    def fits(self) -> bool:
        return self._bound.could_fit() and isinstance(self.answer(), Found)

    def answer(self) -> Answer:
        key = frozenset(chain.from_iterable(self._away))
        if key not in self._answers:
            for ids in self._away[len(self._marks) :]:
                self._marks.append(self._journal.mark())
                self._state.allocations.release_all(ids)
            self._answers[key] = self._search()
        return self._answers[key]

    @property
    def _journal(self) -> Journal:
        return self._state.allocations.cells.journal


def _needed(
    gangs: Sequence[Allocation],
    trial: _Trial,
    fits: Callable[[], bool],
    *,
    known_not_to_fit: bool = False,
) -> list[Allocation]:
    """Return which of these gangs have to leave, where it fits without all of them. The first stay
    before the others. It asks for halves and not for each, as most are not in the way."""
    if not gangs or (not known_not_to_fit and fits()):
        return []
    if len(gangs) == 1:
        return [*gangs]
    half = len(gangs) // 2
    with trial.without(gangs[half:]):
        first = _needed(gangs[:half], trial, fits)
    with trial.without(first):
        return first + _needed(gangs[half:], trial, fits, known_not_to_fit=not first)


def _exclusions(
    state: ClusterState, victims: Sequence[Allocation], first: Answer
) -> Iterator[Collection[str]]:
    """Yield nodes that a preemptor shall not use, one try after the other, after it was placed at
    `first` on any: that it takes the nodes of its victims and no more others than it needs beside
    them, that it takes these alone, and that it does without one of these."""
    nodes = {task.node for victim in victims for task in victim.tasks}
    found = {task.node for _, task in first.tasks} if isinstance(first, Found) else set()
    others = state.nodes.keys() - nodes
    idle, unused = sorted(found - nodes), len(nodes - found)
    if idle and unused:
        yield others - set(idle[:-unused])
    yield others
    if len(nodes) > 1:
        yield from (others | {node} for node in sorted(nodes)[:MOST_TRIES])


def _can_be_reserved(state: ClusterState, gang: Gang, found: Found) -> bool:
    """Return whether a preemptor can have its places reserved while its victims still run. Its
    virtual cluster may own a cell that is bound elsewhere until the last of them has left."""
    if _takes_over_cells(state, gang, found):
        return True
    placement = Placement(gang.id, tuple(task for _, task in found.tasks))
    with state.trial():
        for other in found.cancels:
            state.allocations.release(other)
        return state.allocations.reserve(gang, held(gang, placement))


def _takes_over_cells(state: ClusterState, gang: Gang, found: Found) -> bool:
    """Return whether each device of a placement is in a cell that its virtual cluster has bound
    there, so that it can be accounted to the preemptor as it is to the victim."""
    cells = state.cells
    chains = set[str]()
    for _, task in found.tasks:
        for uuid in task.gpu_uuids:
            leaf = cells.leaves.get((task.node, uuid))
            bound = leaf.accounted if leaf is not None and leaf.holder is None else None
            if bound is None or (bound.vc, bound.root.pin) != (gang.vc, gang.pin):
                return False
            if bound.root.spec.type != task.cell_type:
                return False
            chains.add(bound.shape.chain)
    return not found.cancels and all(cells.chains[chain].is_safe() for chain in chains)


def _takes_from_all(found: Found, victims: Collection[Allocation]) -> bool:
    """Note the victims, if each of them has some of the GPUs that were found. The preemptor takes
    over the cells of its victims: one that has none of them would leave in vain."""
    wanted = {uuid for _, task in found.tasks for uuid in task.gpu_uuids}
    for victim in victims:
        overlap = [uuid for task in victim.tasks for uuid in task.gpu_uuids if uuid in wanted]
        if not overlap:
            return False
        found.victims[victim.gang.id] = overlap
    return True
