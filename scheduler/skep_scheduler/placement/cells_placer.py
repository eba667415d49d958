"""Where a gang can go: cells first, then CPU and memory on their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from skep_scheduler.cells import ledger
from skep_scheduler.cells.answer import CellPlacement, CellPreemption, CellTaskPlacement, Refusal
from skep_scheduler.cells.place import place
from skep_scheduler.model import Code, Gang, Member, Options, TaskPlacement
from skep_scheduler.placement.base import Answer, Found, Short, Task
from skep_scheduler.state import ClusterState
from skep_scheduler.state.node_resources import NOTHING, NodeResources, Resources
from skep_scheduler.state.request_classes import Kind, Part, name_of, owner_of, sub_gang_of


def find(
    state: ClusterState,
    gang: Gang,
    kind: Kind,
    tries: int,
    tasks: Collection[Task] | None = None,
    excluded: Collection[str] = (),
) -> Answer:
    """Find places for the whole gang, or for one task of an incremental one, on none of the
    `excluded` nodes. The state stays as it was.

    Nodes without enough CPU or memory are avoided and it is tried again; only if that does not help
    those are preempted who use more of it than comes with their GPUs.
    """
    wanted = tasks_of(kind) if tasks is None else list(tasks)
    avoid = set(excluded)
    shorts: list[Short] = []
    while len(shorts) < tries:
        answer = _Attempt(state, gang, kind, wanted, avoid, excluded).run()
        if not isinstance(answer, Short):
            if isinstance(answer, Found) or not shorts:
                return answer
            break
        shorts.append(answer)
        if not answer.nodes:
            break
        avoid |= answer.nodes.keys() | _too_full(state, kind, wanted)
    if not kind.opportunistic:
        answer = _Attempt(
            state, gang, kind, wanted, excluded, excluded, preempt_overcommit=True
        ).run()
        if isinstance(answer, Found):
            return answer
    return _lacks_resources(state, kind, wanted, shorts)


def tasks_of(kind: Kind) -> list[Task]:
    return [(i, n) for i, member in enumerate(kind.members) for n in range(member.count)]


def unplaced(state: ClusterState, gang: Gang, kind: Kind, now: float) -> Sequence[Task]:
    """Return the tasks of an incremental gang that may be placed now."""
    allocation = state.running.get(gang.id)
    if allocation is None:
        return within_parallelism(gang, tasks_of(kind), {})
    positions = {member.role: i for i, member in enumerate(gang.members)}
    later = {(role, index) for role, index, moment in allocation.delays if moment > now}
    due = (task for task in allocation.unplaced if task not in later)
    running = Counter(positions[task.role] for task in allocation.tasks)
    tasks = sorted((positions[role], index) for role, index in due)
    return within_parallelism(gang, tasks, running)


def within_parallelism(gang: Gang, tasks: Sequence[Task], held: Mapping[int, int]) -> list[Task]:
    """Return the first tasks of each role that may start beside those that hold places (`held`,
    by the position of the role)."""
    left = {
        position: member.parallelism - held.get(position, 0)
        for position, member in enumerate(gang.members)
        if member.parallelism is not None
    }
    allowed = []
    for task in tasks:
        if task[0] in left:
            left[task[0]] -= 1
            if left[task[0]] < 0:
                continue
        allowed.append(task)
    return allowed


class _Attempt:
    def __init__(
        self,
        state: ClusterState,
        gang: Gang,
        kind: Kind,
        wanted: list[Task],
        avoid: Collection[str],
        excluded: Collection[str],
        preempt_overcommit: bool = False,
    ) -> None:
        self._state, self._gang, self._kind, self._wanted = state, gang, kind, wanted
        self._avoid, self._excluded, self._preempt_overcommit = avoid, excluded, preempt_overcommit
        self._found = Found()
        self._needs: dict[str, Resources] = {}

    def run(self) -> Answer | Short:
        try:
            refusal = self._place_parts()
            if refusal is not None:
                return refusal
            self._check_resources()
            self._place_bare()
        except Short as short:
            return short
        self._found.tasks.sort(key=lambda task: (task[0], task[1].index))
        return self._found

    def _place_parts(self) -> Refusal | None:
        parts = self._kind.parts
        if self._kind.incremental:
            parts = tuple(part for part in parts if part.positions[0] == self._wanted[0][0])
        with self._state.allocations.trial():
            for number, part in enumerate(parts, 1):
                refusal = self._part(part, last=number == len(parts))
                if refusal is not None:
                    return refusal
        return None

    def _part(self, part: Part, last: bool) -> Refusal | None:
        """Where later parts are to be placed beside it, it is put on the cells for a try."""
        state = self._state.allocations.cells
        refusals: list[Refusal] = []
        for asked in part.asked:
            answer = place(state, asked, self._avoid)
            if not isinstance(answer, Refusal):
                self._take(part, answer)
                if not last:
                    name = name_of(self._gang, part.label, 0)
                    placement = answer if isinstance(answer, CellPlacement) else answer.placement
                    ledger.reserve(state, sub_gang_of(self._gang, name), placement)
                return None
            refusals.append(answer)
        return refusals[0]

    def _take(self, part: Part, answer: CellPlacement | CellPreemption) -> None:
        found, groups = self._found, self._state.allocations.cells.groups
        if isinstance(answer, CellPreemption):
            for victim in answer.victims:
                wanted = found.victims.setdefault(owner_of(groups[victim.gang]), [])
                wanted += [str(device) for _, device in victim.overlap]
            placement = answer.placement
        else:
            placement = answer
        found.downgrades |= dict.fromkeys(owner_of(groups[g]) for g in placement.downgrades)
        found.cancels |= dict.fromkeys(owner_of(groups[g]) for g in placement.cancels)
        self._take_spots(part, placement.tasks)

    def _take_spots(self, part: Part, placements: Sequence[CellTaskPlacement]) -> None:
        indices = self._indices(part.positions)
        for placed in placements:
            position = part.positions[placed.member]
            uuids = tuple(str(device) for device in placed.devices)
            self._assign(position, next(indices[position]), placed.node, uuids, placed.cell_type)

    def _indices(self, positions: Sequence[int]) -> dict[int, Iterator[int]]:
        """The task numbers that each member has to give away."""
        return {p: iter([i for q, i in self._wanted if q == p]) for p in positions}

    def _assign(
        self, position: int, index: int, node: str, uuids: tuple[str, ...] = (), cell_type: str = ""
    ) -> None:
        member = self._gang.members[position]
        model = self._state.models.get(uuids[0]) if uuids else None
        task = TaskPlacement(member.role, index, node, uuids, model, cell_type)
        self._found.tasks.append((position, task))
        amount = Resources(member.cpu_millis, member.memory_mb, len(uuids))
        self._needs[node] = self._needs.get(node, NOTHING).plus(amount)

    def _check_resources(self) -> None:
        """Raises `Short`."""
        short: dict[str, Code] = {}
        for node, need in self._needs.items():
            free = self._free(node)
            if free.covers(need):
                continue
            if not (self._preempt_overcommit and self._preempt(node, need, free)):
                short[node] = Code.MEMORY_BUSY if free.has_cpu(need) else Code.CPU_BUSY
        if short:
            raise Short(short)

    def _free(self, node: str) -> Resources:
        """With what the victims that are chosen already leave behind."""
        resources = self._state.allocations.resources.nodes[node]
        free = resources.free
        for victim in (*self._found.victims, *self._found.overcommitters):
            free = free.plus(resources.users.get(victim, NOTHING))
        return free

    def _preempt(self, node: str, need: Resources, free: Resources) -> bool:
        """Takes back what others borrow, if the gang stays within its shares here."""
        resources = self._state.allocations.resources.nodes[node]
        lacks_cpu, lacks_memory = not free.has_cpu(need), not free.has_memory(need)
        share = resources.fair_share(need.gpus)
        if (lacks_cpu and not share.has_cpu(need)) or (lacks_memory and not share.has_memory(need)):
            return False
        chosen = []
        for gang_id in self._overcommitters(resources, lacks_cpu, lacks_memory):
            chosen.append(gang_id)
            free = free.plus(resources.users[gang_id])
            if free.covers(need):
                cause = "cpu" if lacks_cpu else "memory"
                self._found.overcommitters |= dict.fromkeys(chosen, cause)
                return True
        return False

    def _overcommitters(self, resources: NodeResources, cpu: bool, memory: bool) -> list[str]:
        """Who leaves already, then opportunistic gangs, then who has borrowed the most."""
        ranked = []
        chosen = self._found.victims.keys() | self._found.overcommitters.keys()
        for gang_id in resources.users:
            allocation = self._state.running.get(gang_id)
            if allocation is None or gang_id in chosen or gang_id == self._gang.id:
                continue
            borrowed = resources.overcommit(gang_id)
            much = borrowed.cpu_millis * cpu, borrowed.memory_mb * memory
            if any(much):
                guaranteed = self._state.is_guaranteed(gang_id)
                ranked.append((not allocation.leaving, guaranteed, -much[0], -much[1], gang_id))
        return [gang_id for *_, gang_id in sorted(ranked)]

    def _place_bare(self) -> None:
        """Tasks without GPUs: beside the gang's others, else where the least is left over."""
        for position in self._kind.bare:
            left = [index for p, index in self._wanted if p == position]
            member = self._gang.members[position]
            need = Resources(member.cpu_millis, member.memory_mb)
            while left:
                node = self._node_for(need)
                while left and self._free_beside(node).covers(need):
                    self._assign(position, left.pop(0), node)

    def _node_for(self, need: Resources) -> str:
        """Raises `Short`."""
        for node in self._needs:
            if self._free_beside(node).covers(need):
                return node
        nodes = self._state.allocations.resources.open_nodes()
        fits = [
            (resources.total.gpus > 0, resources.free.cpu_millis, resources.free.memory_mb, name)
            for name, resources in nodes
            if resources.free.covers(need)
            and name not in self._needs
            and name not in self._excluded
        ]
        if not fits:
            raise Short({})
        return min(fits)[-1]

    def _free_beside(self, node: str) -> Resources:
        return self._free(node).minus(self._needs.get(node, NOTHING))


def _too_full(state: ClusterState, kind: Kind, wanted: Sequence[Task]) -> set[str]:
    """Return the nodes on which none of the tasks with GPUs would fit."""
    members = [kind.members[p] for p in {p for p, _ in wanted} if p not in kind.bare]
    least = Resources(min(m.cpu_millis for m in members), min(m.memory_mb for m in members))
    nodes = state.allocations.resources.open_nodes()
    return {name for name, resources in nodes if not resources.free.covers(least)}


def _lacks_resources(
    state: ClusterState, kind: Kind, wanted: Sequence[Task], shorts: Sequence[Short]
) -> Refusal:
    """Say what is short for whom: a member that fits on no node, or not as often as it is wanted
    on all of them together, else the first one."""
    nodes = [resources for _, resources in state.allocations.resources.open_nodes()]
    numbers = Counter(position for position, _ in wanted)
    needs = [_need(kind.members[position]) for position in sorted(numbers)]
    for need in needs:
        if not any(resources.total.covers(need) for resources in nodes):
            return _refusal(Code.NEVER_FITS_NODE, need, nodes)
    for position in kind.bare:
        need, number = _need(kind.members[position]), numbers[position]
        fits = sum(_times(resources.total, need) for resources in nodes)
        if number > fits:
            return _refusal(Code.NEVER_FITS_CLUSTER, need, nodes, fits=fits)
    codes = Counter(code for short in shorts for code in short.nodes.values())
    if codes:
        code = codes.most_common(1)[0][0]
        return _refusal(code, _most(needs, code), nodes)
    # Tasks without GPUs found no node: report the resource of which too little is free.
    for position in kind.bare:
        need, number = _need(kind.members[position]), numbers[position]
        cpu_alone = need._replace(memory_mb=0)
        if number and sum(_times(resources.free, cpu_alone) for resources in nodes) < number:
            return _refusal(Code.CPU_BUSY, need, nodes)
    return _refusal(Code.MEMORY_BUSY, _most(needs, Code.MEMORY_BUSY), nodes)


def _need(member: Member) -> Resources:
    return Resources(member.cpu_millis, member.memory_mb, member.gpus)


def _most(needs: Sequence[Resources], code: Code) -> Resources:
    """Return the need that asks for the most of what is short."""
    cpu = code == Code.CPU_BUSY
    return max(needs, key=lambda need: need.cpu_millis if cpu else need.memory_mb)


def _times(amount: Resources, need: Resources) -> int:
    """Return how many tasks of this need fit into an amount."""
    cpu = amount.cpu_millis // need.cpu_millis if need.cpu_millis else MANY
    memory = amount.memory_mb // need.memory_mb if need.memory_mb else MANY
    return max(min(cpu, memory), 0)


def _refusal(
    code: Code, need: Resources, nodes: Sequence[NodeResources], **details: int
) -> Refusal:
    numbers = {
        "task": {"gpus": need.gpus, "cpu_millis": need.cpu_millis, "memory_mb": need.memory_mb},
        "largest_free": _largest((resources.free for resources in nodes), need),
        "largest_node": _largest((resources.total for resources in nodes), need),
        **details,
    }
    return Refusal(code, "", numbers)


def _largest(amounts: Iterable[Resources], need: Resources) -> dict[str, int]:
    """Return the amount of one node that comes closest to the need. Its CPU and its memory are
    those of the same node: the most CPU of one and the most memory of another help no task."""

    def share(amount: Resources) -> tuple[float, int, int]:
        cpu = amount.cpu_millis / need.cpu_millis if need.cpu_millis else 1.0
        memory = amount.memory_mb / need.memory_mb if need.memory_mb else 1.0
        return min(cpu, memory, 1.0), amount.cpu_millis, amount.memory_mb

    most = max(amounts, key=share, default=NOTHING)
    return {"cpu_millis": most.cpu_millis, "memory_mb": most.memory_mb}


MANY = 1 << 30
# What counts as the length of a gang that says nothing of it and has no prediction: such gangs are
# kept away from a node in the last hour before its maintenance.
UNKNOWN_RUN_S = 3600.0
OWN_REFUSALS = frozenset({Code.NODE_EXCLUDED, Code.MAINTENANCE})
LACKS_RESOURCES = frozenset(
    {Code.CPU_BUSY, Code.MEMORY_BUSY, Code.NEVER_FITS_NODE, Code.NEVER_FITS_CLUSTER}
)


def meets_maintenance(state: ClusterState, gang: Gang, found: Found, now: float) -> bool:
    """Return whether the maintenance of a node begins before a gang would be done there."""
    windows = (state.nodes[node].maintenance for node in _nodes(found) & state.nodes.keys())
    return any(window is not None and _meets(window, gang, now) for window in windows)


def _meets(window: tuple[float, float], gang: Gang, now: float) -> bool:
    expected = gang.expected_s if gang.duration_s is None else gang.duration_s
    start, until = window
    return start < now + (UNKNOWN_RUN_S if expected is None else expected) and until > now


class NodeExclusion:
    """For the length of a tick."""

    def __init__(self, state: ClusterState, now: float, options: Options) -> None:
        self._state, self._now, self._options = state, now, options
        self._known: dict[object, bool] = {}
        self._windows = {
            name: node.maintenance for name, node in state.nodes.items() if node.maintenance
        }

    def closing(self, gang: Gang) -> frozenset[str]:
        """Return the nodes whose maintenance begins before the gang would be done."""
        if not self._windows:
            return frozenset()
        return frozenset(
            node for node, window in self._windows.items() if _meets(window, gang, self._now)
        )

    def find(self, gang: Gang, kind: Kind, tasks: Collection[Task] | None = None) -> Answer:
        """Find places as `find` does. A refusal with a code of OWN_REFUSALS is this gang's alone;
        all others are true of any gang of its kind."""
        closing = self.closing(gang)
        found = self._find(gang, kind, tasks, closing)
        if not closing or isinstance(found, Found):
            return found
        without = self._find(gang, kind, tasks, frozenset())
        if isinstance(without, Refusal):
            return without
        nodes = sorted(closing & _nodes(without)) or sorted(closing)
        at = min(self._windows[node][0] for node in nodes)
        until = max(self._windows[node][1] for node in nodes)
        return Refusal(Code.MAINTENANCE, "", {"closing": nodes[:20], "at": at, "until": until})

    def outside(self, gang: Gang, kind: Kind, others: Collection[str]) -> Answer:
        """Find places on none of the nodes that the gang avoids, nor on those `others`."""
        excluded = {*gang.avoids(self._now), *self.closing(gang), *others}
        return find(self._state, gang, kind, self._options.placement_tries, None, excluded)

    def _find(
        self, gang: Gang, kind: Kind, tasks: Collection[Task] | None, closing: frozenset[str]
    ) -> Answer:
        tries = self._options.placement_tries
        found = find(self._state, gang, kind, tries, tasks, closing)
        avoids = gang.avoids(self._now)
        if isinstance(found, Refusal) or not (wanted := avoids.keys() & _nodes(found)):
            return found
        other = find(self._state, gang, kind, tries, tasks, avoids.keys() | closing)
        if isinstance(other, Found) and (_preempts(found) or not _preempts(other)):
            return other
        if not self._is_there(gang, kind, tasks, closing.union(avoids)):
            return found
        until = max(avoids[node] for node in wanted)
        return Refusal(Code.NODE_EXCLUDED, "", {"avoids": sorted(wanted), "until": until})

    def _is_there(
        self, gang: Gang, kind: Kind, tasks: Collection[Task] | None, avoids: frozenset[str]
    ) -> bool:
        """Whether it would have a place elsewhere if nothing else ran."""
        key = (kind, avoids, None if tasks is None else tuple(tasks))
        if key not in self._known:
            allocations = self._state.allocations
            with allocations.trial():
                for other in list(allocations.tasks):
                    allocations.release(other)
                found = find(self._state, gang, kind, 1, tasks, avoids)
            self._known[key] = isinstance(found, Found)
        return self._known[key]


def _nodes(found: Found) -> set[str]:
    return {task.node for _, task in found.tasks}


def _preempts(found: Found) -> bool:
    return bool(found.victims or found.overcommitters)
