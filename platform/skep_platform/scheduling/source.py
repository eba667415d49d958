"""A world that follows the database: caught up by what the change log names, or built anew.

Both ways read by the same functions and tell the world the same facts, so that a world that was
caught up equals one that was built, after any history (`WorldSource.differs`).
"""

from __future__ import annotations

from skep_platform.core import garbage
from skep_platform.scheduling import read_gangs, read_inventory
from skep_platform.scheduling.changes import News, Reader
from skep_platform.scheduling.read_gangs import GangFacts
from skep_scheduler import facts
from skep_scheduler.world import World

LARGE = 2000  # GPUs from which on a new world is worth a whole pass of the garbage collector


class WorldSource:
    """Not safe for threads.

    news: whether the last look found any
    left_reserved: gangs with a reservation that do not wait: the scheduler deletes it
    """

    world: World
    news: bool
    left_reserved: set[str]
    _reader: Reader
    _nodes: dict[str, facts.Node]

    def __init__(self, *, lasting: bool = True) -> None:
        """`lasting`: its worlds are kept for long."""
        self._lasting = lasting
        self._begin()

    def catch_up(self) -> World:
        """The world as it is now. One query when nothing has changed, and else a number of them
        that does not depend on how much has."""
        try:
            news = self._reader.look()
            self.news = bool(news)
            if news:
                self._hear(news)
        except BaseException:
            self._begin()  # the news may have been half told
            raise
        return self.world

    def become(self, other: WorldSource) -> None:
        """Go on from where the other one is, which must not be used any more."""
        self.__dict__.update(other.__dict__, _lasting=self._lasting)

    def _begin(self) -> None:
        self.world, self._nodes = World(), {}
        self.news, self.left_reserved = False, set()
        self._reader = Reader()

    def _hear(self, news: News) -> None:
        before = self.world.cells
        with garbage.paused():
            if news.all:
                self._build()
            else:
                self._follow(news)
        is_new = self.world.cells is not before
        if self._lasting and is_new and len(self.world.cells.leaves) >= LARGE:
            garbage.set_aside()

    def _build(self) -> None:
        self.world, self.left_reserved = World(), set()
        self._nodes = read_inventory.nodes()
        self._tell_inventory()
        self._tell_gangs(read_gangs.of_concern())

    def _follow(self, news: News) -> None:
        changed = self._changed_nodes(news.nodes) if news.nodes else []
        if news.inventory or any(_other_shape(before, after) for before, after in changed):
            self._tell_inventory()
        else:
            for _, node in changed:
                if node is not None:
                    self.world.set_node(node)
        if news.gangs:
            self._tell_gangs(sorted(news.gangs))

    def _changed_nodes(self, ids: set[str]) -> list[tuple[facts.Node | None, facts.Node | None]]:
        """Before and after."""
        after = read_inventory.nodes(ids)
        changed = [(self._nodes.pop(pk, None), after.get(pk)) for pk in sorted(ids)]
        self._nodes.update(after)
        return [(old, new) for old, new in changed if old != new]

    def _tell_inventory(self) -> None:
        self.world.set_inventory(read_inventory.inventory(self._nodes.values()))

    def _tell_gangs(self, ids: list[str]) -> None:
        for known in read_gangs.read(ids):
            _tell_gang(self.world, known)
            if known.left_reserved:
                self.left_reserved.add(known.id)
            else:
                self.left_reserved.discard(known.id)


def _other_shape(before: facts.Node | None, after: facts.Node | None) -> bool:
    """Its cells may be others, not only their health."""
    return before is None or after is None or _shape(before) != _shape(after)


def _shape(node: facts.Node) -> tuple[object, ...]:
    devices = [(device.uuid, device.model, device.index) for device in node.devices]
    return node.name, devices, node.topology, node.labels


def _tell_gang(world: World, known: GangFacts) -> None:
    if known.gang is None:
        world.forget(known.id)
    elif known.holding is not None:
        world.set_running(known.holding)
    else:
        world.set_waiting(known.gang)
        world.set_reserved(known.gang, known.reserved)
