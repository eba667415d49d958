"""Failures of tasks that were the fault of their node: store and count them, and cordon nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Max, Q, QuerySet
from django.db.models.functions import Now

from skep_platform.audit import services as audit
from skep_platform.cluster.models import Node, NodeFault, NodeState
from skep_platform.core import notifications
from skep_platform.core.bulk import deletion_time
from skep_platform.core.compiled import Compiled
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.events import record

WINDOW = timedelta(hours=24)  # older faults count no more
# Faults within it are one event, such as a restart of the engine, and count once however many jobs
# it met. On a node that is broken for good more follow.
EVENT = timedelta(minutes=2)
AT_ONCE = 100  # nodes that one round cordons


def add(faults: Sequence[NodeFault]) -> None:
    """Store what failed, once for each task attempt. One query."""
    NodeFault.objects.bulk_create(faults, ignore_conflicts=True)


def recent() -> QuerySet[NodeFault]:
    return NodeFault.objects.filter(at__gt=Now() - WINDOW)


def cordon_faulty() -> list[str]:
    """Take nodes out of use on which enough jobs failed by the node's fault, a bounded number;
    returns their names. The last node that could take work stays. Safe to run twice at once: the
    nodes, and one that stays, are locked before one of them is judged."""
    due = _due()[:AT_ONCE]
    return _cordon_due(due) if due else []


@transaction.atomic
def _cordon_due(due: Sequence[UUID]) -> list[str]:
    locked = lock_with_another(Q(pk__in=due))
    left = {n.pk: n for n in locked if n.state == NodeState.ONLINE and not n.cordoned}
    still = set(_due())  # an admin may have put one to use again meanwhile
    cordoned = []
    for node_id in due:
        if len(left) > 1 and node_id in left and node_id in still:
            cordoned.append(_cordon(left.pop(node_id)))
    if cordoned:
        notifications.notify_scheduler()
        notifications.notify_topic("cluster")
    return cordoned


def lock_with_another(nodes: Q) -> list[Node]:
    """Lock these nodes and, where there is one, another one that can take work, which then stays in
    use: all at once, in the order in which others lock nodes."""
    in_use = Node.objects.filter(state=NodeState.ONLINE, cordoned=False)
    other = in_use.exclude(nodes).order_by("pk").values_list("pk", flat=True)[:1]
    wanted = Node.objects.exclude(state=NodeState.REMOVED).filter(nodes | Q(pk__in=list(other)))
    return list(wanted.select_for_update(no_key=True).order_by("pk"))


def forget(node_id: UUID) -> None:
    """The node is in use again: what was counted before counts no more."""
    NodeFault.objects.filter(node=node_id, witness__isnull=False).update(witness=None)


def delete_old() -> int:
    """Delete faults that are older than SKEP_EVENT_RETENTION_DAYS; return how many."""
    days = settings.SKEP_EVENT_RETENTION_DAYS
    if days <= 0:
        return 0
    before = deletion_time() - timedelta(days=days)
    return delete_in_batches(NodeFault.objects.filter(at__lt=before))


def _due() -> list[UUID]:
    """Return the nodes in use with failures that enough witnesses have seen. The latest fault of
    each witness decides to which failure it belongs."""
    enough = settings.SKEP_CORDON_FAULTS
    if enough < 1:
        return []
    events: dict[UUID, list[datetime]] = {}
    for node, at in _LATEST.rows():
        begun = events.setdefault(node, [])
        if not begun or at - begun[-1] >= EVENT:
            begun.append(at)
    return [node for node, begun in events.items() if len(begun) >= enough]


def _latest() -> Any:
    in_use = _counted().filter(node__state=NodeState.ONLINE, node__cordoned=False)
    return in_use.values("node", "witness").annotate(last=Max("at")).order_by("node", "last")


_LATEST = Compiled(_latest, "node", "last")


def _counted() -> QuerySet[NodeFault]:
    return recent().filter(witness__isnull=False)


def _cordon(node: Node) -> str:
    names = Counter(_counted().filter(node=node).values_list("name", flat=True))
    counts = ", ".join(f"{n} x {name}" if n > 1 else name for name, n in names.most_common())
    total = sum(names.values())
    reason = f"{total} tasks failed within 24 h by the node's fault ({counts})."[:300]
    Node.objects.filter(pk=node.pk).update(cordoned=True, cordon_reason=reason, updated_at=Now())
    message = f"Node {node.name} was cordoned: {reason} Uncordon it when it is repaired."
    record("node", node.pk, "node.cordoned", message, faults=dict(names))
    after = {"cordoned": True, "cordon_reason": reason}
    audit.record("node.cordon", "node", node.pk, node.name, after=after)
    return node.name
