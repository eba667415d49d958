"""What must hold throughout a simulated run, checked while it runs.

The checks count beside what they check. A run that breaks one ends at once, with the moment and the
sentence (`RunInvariantError`): a figure of it would be worth nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from skep_scheduler.inventory.check import check as check_claims
from skep_scheduler.model import InvariantError
from skep_scheduler.simulator.pools import GpuPool, Place
from skep_scheduler.state import ClusterState

US = 1_000_000
MOST_SENTENCES = 10  # of an error
LEAST_CHANGES = 64  # between two checks of a whole state


class RunInvariantError(InvariantError):
    """Raised when an invariant stops holding in a run. `moment_s`: when, in seconds on the clock of
    the run; None: it was found when the run was over."""

    def __init__(self, violations: Sequence[str], moment_s: float | None = None) -> None:
        super().__init__(list(violations[:MOST_SENTENCES]))
        self.moment_s = moment_s


def require(holds: bool, sentence: str, moment_s: float | None = None) -> None:
    """Raise `RunInvariantError` unless an invariant holds."""
    if not holds:
        raise RunInvariantError([sentence], moment_s)


class NodeUse:
    """Counts the GPUs in use of each node of a pool, beside the pool that gives them."""

    def __init__(self, pool: GpuPool) -> None:
        self._pool = pool
        self._left = list(pool.sizes)
        self._free = sum(self._left)

    def take(self, job_id: str, gpus: int, place: Place, now_us: int) -> None:
        """Count the place of a job. Raises `RunInvariantError` if a node has fewer GPUs left, or
        the place has another number of GPUs than the job asks for."""
        left = self._left
        for node, some in place:
            left[node] -= some
            gpus -= some
            if some < 1 or left[node] < 0:
                size = self._pool.sizes[node]
                sentence = f"{job_id} gets {some} GPUs of node {node}, where {size - left[node]} "
                raise RunInvariantError(
                    [f"{sentence}would be in use of the {size} that it has."], now_us / US
                )
            self._free -= some
        if gpus:
            sentence = f"{job_id} gets {gpus} GPUs fewer than it asks for: {place}."
            raise RunInvariantError([sentence], now_us / US)

    def give_back(self, place: Place) -> None:
        """Count the place of a job that leaves or ends."""
        for node, some in place:
            self._left[node] += some
            self._free += some

    def agree(self, now_us: int) -> None:
        """Raise `RunInvariantError` unless the pool has as many free GPUs as jobs leave."""
        if self._pool.free != self._free:
            sentence = f"The pool has {self._pool.free} free GPUs, its jobs leave {self._free}."
            raise RunInvariantError([sentence], now_us / US)


class GangLife(Protocol):
    """What became of a gang so far."""

    @property
    def ended_at(self) -> float | None: ...


class StateChecks:
    """Checks the state of the live engine at each decision of a run.

    What changed since the decision before is checked at once: these gangs, their GPUs with all
    cells that contain them, and HiveD's safety of each chain. The whole state is checked when as
    many gangs changed as the cluster has GPUs, and at the end: the cost for each change does not
    grow with the cluster. The state reports its changes (`ClusterState.follow_by`).
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._changed: set[str] = set()
        self._changes = 0
        self._all = True
        self._held: dict[str, tuple[tuple[str, str], ...]] = {}  # (node, UUID), by gang
        self._holder: dict[str, str] = {}  # the gang, by UUID
        self._nodes_of: dict[str, set[str]] = {}  # where each GPU is or was, by UUID
        self._found: set[str] = set()  # gangs that ran before the run began, wherever that was
        state.follow_by(self)

    def touch(self, gang_id: str) -> None:
        """Note that a fact about a gang changed."""
        self._changed.add(gang_id)
        self._changes += 1

    def touch_vc(self, name: str) -> None:
        """The gangs of it that changed are reported by themselves."""

    def touch_places(self) -> None:
        """What it changes of cells is looked at with the gangs there, and as a whole later."""

    def touch_all(self) -> None:
        """Note that the inventory changed."""
        self._all = True

    def resumed(self, gang_id: str) -> None:
        """Note a gang that ran before the run began: live nodes may have changed below it."""
        self._found.add(gang_id)

    def decided(self, lives: Mapping[str, GangLife], now: float) -> None:
        """Check what changed. To be called between a plan and carrying it out. Raises
        `RunInvariantError`."""
        if self._all or self._changes >= max(len(self._state.models), LEAST_CHANGES):
            self.whole(lives, now)
            return
        changed, self._changed = self._changed, set()
        self._raise([*self._lives(changed, lives), *self._places(changed)], now)

    def whole(self, lives: Mapping[str, GangLife], now: float) -> None:
        """Check the whole state. Raises `RunInvariantError`."""
        state, found = self._state, []
        if self._all:
            for node in state.nodes.values():
                for device in node.devices:
                    self._nodes_of.setdefault(device.uuid, set()).add(node.name)
            left = check_claims(state.built, state.inventory).left
            found += [
                f"{one.chain}: virtual clusters own {-one.left} {one.type} more than there are."
                for one in left
                if one.left < 0
            ]
        try:
            state.validate()
        except InvariantError as error:
            found += error.violations
        changed, self._changed = self._changed, set()
        found += [*self._lives(lives, lives), *self._places(changed)]
        self._changes, self._all = 0, False
        self._raise(found, now)

    def _raise(self, found: Sequence[str], now: float) -> None:
        if found:
            raise RunInvariantError(list(dict.fromkeys(found)), now)

    def _lives(self, gang_ids: Collection[str], lives: Mapping[str, GangLife]) -> list[str]:
        """A gang that ended is gone, and no other one is in two states."""
        found, state = [], self._state
        for gang_id in gang_ids:
            there = (gang_id in state.waiting) + (gang_id in state.running)
            life = lives.get(gang_id)
            if there > 1:
                found.append(f"{gang_id} runs and waits at the same time.")
            elif there and life is not None and life.ended_at is not None:
                found.append(f"{gang_id} ended, and is still there.")
        return found

    def _places(self, changed: Collection[str]) -> list[str]:
        """No GPU has two gangs, and each is on the node that its place names."""
        state, found, touched = self._state, [], set()
        for gang_id in changed:
            for node, uuid in self._held.pop(gang_id, ()):
                touched.add((node, uuid))
                if self._holder.get(uuid) == gang_id:
                    del self._holder[uuid]
        for gang_id in sorted(changed):
            allocation = state.running.get(gang_id)
            if allocation is None:
                continue
            places = tuple(
                (task.node, uuid) for task in allocation.tasks for uuid in task.gpu_uuids
            )
            self._held[gang_id] = places
            touched.update(places)
            for node, uuid in places:
                other = self._holder.setdefault(uuid, gang_id)
                if self._found and not self._found.isdisjoint((gang_id, other)):
                    continue
                if other != gang_id:
                    found.append(f"{gang_id} and {other} have the same GPU {uuid}.")
                # Who runs on a node that is taken away stays there until its attempt is over.
                if node not in self._nodes_of.get(uuid, ()):
                    found.append(f"{gang_id} has GPU {uuid} on {node}, which never had it.")
        found += state.violations_around(changed, touched)
        return found
