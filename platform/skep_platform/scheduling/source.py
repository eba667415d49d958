"""A cluster state that follows the database: caught up by what the change log names, or built
anew; and the check that both ways lead to the same.

Both ways read by the same functions and set the same facts, so that a state that was caught up
equals one that was built, after any history (`verify`).

A transaction may write its rows to the change log early and commit late, so neither ids nor times
show what is new. Transaction ids do: all below PostgreSQL's `pg_snapshot_xmin` have ended, so a
reader that keeps this number reads every row from it on the next time, and skips those it has seen.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import structlog
from django.db import connection, transaction

from skep_platform.core import gc_control
from skep_platform.core.bulk import fetch
from skep_platform.scheduling import ended_services, planned, read_facts
from skep_platform.scheduling.models import Change
from skep_platform.scheduling.read_facts import GangFacts
from skep_scheduler.model import facts
from skep_scheduler.state import ClusterState

KEEP = timedelta(minutes=10)  # a reader that looks less often reads everything anew


@dataclass(slots=True)
class ChangeSet:
    """Subjects that have changed, by kind; `all` when the log does not reach back far enough."""

    nodes: set[str] = field(default_factory=set)
    gangs: set[str] = field(default_factory=set)
    inventory: bool = False
    all: bool = False

    def __bool__(self) -> bool:
        return bool(self.nodes or self.gangs or self.inventory or self.all)

    def add(self, kind: str, subject: str) -> None:
        if kind == Change.Kind.GANG:
            self.gangs.add(subject)
        elif kind == Change.Kind.NODE:
            self.nodes.add(subject)
        elif kind == Change.Kind.INVENTORY:
            self.inventory = True
        else:
            self.all = True


class Reader:
    """One reader's place in the log. Its first look finds `all`, unless it goes on from the
    `horizon` of an earlier reader: then it may find again what that one has found."""

    def __init__(self, horizon: int | None = None) -> None:
        self._horizon = horizon
        self._seen: set[int] = set()  # rows of transactions at or above the horizon
        self._writer: int | None = None

    @property
    def horizon(self) -> int:
        """Return the transaction from which on the next look reads; 0 before the first look."""
        return self._horizon or 0

    def look(self) -> ChangeSet:
        """Return what has changed since the last look, by one query. What is read from the tables
        afterwards is at least as new.

        A look inside a transaction that has written sees what may be rolled back; the next look
        from outside of it finds `all`."""
        with connection.cursor() as cursor:
            cursor.execute(LOOK, [self._horizon])
            rows = cursor.fetchall()
        horizon, writer, pruned = rows[0][:3]
        # Transactions that go back are those of a server that lost some: after a failover, or
        # restored from a backup.
        lost = self._horizon is None or self._horizon < pruned or horizon < self._horizon
        news = ChangeSet(all=lost or self._writer not in (None, writer))
        logged = [row[3:] for row in rows if row[3] is not None]
        for pk, _, kind, subject in logged:
            if pk not in self._seen:
                news.add(kind, subject)
        self._seen = {pk for pk, txid, _, _ in logged if txid >= horizon}
        self._horizon, self._writer = horizon, writer
        return news


# One statement, one snapshot: the horizon is that of the rows.
LOOK = """
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       pg_current_xact_id_if_assigned()::text::bigint,
       COALESCE((SELECT max(txid) FROM scheduling_change WHERE kind = 'pruned'), 0),
       c.id, c.txid, c.kind, c.subject
  FROM (SELECT 1) AS once
  LEFT JOIN scheduling_change c
    ON c.txid >= COALESCE(%s, pg_snapshot_xmin(pg_current_snapshot())::text::bigint)
   AND c.kind <> 'pruned'
"""


PRUNED = 10_000  # rows that one statement deletes
PRUNE_S = 30.0  # per run; the next one goes on


def prune_changes(keep: timedelta = KEEP) -> int:
    """Delete what is older, for a bounded time; return the number of rows. Readers behind it begin
    anew, from before the first row is deleted."""
    marked = fetch(MARK, [keep.total_seconds()])
    until, deleted = time.monotonic() + PRUNE_S, 0
    while marked:
        with connection.cursor() as cursor:
            cursor.execute(PRUNE, [*marked[0], PRUNED])
            deleted += int(cursor.rowcount)
            if cursor.rowcount < PRUNED or time.monotonic() > until:
                break
    return deleted


# Transactions that still run are kept, however old their rows are.
MARK = """
INSERT INTO scheduling_change (txid, kind, subject, at)
SELECT least(max(txid) + 1, pg_snapshot_xmin(pg_current_snapshot())::text::bigint),
       'pruned', '', clock_timestamp()
  FROM scheduling_change
 WHERE at < clock_timestamp() - make_interval(secs => %s) AND kind <> 'pruned'
HAVING count(*) > 0
RETURNING txid
"""
# Materialized: PostgreSQL may run a subquery once for each row, with a limit of its own each time.
PRUNE = """
WITH oldest AS MATERIALIZED (
    SELECT id FROM scheduling_change WHERE txid < %s ORDER BY txid LIMIT %s
       FOR UPDATE SKIP LOCKED)
DELETE FROM scheduling_change c USING oldest WHERE c.id = oldest.id
"""


LARGE = 2000  # GPUs from which on a new world is worth a whole pass of the garbage collector


class StateSource:
    """Not safe for threads.

    news: whether any look found a change since `take_news`
    relaid: whether the last look found another inventory, so that all cells were laid out anew
    left_nominated: gangs with a reservation that do not wait: the scheduler deletes it
    """

    state: ClusterState
    news: bool
    relaid: bool
    left_nominated: set[str]
    _reader: Reader
    _hour: float  # before which jobs ended that policies know of
    _nodes: dict[str, facts.Node]

    def __init__(self, *, lasting: bool = True) -> None:
        """`lasting`: its worlds are kept for long."""
        self._lasting = lasting
        self._begin()

    def catch_up(self) -> ClusterState:
        """The world as it is now. One query when nothing has changed, and else a number of them
        that does not depend on how much has."""
        try:
            hour = ended_services.hour_now()
            begins, self._hour = hour != self._hour, hour
            news = self._reader.look()
            self.news, self.relaid = self.news or bool(news), False
            if news:
                self._apply(news)
            if begins:
                vcs = ended_services.asked_for(self.state.policies)
                self.state.set_services(ended_services.read(vcs, hour))
        except BaseException:
            self._begin()  # the changes may have been applied in part
            raise
        return self.state

    def take_news(self) -> bool:
        """Return whether anything changed since the last call, whoever caught up meanwhile."""
        news, self.news = self.news, False
        return news

    def replace_with(self, other: StateSource) -> None:
        """Go on from where the other one is, which must not be used any more."""
        self.__dict__.update(other.__dict__, _lasting=self._lasting)

    def _begin(self) -> None:
        self.state, self._nodes = ClusterState(), {}
        self.news, self.relaid, self.left_nominated = False, False, set()
        self._reader, self._hour = Reader(), ended_services.hour_now()

    def _apply(self, news: ChangeSet) -> None:
        before = self.state.cells
        with gc_control.paused():
            if news.all:
                self._build()
            else:
                self._follow(news)
        is_new = self.state.cells is not before
        if self._lasting and is_new and len(self.state.cells.leaves) >= LARGE:
            gc_control.set_aside()

    def _build(self) -> None:
        self.state, self.left_nominated = ClusterState(), set()
        self._nodes = read_facts.nodes()
        self._apply_inventory()
        self._apply_gangs(read_facts.of_concern())
        planned.load(self.state)

    def _follow(self, news: ChangeSet) -> None:
        changed = self._changed_nodes(news.nodes) if news.nodes else []
        if news.inventory or any(_other_shape(before, after) for before, after in changed):
            self._apply_inventory()
        else:
            for _, node in changed:
                if node is not None:
                    self.state.set_node(node)
        if news.gangs:
            self._apply_gangs(sorted(news.gangs))

    def _changed_nodes(self, ids: set[str]) -> list[tuple[facts.Node | None, facts.Node | None]]:
        """Return the nodes before and after a change."""
        after = read_facts.nodes(ids)
        changed = [(self._nodes.pop(pk, None), after.get(pk)) for pk in sorted(ids)]
        self._nodes.update(after)
        return [(old, new) for old, new in changed if old != new]

    def _apply_inventory(self) -> None:
        self.relaid = True
        inventory = read_facts.inventory(self._nodes.values())
        choices = {vc.name: vc.policy for vc in inventory.virtual_clusters}
        vcs = ended_services.asked_for(choices)
        self.state.set_inventory(ended_services.with_services(inventory, vcs, self._hour))

    def _apply_gangs(self, ids: list[str]) -> None:
        for known in read_facts.read_gangs(ids):
            _apply_gang(self.state, known)
            if known.left_nominated:
                self.left_nominated.add(known.id)
            else:
                self.left_nominated.discard(known.id)


def _other_shape(before: facts.Node | None, after: facts.Node | None) -> bool:
    """Its cells may be others, not only their health."""
    return before is None or after is None or _shape(before) != _shape(after)


def _shape(node: facts.Node) -> tuple[object, ...]:
    devices = [(device.uuid, device.model, device.index) for device in node.devices]
    return node.name, devices, node.topology, node.labels


def _apply_gang(state: ClusterState, known: GangFacts) -> None:
    if known.gang is None:
        state.forget(known.id)
    elif known.allocation is not None:
        state.set_running(known.allocation)
    else:
        state.set_waiting(known.gang)
        state.set_nominated(known.gang, known.reserved)


log = structlog.get_logger(__name__)

MOST_DIFFERENCES = 20


def verify(source: StateSource) -> list[str]:
    """The differences, in short; empty when there is none. The world that was read anew takes the
    place of one that differs."""
    fresh = StateSource(lasting=False)
    with _one_moment():
        source.catch_up()
        fresh.catch_up()
    found = differences(source.state.digest(), fresh.state.digest())
    if found:
        log.error("world_diverged", differences=found)
        source.replace_with(fresh)
    return found


def differences(ours: Any, rebuilt: Any) -> list[str]:
    """Return where two digests differ, part by part."""
    found: list[str] = []
    for number, (mine, right) in enumerate(zip(ours, rebuilt, strict=True)):
        if mine != right:
            found += _of_part(number, mine, right)
    return found[:MOST_DIFFERENCES]


def _of_part(number: int, mine: Any, right: Any) -> Iterator[str]:
    both = set(mine), set(right)
    for sign, some in (("-", both[1] - both[0]), ("+", both[0] - both[1])):
        yield from (f"{number}{sign} {str(value)[:200]}" for value in _few(some))


def _few(values: Iterable[Any]) -> list[Any]:
    return sorted(values, key=str)[: MOST_DIFFERENCES // 2]


@contextmanager
def _one_moment() -> Iterator[None]:
    """All that is read inside is of one moment. (Inside a transaction that is up to its owner.)"""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            # A million gangs are built between two queries. It locks no row.
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield
