"""The grid of the cluster page: every node and its GPUs in short.

To read it whole joins a row for every GPU of the cluster, so each process keeps it and reads anew
only the nodes that the change log names. What a reader may know of it is decided for each answer;
an answer with all nodes is kept, compressed, for readers who may know the same.
"""

from __future__ import annotations

import gzip
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

from django.contrib.postgres.aggregates import StringAgg
from django.db.models import QuerySet

from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.jobs.models import Lease, TaskAttempt
from skep_platform.scheduling.source import ChangeSet, Reader

MOST_CHANGED = 2000  # nodes; with more of them the whole grid is not much longer
NODE_COLUMNS = ("pk", "name", "state", "cordoned", "draining", "labels")
BETWEEN = "\x1f"  # the unit separator is in no name: control characters are not taken

Key = TypeVar("Key", bound=Hashable)
Gpus = tuple[list[str], list[str], list[int]]
NO_GPUS: Gpus = ([], [], [])


@dataclass(frozen=True, slots=True)
class GridNode:
    """A node as it is kept. `models` has one name where all GPUs are of one model; `used_by` the
    virtual cluster of each GPU's job, None where it is free, and nothing where all are free."""

    name: str
    state: str
    cordoned: bool
    draining: bool  # and tasks are still there
    place: tuple[str, str]  # fabric and rack
    gpus: int
    models: tuple[str, ...]
    used_by: tuple[str | None, ...]
    bad: tuple[int, ...]


class Grid:
    """The nodes of the cluster by their id, in the order of their names, as the database last had
    them. For all threads of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reader = Reader()
        self._nodes: Mapping[UUID, GridNode] = {}

    def look(self) -> tuple[int, Mapping[UUID, GridNode]]:
        """Return the horizon of the change log, and all nodes but the removed ones as of then or
        newer. One query, and four or five where something changed."""
        with self._lock:
            try:
                self._catch_up()
            except BaseException:
                # What the failed look found is not found again: the next one reads everything.
                self._reader = Reader()
                raise
            return self._reader.horizon, self._nodes

    def _catch_up(self) -> None:
        before = self._reader.horizon
        ids = changed_nodes(self._reader.look())
        if ids is None or self._reader.horizon < before:  # of another database
            self._nodes = read()
        elif ids:
            kept = {pk: node for pk, node in self._nodes.items() if pk not in ids} | read(ids)
            self._nodes = dict(sorted(kept.items(), key=lambda item: item[1].name))


def changed_nodes(news: ChangeSet) -> set[UUID] | None:
    """Return the nodes that may look different now; None: all of them."""
    if news.all or len(news.nodes) + len(news.gangs) > MOST_CHANGED:
        return None
    ids = {UUID(pk) for pk in news.nodes}
    if news.gangs:
        # Also those that a gang has left: an attempt keeps its node.
        ids |= set(
            TaskAttempt.objects.filter(job__in=map(UUID, news.gangs)).values_list("node", flat=True)
        )
    return None if len(ids) > MOST_CHANGED else ids


def read(ids: Collection[UUID] | None = None) -> dict[UUID, GridNode]:
    """Read all nodes, or those with these ids, in the order of their names. Three queries, and one
    where any is drained."""
    nodes = Node.objects.exclude(state=NodeState.REMOVED)
    devices, leases = Device.objects.all(), Lease.objects.filter(released_at=None)
    if ids is not None:
        nodes = nodes.filter(pk__in=ids)
        devices, leases = devices.filter(node__in=ids), leases.filter(device__node__in=ids)
    rows = list(nodes.order_by("name").values_list(*NODE_COLUMNS))
    gpus = _gpus(devices)
    users = dict(leases.order_by().values_list("device_id", "attempt__job__vc__name"))
    busy = _busy([row[0] for row in rows if row[4]])
    found = {}
    for pk, name, state, cordoned, _, labels in rows:
        uuids, models, bad = gpus.get(pk, NO_GPUS)
        same = len(models) > 1 and models.count(models[0]) == len(models)
        free = users.keys().isdisjoint(uuids)
        found[pk] = GridNode(
            name,
            state,
            cordoned,
            pk in busy,
            (labels.get("fabric", ""), labels.get("rack", "")),
            len(uuids),
            tuple(models[:1] if same else models),
            () if free else tuple(map(users.get, uuids)),
            tuple(bad),
        )
    return found


def _busy(draining: list[UUID]) -> set[UUID]:
    """Return those of the nodes on which tasks still are. No query for none."""
    if not draining:
        return set()
    there = TaskAttempt.objects.filter(node__in=draining, released_at=None)
    return set(there.values_list("node", flat=True))


def _gpus(devices: QuerySet[Device]) -> dict[UUID, Gpus]:
    """Return the UUIDs and models of present GPUs in the order of their index, and which of them
    are bad, by node. One query with a row per node: a row per GPU takes four times as long."""
    present = devices.exclude(health=Device.Health.ABSENT)
    # Joined texts: one value for the driver to read in the place of eight.
    order, bad = ("index", "uuid"), Device.Health.BAD
    joined = {
        f"{name}s": StringAgg(name, delimiter=BETWEEN, order_by=order)
        for name in ("uuid", "model", "health")
    }
    rows = present.order_by().values_list("node_id").annotate(**joined)
    found: dict[UUID, Gpus] = {}
    for node_id, uuids, models, healths in rows:
        at = [n for n, one in enumerate(healths.split(BETWEEN)) if one == bad]
        found[node_id] = uuids.split(BETWEEN), models.split(BETWEEN), at
    return found


ALL_BUT_NAME = attrgetter(
    "state", "cordoned", "draining", "place", "gpus", "models", "used_by", "bad"
)


class _Index(dict[Key, int]):
    """Numbers its keys in the order in which they are first looked up."""

    def __missing__(self, key: Key) -> int:
        self[key] = len(self)
        return self[key]


@dataclass(slots=True)
class Shown:
    """The grid as one reader sees it. `own`: names of the virtual clusters that it may know; None:
    all."""

    own: Collection[str] | None
    models: _Index[str] = field(default_factory=_Index)
    virtual_clusters: _Index[str | None] = field(default_factory=_Index)
    places: _Index[tuple[str, str]] = field(default_factory=_Index)
    _alike: dict[tuple[Any, ...], str] = field(default_factory=dict)

    def tables(self) -> dict[str, Any]:
        """Return what the numbers in the rows so far stand for."""
        return {
            "models": list(self.models),
            "virtual_clusters": list(self.virtual_clusters),
            "places": [{"fabric": fabric, "rack": rack} for fabric, rack in self.places],
        }

    def text(self, node: GridNode) -> str:
        """Return the row of a node as JSON. All but the name is encoded once for nodes that look
        alike: most of them do."""
        look = ALL_BUT_NAME(node)
        rest = self._alike.get(look)
        if rest is None:
            row = self.node(node)
            del row["name"]
            rest = self._alike[look] = json.dumps(row, separators=(",", ":"))[1:]
        return f'{{"name":{encode_basestring_ascii(node.name)},{rest}'

    def node(self, node: GridNode) -> dict[str, Any]:
        """Return the row of a node. Only what differs from the usual is said."""
        row: dict[str, Any] = {
            "name": node.name,
            "state": node.state,
            "models": [self.models[name] for name in node.models],
            "used_by": [-1 if vc is None else self._user(vc) for vc in node.used_by]
            or [-1] * node.gpus,
        }
        if node.bad:
            row["bad"] = node.bad
        if node.cordoned:
            row["cordoned"] = True
        if node.draining:
            row["draining"] = True
        if any(node.place):
            row["place"] = self.places[node.place]
        return row

    def _user(self, vc: str) -> int:
        return self.virtual_clusters[vc if self.own is None or vc in self.own else None]


def names_of_removed(ids: Collection[UUID], nodes: Mapping[UUID, GridNode]) -> list[str]:
    """Return the names of those with these ids that are no more, but for names that others have
    now. One query; none where all are there."""
    gone = [pk for pk in ids if pk not in nodes]
    if not gone:
        return []
    names = Node.objects.filter(pk__in=gone).order_by("name").values_list("name", flat=True)
    present = {node.name for node in nodes.values()}
    return [name for name in names if name not in present]


MOST_READERS = 16  # whose answers are kept: they differ by what the reader may know
FRESH_S = 60.0  # then it is made anew: the change log forgets revisions after a longer time
LEVEL = 6  # of compression; with more it takes longer than what it saves


@dataclass(frozen=True, slots=True)
class Whole:
    """An answer with all nodes, as JSON, and compressed."""

    made_at: float
    body: bytes
    compressed: bytes


class WholeAnswers:
    """Answers with all nodes by what their readers may know, of the nodes as they are now. For all
    threads of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: Mapping[UUID, GridNode] = {}
        self._kept: OrderedDict[frozenset[str] | None, Whole] = OrderedDict()

    def get(
        self, own: Collection[str] | None, nodes: Mapping[UUID, GridNode], revision: str
    ) -> Whole:
        """Return the answer for a reader who may know `own` (see `Shown`). Its revision is the one
        at which the nodes were first seen as they are: what has changed since is what has changed
        since `revision`."""
        key = None if own is None else frozenset(own)
        with self._lock:
            if nodes is not self._nodes:  # a new mapping at every change
                self._nodes = nodes
                self._kept.clear()
            found = self._kept.get(key)
            if found is None or time.monotonic() - found.made_at > FRESH_S:
                found = self._kept[key] = _whole(Shown(key), nodes, revision)
            self._kept.move_to_end(key)
            if len(self._kept) > MOST_READERS:
                self._kept.popitem(last=False)
            return found


def _whole(shown: Shown, nodes: Mapping[UUID, GridNode], revision: str) -> Whole:
    rows = ",".join(map(shown.text, nodes.values()))
    head = {"revision": revision, "whole": True} | shown.tables() | {"removed": []}
    body = f'{json.dumps(head, separators=(",", ":"))[:-1]},"nodes":[{rows}]}}'.encode()
    return Whole(time.monotonic(), body, gzip.compress(body, LEVEL, mtime=0))


CLUSTER = Grid()
ANSWERS = WholeAnswers()
