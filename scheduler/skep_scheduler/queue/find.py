"""Where a gang can go: cells first, then room for CPU and memory on their nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from skep_scheduler.answer import TaskPlacement
from skep_scheduler.cells import answer as cells
from skep_scheduler.cells import ledger
from skep_scheduler.cells.place import place
from skep_scheduler.facts import Gang, Member
from skep_scheduler.queue.codes import Code
from skep_scheduler.world import World
from skep_scheduler.world.request import Kind, Part, name_of, owner_of, piece_of
from skep_scheduler.world.room import NOTHING, Amount, NodeRoom

Task = tuple[int, int]  # position of the member in the gang, index within the role


@dataclass(slots=True)
class Found:
    """Places for tasks (by the position of the member), and by gang id what is done to others.

    victims: they must go first, with the GPUs that are wanted of them
    borrowers: they must go first, too: "cpu" or "memory" is wanted of them
    downgrades, cancels: see `cells.answer.Placement`
    """

    tasks: list[tuple[int, TaskPlacement]] = field(default_factory=list)
    victims: dict[str, list[str]] = field(default_factory=dict)
    borrowers: dict[str, str] = field(default_factory=dict)
    downgrades: dict[str, None] = field(default_factory=dict)
    cancels: dict[str, None] = field(default_factory=dict)


class Short(Exception):
    """Nodes that lack CPU or memory for what is to go there; none: every node does."""

    def __init__(self, nodes: Mapping[str, Code]) -> None:
        super().__init__()
        self.nodes = nodes


Answer = Found | cells.Refusal


def find(
    world: World,
    gang: Gang,
    kind: Kind,
    tries: int,
    tasks: Collection[Task] | None = None,
    shun: Collection[str] = (),
) -> Answer:
    """For the whole gang, or for one task of an incremental one, on none of the nodes in `shun`.
    The world stays as it was.

    Nodes without enough CPU or memory are avoided and it is tried again; only if that does not help
    those are preempted who use more of it than comes with their GPUs.
    """
    wanted = tasks_of(kind) if tasks is None else list(tasks)
    avoid = set(shun)
    shorts: list[Short] = []
    while len(shorts) < tries:
        answer = _Attempt(world, gang, kind, wanted, avoid, shun).run()
        if not isinstance(answer, Short):
            if isinstance(answer, Found) or not shorts:
                return answer
            break
        shorts.append(answer)
        if not answer.nodes:
            break
        avoid |= answer.nodes.keys() | _too_full(world, kind, wanted)
    if not kind.opportunistic:
        answer = _Attempt(world, gang, kind, wanted, shun, shun, preempt_room=True).run()
        if isinstance(answer, Found):
            return answer
    return _lacks_room(world, kind, wanted, shorts)


def tasks_of(kind: Kind) -> list[Task]:
    return [(i, n) for i, member in enumerate(kind.members) for n in range(member.count)]


class _Attempt:
    def __init__(
        self,
        world: World,
        gang: Gang,
        kind: Kind,
        wanted: list[Task],
        avoid: Collection[str],
        shun: Collection[str],
        preempt_room: bool = False,
    ) -> None:
        self._world, self._gang, self._kind, self._wanted = world, gang, kind, wanted
        self._avoid, self._shun, self._preempt_room = avoid, shun, preempt_room
        self._found = Found()
        self._needs: dict[str, Amount] = {}

    def run(self) -> Answer | Short:
        try:
            refusal = self._place_parts()
            if refusal is not None:
                return refusal
            self._check_room()
            self._place_bare()
        except Short as short:
            return short
        self._found.tasks.sort(key=lambda task: (task[0], task[1].index))
        return self._found

    def _place_parts(self) -> cells.Refusal | None:
        parts = self._kind.parts
        if self._kind.incremental:
            parts = tuple(part for part in parts if part.positions[0] == self._wanted[0][0])
        with self._world.holds.trial():
            for number, part in enumerate(parts, 1):
                refusal = self._part(part, last=number == len(parts))
                if refusal is not None:
                    return refusal
        return None

    def _part(self, part: Part, last: bool) -> cells.Refusal | None:
        """Where later parts are to be placed beside it, it is put on the cells for a try."""
        state = self._world.holds.cells
        refusals: list[cells.Refusal] = []
        for asked in part.asked:
            answer = place(state, asked, self._avoid)
            if not isinstance(answer, cells.Refusal):
                self._take(part, answer)
                if not last:
                    name = name_of(self._gang, part.label, 0)
                    placement = answer if isinstance(answer, cells.Placement) else answer.placement
                    ledger.reserve(state, piece_of(self._gang, name), placement)
                return None
            refusals.append(answer)
        return refusals[0]

    def _take(self, part: Part, answer: cells.Placement | cells.Preemption) -> None:
        found, groups = self._found, self._world.holds.cells.groups
        if isinstance(answer, cells.Preemption):
            for victim in answer.victims:
                wanted = found.victims.setdefault(owner_of(groups[victim.gang]), [])
                wanted += [str(device) for _, device in victim.overlap]
            placement = answer.placement
        else:
            placement = answer
        found.downgrades |= dict.fromkeys(owner_of(groups[g]) for g in placement.downgrades)
        found.cancels |= dict.fromkeys(owner_of(groups[g]) for g in placement.cancels)
        self._take_spots(part, placement.spots)

    def _take_spots(self, part: Part, spots: Sequence[cells.Spot]) -> None:
        indices = self._indices(part.positions)
        for spot in spots:
            position = part.positions[spot.member]
            uuids = tuple(str(device) for device in spot.devices)
            self._seat(position, next(indices[position]), spot.node, uuids, spot.cell_type)

    def _indices(self, positions: Sequence[int]) -> dict[int, Iterator[int]]:
        """The task numbers that each member has to give away."""
        return {p: iter([i for q, i in self._wanted if q == p]) for p in positions}

    def _seat(
        self, position: int, index: int, node: str, uuids: tuple[str, ...] = (), cell_type: str = ""
    ) -> None:
        member = self._gang.members[position]
        model = self._world.models.get(uuids[0]) if uuids else None
        task = TaskPlacement(member.role, index, node, uuids, model, cell_type)
        self._found.tasks.append((position, task))
        amount = Amount(member.cpu_millis, member.memory_mb, len(uuids))
        self._needs[node] = self._needs.get(node, NOTHING).plus(amount)

    def _check_room(self) -> None:
        """Raises `Short`."""
        short: dict[str, Code] = {}
        for node, need in self._needs.items():
            free = self._free(node)
            if free.covers(need):
                continue
            if not (self._preempt_room and self._preempt(node, need, free)):
                short[node] = Code.MEMORY_BUSY if free.has_cpu(need) else Code.CPU_BUSY
        if short:
            raise Short(short)

    def _free(self, node: str) -> Amount:
        """With what the victims that are chosen already leave behind."""
        room = self._world.holds.room.nodes[node]
        free = room.free
        for victim in (*self._found.victims, *self._found.borrowers):
            free = free.plus(room.users.get(victim, NOTHING))
        return free

    def _preempt(self, node: str, need: Amount, free: Amount) -> bool:
        """Takes back what others borrow, if the gang stays within its shares here."""
        room = self._world.holds.room.nodes[node]
        lacks_cpu, lacks_memory = not free.has_cpu(need), not free.has_memory(need)
        share = room.share(need.gpus)
        if (lacks_cpu and not share.has_cpu(need)) or (lacks_memory and not share.has_memory(need)):
            return False
        chosen = []
        for gang_id in self._borrowers(room, lacks_cpu, lacks_memory):
            chosen.append(gang_id)
            free = free.plus(room.users[gang_id])
            if free.covers(need):
                cause = "cpu" if lacks_cpu else "memory"
                self._found.borrowers |= dict.fromkeys(chosen, cause)
                return True
        return False

    def _borrowers(self, room: NodeRoom, cpu: bool, memory: bool) -> list[str]:
        """Who leaves already, then opportunistic gangs, then who has borrowed the most."""
        ranked = []
        chosen = self._found.victims.keys() | self._found.borrowers.keys()
        for gang_id in room.users:
            holding = self._world.running.get(gang_id)
            if holding is None or gang_id in chosen or gang_id == self._gang.id:
                continue
            borrowed = room.borrowed(gang_id)
            much = borrowed.cpu_millis * cpu, borrowed.memory_mb * memory
            if any(much):
                guaranteed = self._world.is_guaranteed(gang_id)
                ranked.append((not holding.leaving, guaranteed, -much[0], -much[1], gang_id))
        return [gang_id for *_, gang_id in sorted(ranked)]

    def _place_bare(self) -> None:
        """Tasks without GPUs: beside the gang's others, else where the least is left over."""
        for position in self._kind.bare:
            left = [index for p, index in self._wanted if p == position]
            member = self._gang.members[position]
            need = Amount(member.cpu_millis, member.memory_mb)
            while left:
                node = self._node_for(need)
                while left and self._free_beside(node).covers(need):
                    self._seat(position, left.pop(0), node)

    def _node_for(self, need: Amount) -> str:
        """Raises `Short`."""
        for node in self._needs:
            if self._free_beside(node).covers(need):
                return node
        rooms = self._world.holds.room.open_nodes()
        fits = [
            (room.total.gpus > 0, room.free.cpu_millis, room.free.memory_mb, name)
            for name, room in rooms
            if room.free.covers(need) and name not in self._needs and name not in self._shun
        ]
        if not fits:
            raise Short({})
        return min(fits)[-1]

    def _free_beside(self, node: str) -> Amount:
        return self._free(node).minus(self._needs.get(node, NOTHING))


def _too_full(world: World, kind: Kind, wanted: Sequence[Task]) -> set[str]:
    """Nodes where none of the tasks with GPUs would find room."""
    members = [kind.members[p] for p in {p for p, _ in wanted} if p not in kind.bare]
    least = Amount(min(m.cpu_millis for m in members), min(m.memory_mb for m in members))
    rooms = world.holds.room.open_nodes()
    return {name for name, room in rooms if not room.free.covers(least)}


def _lacks_room(
    world: World, kind: Kind, wanted: Sequence[Task], shorts: Sequence[Short]
) -> cells.Refusal:
    """Say what is short for whom: a member that fits on no node, or not as often as it is wanted
    on all of them together, else the first one."""
    rooms = [room for _, room in world.holds.room.open_nodes()]
    numbers = Counter(position for position, _ in wanted)
    needs = [_need(kind.members[position]) for position in sorted(numbers)]
    for need in needs:
        if not any(room.total.covers(need) for room in rooms):
            return _refusal(Code.NEVER_FITS_NODE, need, rooms)
    for position in kind.bare:
        need, number = _need(kind.members[position]), numbers[position]
        fits = sum(_times(room.total, need) for room in rooms)
        if number > fits:
            return _refusal(Code.NEVER_FITS_CLUSTER, need, rooms, fits=fits)
    codes = Counter(code for short in shorts for code in short.nodes.values())
    if codes:
        code = codes.most_common(1)[0][0]
        return _refusal(code, _most(needs, code), rooms)
    # Tasks without GPUs found no node: told is the resource of which too little is free.
    for position in kind.bare:
        need, number = _need(kind.members[position]), numbers[position]
        cpu_alone = need._replace(memory_mb=0)
        if number and sum(_times(room.free, cpu_alone) for room in rooms) < number:
            return _refusal(Code.CPU_BUSY, need, rooms)
    return _refusal(Code.MEMORY_BUSY, _most(needs, Code.MEMORY_BUSY), rooms)


def _need(member: Member) -> Amount:
    return Amount(member.cpu_millis, member.memory_mb, member.gpus)


def _most(needs: Sequence[Amount], code: Code) -> Amount:
    """The one that asks for the most of what is short."""
    cpu = code == Code.CPU_BUSY
    return max(needs, key=lambda need: need.cpu_millis if cpu else need.memory_mb)


def _times(amount: Amount, need: Amount) -> int:
    """How many tasks of this need fit into an amount."""
    cpu = amount.cpu_millis // need.cpu_millis if need.cpu_millis else MANY
    memory = amount.memory_mb // need.memory_mb if need.memory_mb else MANY
    return max(min(cpu, memory), 0)


def _refusal(code: Code, need: Amount, rooms: Sequence[NodeRoom], **details: int) -> cells.Refusal:
    told = {
        "task": {"gpus": need.gpus, "cpu_millis": need.cpu_millis, "memory_mb": need.memory_mb},
        "largest_free": _largest((room.free for room in rooms), need),
        "largest_node": _largest((room.total for room in rooms), need),
        **details,
    }
    return cells.Refusal(code, "", told)


def _largest(amounts: Iterable[Amount], need: Amount) -> dict[str, int]:
    """Return the amount of one node that comes closest to the need. Its CPU and its memory are
    those of the same node: the most CPU of one and the most memory of another help nobody."""

    def share(amount: Amount) -> tuple[float, int, int]:
        cpu = amount.cpu_millis / need.cpu_millis if need.cpu_millis else 1.0
        memory = amount.memory_mb / need.memory_mb if need.memory_mb else 1.0
        return min(cpu, memory, 1.0), amount.cpu_millis, amount.memory_mb

    most = max(amounts, key=share, default=NOTHING)
    return {"cpu_millis": most.cpu_millis, "memory_mb": most.memory_mb}


MANY = 1 << 30
