"""CPU and memory of every node: what it has, and who uses how much of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from skep_scheduler.cells.journal import Journal


class Amount(NamedTuple):
    cpu_millis: int
    memory_mb: int
    gpus: int = 0

    def plus(self, other: Amount) -> Amount:
        return Amount(
            self.cpu_millis + other.cpu_millis,
            self.memory_mb + other.memory_mb,
            self.gpus + other.gpus,
        )

    def minus(self, other: Amount) -> Amount:
        return Amount(
            self.cpu_millis - other.cpu_millis,
            self.memory_mb - other.memory_mb,
            self.gpus - other.gpus,
        )

    def covers(self, need: Amount) -> bool:
        """CPU and memory; a need of nothing is covered even where less than nothing is left."""
        return self.has_cpu(need) and self.has_memory(need)

    def has_cpu(self, need: Amount) -> bool:
        return not need.cpu_millis or self.cpu_millis >= need.cpu_millis

    def has_memory(self, need: Amount) -> bool:
        return not need.memory_mb or self.memory_mb >= need.memory_mb


NOTHING = Amount(0, 0, 0)


@dataclass(slots=True)
class NodeRoom:
    """`total.gpus` are all GPUs of the node, bad ones too; `users` have what each gang uses."""

    total: Amount = NOTHING
    used: Amount = NOTHING
    open: bool = False
    users: dict[str, Amount] = field(default_factory=dict)

    @property
    def free(self) -> Amount:
        return self.total.minus(self.used)

    def share(self, gpus: int) -> Amount:
        """What comes with so many GPUs of the node."""
        count = max(self.total.gpus, 1)
        return Amount(
            self.total.cpu_millis * gpus // count, self.total.memory_mb * gpus // count, gpus
        )

    def borrowed(self, gang: str) -> Amount:
        """What a gang uses beyond the shares of its GPUs here."""
        use = self.users.get(gang, NOTHING)
        share = self.share(use.gpus)
        return Amount(
            max(use.cpu_millis - share.cpu_millis, 0), max(use.memory_mb - share.memory_mb, 0)
        )


class Room:
    """By node name. Users of nodes that are not known (yet, or any more) are counted too."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.nodes: dict[str, NodeRoom] = {}

    def resize(self, node: str, total: Amount, is_open: bool) -> None:
        room = self._room(node)
        room.total, room.open = total, is_open

    def remove(self, node: str) -> None:
        room = self.nodes.get(node)
        if room is not None and not room.users:
            del self.nodes[node]
        elif room is not None:
            room.total, room.open = NOTHING, False

    def take(self, node: str, gang: str, amount: Amount) -> None:
        room = self._room(node)
        self._set(room, gang, room.users.get(gang, NOTHING).plus(amount))

    def give(self, node: str, gang: str, amount: Amount) -> None:
        room = self._room(node)
        self._set(room, gang, room.users.get(gang, NOTHING).minus(amount))

    def open_nodes(self) -> Iterator[tuple[str, NodeRoom]]:
        return ((name, room) for name, room in self.nodes.items() if room.open)

    def _room(self, node: str) -> NodeRoom:
        room = self.nodes.get(node)
        if room is None:
            room = self.nodes[node] = NodeRoom()
        return room

    def _set(self, room: NodeRoom, gang: str, amount: Amount) -> None:
        before = room.users.get(gang)
        self.journal.note(_put_back, room, gang, before, room.used)
        room.used = room.used.plus(amount.minus(before or NOTHING))
        if amount == NOTHING:
            room.users.pop(gang, None)
        else:
            room.users[gang] = amount


def _put_back(room: NodeRoom, gang: str, before: Amount | None, used: Amount) -> None:
    room.used = used
    if before is None:
        room.users.pop(gang, None)
    else:
        room.users[gang] = before
