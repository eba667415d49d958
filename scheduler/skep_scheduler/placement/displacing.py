"""Displacing: whose places a gang may have, by the order of the policy of their virtual cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain

from skep_scheduler.model import Allocation, Gang, Placement
from skep_scheduler.placement.base import Answer, Found
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
        self._ranks: dict[str, Rank] = {}
        self._chains: dict[str, frozenset[str]] = {}  # by node

    def find(self, gang: Gang, kind: Kind, decision: Decision, search: Search) -> Found | None:
        """Find places for a gang on those of running gangs of its virtual cluster that come later
        in the order of a policy, or that yield to it as the policy says, for a policy that
        displaces. None: that would not be enough.

        Those that leave anyway go first and then the first that yields, until the gang fits; of
        these as many stay as it fits beside, the last that would yield before the others, so that
        none leaves without need. Gangs on other GPU models than it may have do not matter.
        `search` finds places without those on some excluded nodes."""
        state = self._state
        later = self._yielding(gang, decision)

        def fits() -> bool:
            return isinstance(search(()), Found)

        enough = self._enough(later, _chains_for(state, kind), fits)
        victims = _needed(state, enough[::-1], fits, known_not_to_fit=True)
        if not victims:
            return None

        def found_without(excluded: Collection[str]) -> Answer:
            with state.trial():
                _release(state, victims)
                return search(excluded)

        first = found_without(())
        others = (found_without(excluded) for excluded in _exclusions(state, victims, first))
        for answer in chain([first], others):
            if (
                isinstance(answer, Found)
                and _takes_from_all(answer, victims)
                and _can_be_reserved(state, gang, answer)
            ):
                return answer
        return None

    def _yielding(self, gang: Gang, decision: Decision) -> Sequence[Allocation]:
        """Return the gangs whose places a waiting one may take, the first to leave first."""
        state = self._state
        running = [state.running[gang_id] for gang_id in state.running_of[gang.vc]]
        turn = dict[str, int]()
        if decision.yielding is not None:
            turn = {gang_id: n for n, gang_id in enumerate(decision.yielding(gang))}
            if not turn:
                return []
            running = [one for one in running if one.leaving or one.gang.id in turn]
        able = [
            one
            for one in running
            if (one.leaving or one.gang.preemptible)
            and one.gang.priority <= gang.priority
            and state.is_guaranteed(one.gang.id)
        ]
        order = decision.order
        if decision.yielding is None:
            mine, ranks = order(gang), self._ranks
            for one in able:
                if one.gang.id not in ranks:
                    ranks[one.gang.id] = order(one.served(self._now))
            later = [one for one in able if ranks[one.gang.id] > mine]
            later.sort(key=lambda one: (one.leaving, ranks[one.gang.id]), reverse=True)
        else:
            later = able
            later.sort(key=lambda one: (not one.leaving, turn.get(one.gang.id, 0), order(one.gang)))
        return later

    def _enough(
        self,
        gangs: Sequence[Allocation],
        chains: Collection[str] | None,
        fits: Callable[[], bool],
    ) -> Sequence[Allocation]:
        """Return the first gangs in these chains without which it fits, up to twice as many as it
        takes; none if all of them are too few."""
        done, more, freed = 0, 1, list[Allocation]()
        with self._state.trial():
            while done < len(gangs):
                some = gangs[done : done + more]
                if chains is not None:
                    some = [one for one in some if self._is_in(one, chains)]
                done, more = min(done + more, len(gangs)), more * 2
                if some:
                    _release(self._state, some)
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


def _needed(
    state: ClusterState,
    gangs: Sequence[Allocation],
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
    with state.trial():
        _release(state, gangs[half:])
        first = _needed(state, gangs[:half], fits)
    with state.trial():
        _release(state, first)
        return first + _needed(state, gangs[half:], fits, known_not_to_fit=not first)


def _release(state: ClusterState, gangs: Iterable[Allocation]) -> None:
    state.allocations.release_all([allocation.gang.id for allocation in gangs])


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
    placement = Placement(gang.id, tuple(task for _, task in found.tasks))
    with state.trial():
        for other in found.cancels:
            state.allocations.release(other)
        return state.allocations.reserve(gang, held(gang, placement))


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
