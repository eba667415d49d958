"""What happened to nodes in a window of time, as events for the simulator: from the events of
nodes, of which each changes whether the agent is there, or whether admins let the node be used.

A node takes jobs while its agent is connected and no admin has closed it. It is closed while the
connection is down (what runs there goes on), and lost once its lease is over. A node that joined
later is lost until it was online for the first time; one that was removed since is left out.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

from skep_platform.cells.queries import current_state
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core.errors import SkepError
from skep_platform.core.models import Event
from skep_scheduler.model import Node as SimulatedNode
from skep_scheduler.simulator.command import plain_model
from skep_scheduler.simulator.node_events import COLUMNS, NodeAction

MOST_EVENTS = 200_000  # of one window
NODE_COLUMNS = ("node", "gpus", "model")

GONE, UNREACHABLE, THERE = "gone", "unreachable", "there"
OPEN, CORDONED, DRAINED = "open", "cordoned", "drained"
PRESENCE = {"node.online": THERE, "node.unreachable": UNREACHABLE, "node.lost": GONE}
USE = {"node.uncordoned": OPEN, "node.cordoned": CORDONED, "node.drained": DRAINED}
# What a state of the row, or of the data of an event, says of its presence.
OF_STATE = {
    NodeState.JOINED: GONE,
    NodeState.ONLINE: THERE,
    NodeState.UNREACHABLE: UNREACHABLE,
    NodeState.LOST: GONE,
}
# What was before the first known event of a kind, where the event itself does not say it.
BEFORE = {
    "node.uncordoned": CORDONED,
    "node.cordoned": OPEN,
    "node.drained": OPEN,
    "node.unreachable": THERE,
}
BY_USE = {
    OPEN: NodeAction.OPEN,
    CORDONED: NodeAction.CLOSE,
    DRAINED: NodeAction.DRAIN,
}


@dataclass(frozen=True, slots=True)
class SimulatedPart:
    """The GPUs of one model of a node: a node of the simulator. `node` is the name of the real
    one."""

    name: str
    node: str
    gpus: int
    model: str


@dataclass(slots=True)
class _Condition:
    presence: str
    use: str

    @property
    def action(self) -> NodeAction:
        """Return the action that brings the simulated node into this condition."""
        if self.presence == GONE:
            return NodeAction.LOSE
        if self.presence == UNREACHABLE:
            return NodeAction.CLOSE
        return BY_USE[self.use]

    def apply(self, kind: str) -> None:
        self.presence = PRESENCE.get(kind, self.presence)
        self.use = USE.get(kind, self.use)


def parts() -> list[SimulatedPart]:
    """Return the nodes as they are, by name. One with GPUs of two models is two nodes."""
    with current_state() as state:
        known = sorted(state.nodes.values(), key=lambda node: node.name)
        return [part for node in known for part in _parts(node)]


def _parts(node: SimulatedNode) -> list[SimulatedPart]:
    models = [plain_model(device.model) for device in node.devices]
    several = len(set(models)) > 1
    return [
        SimulatedPart(
            f"{node.name}:{model}" if several else node.name, node.name, models.count(model), model
        )
        for model in sorted(set(models))
    ]


def cluster_csv(known: Collection[SimulatedPart]) -> str:
    """Return nodes as a file that the simulator reads as a cluster."""
    return _text(NODE_COLUMNS, ([one.name, one.gpus, one.model] for one in known))


def events_csv(known: Collection[SimulatedPart], since: datetime, until: datetime) -> str:
    """Return what happened to these nodes as a file that the simulator reads, in order: first those
    that take no jobs at the beginning. Raises SkepError `too_many_node_events`."""
    names: dict[str, list[str]] = {}
    for one in known:
        names.setdefault(one.node, []).append(one.name)
    rows = (
        [round(at.timestamp(), 3), name, str(action)]
        for at, node, action in changes(names, since, until)
        for name in names[node]
    )
    return _text(COLUMNS, rows)


def changes(
    names: Collection[str], since: datetime, until: datetime
) -> Iterator[tuple[datetime, str, NodeAction]]:
    """Yield (moment, node, what happens to it) from `since` on and before `until`. Raises SkepError
    `too_many_node_events`."""
    rows = Node.objects.exclude(state=NodeState.REMOVED).filter(name__in=names)
    nodes = {str(node.pk): node for node in rows.order_by("name")}
    first = _next_to(list(nodes), since, before=False)
    last = _next_to(list(nodes), since, before=True)
    conditions = {
        pk: _at_begin(node, since, last.get(pk, {}), first.get(pk, {}))
        for pk, node in nodes.items()
    }
    actions = dict.fromkeys(nodes, NodeAction.OPEN)
    for pk, condition in conditions.items():
        if condition.action != actions[pk]:
            actions[pk] = condition.action
            yield since, nodes[pk].name, actions[pk]
    found = Event.objects.filter(
        subject_type=Event.Subject.NODE,
        subject_id__in=list(nodes),
        kind__in=[*PRESENCE, *USE],
        at__gte=since,
        at__lt=until,
    ).order_by("at", "id")
    for number, (at, pk, kind) in enumerate(
        found.values_list("at", "subject_id", "kind").iterator(chunk_size=5000)
    ):
        if number >= MOST_EVENTS:
            message = f"More than {MOST_EVENTS:,} events of nodes in this time. Choose less."
            raise SkepError(message, code="too_many_node_events", most=MOST_EVENTS)
        conditions[pk].apply(kind)
        if conditions[pk].action != actions[pk]:
            actions[pk] = conditions[pk].action
            yield at, nodes[pk].name, actions[pk]


Neighbours = Mapping[bool, tuple[str, Any]]  # (kind, data) by whether it is one of USE


def _next_to(ids: list[str], moment: datetime, *, before: bool) -> dict[str, Neighbours]:
    """Return the events that are next to a moment, of each node the one of its presence and the one
    of its use."""
    found: dict[str, dict[bool, tuple[str, Any]]] = {}
    if not ids:
        return {}
    with connection.cursor() as cursor:
        statement = LAST_BEFORE if before else FIRST_AFTER
        cursor.execute(statement, [list(USE), ids, [*PRESENCE, *USE], moment])
        for pk, of_use, kind, was in cursor.fetchall():
            found.setdefault(pk, {})[of_use] = kind, was
    return dict(found)


# `DISTINCT ON` walks the index of the subject.
LAST_BEFORE = """
SELECT DISTINCT ON (subject_id, of_use) subject_id, kind = ANY(%s) AS of_use, kind, data->>'was'
  FROM core_event
 WHERE subject_type = 'node' AND subject_id = ANY(%s) AND kind = ANY(%s) AND at < %s
 ORDER BY subject_id, of_use, id DESC
"""
FIRST_AFTER = """
SELECT DISTINCT ON (subject_id, of_use) subject_id, kind = ANY(%s) AS of_use, kind, data->>'was'
  FROM core_event
 WHERE subject_type = 'node' AND subject_id = ANY(%s) AND kind = ANY(%s) AND at >= %s
 ORDER BY subject_id, of_use, id
"""


def _at_begin(node: Node, since: datetime, last: Neighbours, first: Neighbours) -> _Condition:
    """Return the condition of a node at the beginning: as the event before says, else as the next
    one implies, else as it is now."""
    use = DRAINED if node.draining else CORDONED if node.cordoned else OPEN
    presence = OF_STATE.get(NodeState(node.state), GONE)
    if node.created_at > since:
        presence = GONE
    elif False in last:
        presence = PRESENCE[last[False][0]]
    elif False in first:
        kind, was = first[False]
        presence = BEFORE.get(kind) or OF_STATE.get(was, THERE)
    if True in last:
        use = USE[last[True][0]]
    elif True in first:
        use = BEFORE[first[True][0]]
    elif node.created_at > since:
        use = OPEN
    return _Condition(presence, use)


def _text(columns: Collection[str], rows: Any) -> str:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(columns)
    lines.writerows(rows)
    return text.getvalue()
