"""Resizes: which running gangs leave now so that they start again at the size that their policy
wants, such that each of them finds its places as soon as all have left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from skep_scheduler.backfill.admission import put
from skep_scheduler.cells.answer import Refusal
from skep_scheduler.model import Code, Gang, Placement, Resize
from skep_scheduler.placement.base import Found
from skep_scheduler.placement.cells_placer import NodeExclusion
from skep_scheduler.policies.base import Decision, WantedSize
from skep_scheduler.policies.sized import fallbacks
from skep_scheduler.state import ClusterState
from skep_scheduler.state.cluster import held

Fit = Callable[[Gang], Found | None]
NO_SIZE = Refusal(Code.NO_SIZE, "", {})  # one for all, so that gangs of a kind have one reason


def leaves_any(state: ClusterState, vc: str) -> bool:
    """Return whether any gang of a virtual cluster is about to give back its places."""
    return any(state.running[gang_id].leaving for gang_id in state.running_of.get(vc, ()))


def fewer(state: ClusterState, gang: Gang, tasks: int) -> Iterator[Gang]:
    """Yield a waiting gang with fewer tasks than so many, unless places of its virtual cluster are
    about to become free."""
    if not leaves_any(state, gang.vc):
        for number in fallbacks(gang, tasks):
            yield gang.resized(number)


def of(state: ClusterState, vc: str, decision: Decision, exclusion: NodeExclusion) -> list[Resize]:
    """Return the resizes of a virtual cluster to be asked for now: none while a gang of it leaves,
    as what it gives back may be meant for another one.

    All of it is tried as it will be when all have left: gangs that shrink, then those that wait,
    then those that grow. One that would not find the places to grow grows less, or stays; and none
    shrinks where that helps no other one."""
    if leaves_any(state, vc):
        return []

    def fit(gang: Gang) -> Found | None:
        answer = exclusion.find(gang, state.kind_as_asked(gang))
        if isinstance(answer, Refusal) or answer.victims or answer.overcommitters:
            return None
        return None if answer.cancels or answer.downgrades else answer

    shrink: list[Resize] = []
    grow: list[Resize] = []
    with state.trial():
        for wanted in (one for one in decision.wanted_sizes if one.tasks < one.held):
            shrink += _try(state, wanted, [wanted.tasks], decision.label, fit)
        started = _place_waiting(state, vc, decision, fit)
        for wanted in (one for one in decision.wanted_sizes if one.tasks > one.held):
            less = [n for n in fallbacks(wanted.gang, wanted.tasks) if n > wanted.held]
            grow += _try(state, wanted, [wanted.tasks, *less], decision.label, fit)
    return [*shrink, *grow] if started or grow else []


def _try(
    state: ClusterState, wanted: WantedSize, sizes: Sequence[int], label: str, fit: Fit
) -> list[Resize]:
    gang, allocation = wanted.gang, state.running[wanted.gang.id]
    before = gang.resized(wanted.held)
    state.allocations.release(gang.id)
    for tasks in sizes:
        after = gang.resized(tasks)
        if not tasks:
            return [Resize(gang.id, wanted.held, 0, before.gpus, 0, label)]
        if (places := fit(after)) is not None:
            _put_anew(state, after, places)
            return [Resize(gang.id, wanted.held, tasks, before.gpus, after.gpus, label)]
    state.allocations.put(allocation.gang, allocation.tasks)
    return []


def _place_waiting(state: ClusterState, vc: str, decision: Decision, fit: Fit) -> int:
    """Put the gangs that wait, and for which others shrink, where they will start. Return how many
    these are."""
    waiting = [
        gang
        for gang in state.waiting.values()
        if gang.vc == vc and not gang.opportunistic and gang.id not in state.allocations.tasks
    ]
    started = 0
    for gang in sorted(waiting, key=decision.rank):
        tasks = decision.tasks_of(gang) if decision.tasks_of is not None else None
        if tasks == 0 or gang.incremental:
            continue
        sized = gang.resized(tasks) if tasks else gang
        if (places := fit(sized)) is not None:
            put(state, sized, [places])
            started += 1
    return started


def _put_anew(state: ClusterState, gang: Gang, places: Found) -> None:
    """Put a running gang onto other places than it has."""
    tasks = tuple(task for _, task in places.tasks)
    state.allocations.put(gang, held(gang, Placement(gang.id, tasks)))
