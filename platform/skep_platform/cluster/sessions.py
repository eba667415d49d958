"""Sessions of agents: leases, heartbeats, inventories, and the revision of the desired state.

Deadlines are set and compared with the clock of the database: gateways may disagree about the time,
but the lease of a node must not depend on which of them it asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.db.models.functions import Now

from skep_agent.protocol import INNER_MOUNTS, PEER_CHECKS, S3_MOUNTS, Heartbeat, Hello, Inventory
from skep_platform.cluster import inventory as inventories
from skep_platform.cluster.models import NODE, ControlPlane, Device, Node, NodeState
from skep_platform.core import notifications, ports
from skep_platform.core.bulk import Writes, fetch
from skep_platform.core.compiled import Compiled
from skep_platform.core.errors import Conflict
from skep_platform.core.events import event, record
from skep_platform.core.models import Event

MAX_INT, MAX_BIGINT = 2**31 - 1, 2**63 - 1
DEVICE_COLUMNS = ["node", "model", "memory_mb", "index", "pci_bus_id", "numa_node"]
DEVICE_COLUMNS += ["health", "problem", "updated_at"]


@transaction.atomic
def open_session(node_id: UUID | str, instance_id: str, hello: Hello) -> Node:
    """Start a new session of a node: fence every older one, start the lease, store the inventory.

    Two statements when the inventory is the stored one. A lease that was extended for a planned
    absence stays until the first heartbeat: only that proves that the agent knows its new lease.
    The journal of a node that was never connected is stored here, too (`first_session`): it cannot
    have forgotten anything. Raises Conflict `agent_duplicate` when an agent with another state
    directory is alive, `node_removed`, and InvalidInventory."""
    inventories.check(hello.inventory)
    node = _locked(node_id, now=Now())
    _refuse_second_agent(node, instance_id)
    before, was_connected, now = node.state, node.connected, node.now
    if before != NodeState.ONLINE:
        NODE.check(before, NodeState.ONLINE, node.name)
    digest = inventories.digest(hello.inventory)
    changed = digest != node.inventory_digest
    reported = inventories.node_fields(node, hello.inventory) if changed else {}
    fields: dict[str, Any] = {
        "state": NodeState.ONLINE,
        "connected": True,
        "instance_id": instance_id[:64],
        "agent_version": hello.agent_version[:64],
        "inner_mounts": INNER_MOUNTS in hello.features,
        "s3_mounts": S3_MOUNTS in hello.features,
        "peer_checks": PEER_CHECKS in hello.features,
        "session_epoch": node.session_epoch + 1,
        "last_heartbeat_at": now,
        "lease_expires_at": max(node.lease_expires_at or now, now + lease()),
        "updated_at": now,
        **reported,
    }
    if changed:
        fields["inventory_digest"] = digest if _store_devices(node, hello.inventory) else ""
    if before == NodeState.JOINED and hello.held is not None:
        fields["memory_id"] = hello.memory_id[:64]
    Node.objects.filter(pk=node.pk).update(**fields)
    for name, value in fields.items():
        setattr(node, name, value)
    node.first_session = before == NodeState.JOINED
    if before != NodeState.ONLINE:
        _online(node, before).save()
    if was_connected:
        _end_older_sessions(node)
    if changed or before != NodeState.ONLINE:
        notify_changed()
    return node


@transaction.atomic
def reopen_sessions(asked: Mapping[UUID, Hello]) -> dict[UUID, Node]:
    """Open the sessions of many nodes that connect again at once, as `open_session` does, by one
    statement, and one more for events. Left out is every node of which more is to be looked at
    than its row: one that was never connected, reports another inventory than the stored one, has
    another agent that may be alive, was removed, or whose row is locked."""
    hellos = asked.values()
    params = [
        list(asked),
        [hello.instance_id for hello in hellos],
        [hello.agent_version[:64] for hello in hellos],
        [inventories.digest(hello.inventory) for hello in hellos],
        [INNER_MOUNTS in hello.features for hello in hellos],
        [S3_MOUNTS in hello.features for hello in hellos],
        [PEER_CHECKS in hello.features for hello in hellos],
        *(settings.SKEP_LEASE_S, lease().total_seconds()),
    ]
    opened: list[Any] = list(Node.objects.raw(REOPEN, params))
    back = [node for node in opened if node.was != NodeState.ONLINE]
    Event.objects.bulk_create(_online(node, node.was) for node in back)
    for node in opened:
        if node.was_connected:
            _end_older_sessions(node)
    if back:
        notify_changed()
    return {node.pk: node for node in opened}


REOPEN = """
WITH asked AS (
  SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::text[], %s::bool[], %s::bool[],
                       %s::bool[])
       a (id, instance_id, agent_version, digest, inner_mounts, s3_mounts, peer_checks)),
mine AS (
  SELECT n.id, n.state AS was, n.connected AS was_connected
    FROM asked a JOIN cluster_node n ON n.id = a.id AND n.inventory_digest = a.digest
   WHERE n.state IN ('ONLINE', 'UNREACHABLE', 'LOST')
     AND (n.instance_id = a.instance_id OR NOT n.connected OR n.last_heartbeat_at IS NULL
          OR n.last_heartbeat_at <= statement_timestamp() - make_interval(secs => %s))
   ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED)
UPDATE cluster_node AS n
   SET state = 'ONLINE', connected = true, instance_id = left(a.instance_id, 64),
       agent_version = a.agent_version, inner_mounts = a.inner_mounts, s3_mounts = a.s3_mounts,
       peer_checks = a.peer_checks, session_epoch = n.session_epoch + 1,
       last_heartbeat_at = statement_timestamp(), updated_at = statement_timestamp(),
       lease_expires_at = greatest(n.lease_expires_at,
                                   statement_timestamp() + make_interval(secs => %s))
  FROM mine JOIN asked a ON a.id = mine.id
 WHERE n.id = mine.id
RETURNING n.id, n.name, n.state, n.session_epoch, n.memory_id, n.desired_revision,
          mine.was, mine.was_connected
"""


def record_journal(node_id: UUID | str, session_epoch: int, memory_id: str) -> None:
    """Store the id of the agent's journal, once what it had forgotten before is settled; unless
    that session is over, as a newer one may have stored another."""
    found = Node.objects.filter(pk=node_id, session_epoch=session_epoch)
    found.update(memory_id=memory_id[:64])


def heartbeat(node_id: UUID | str, session_epoch: int, reported: Heartbeat | None = None) -> int:
    """Renew the lease, and store what the node reported of itself. Returns the node's desired
    revision. One query: every node does this every few seconds. Raises Conflict
    `session_fenced`."""
    values: dict[str, str | float | None] = {
        "lease_s": lease().total_seconds(),
        "node": str(node_id),
        "epoch": session_epoch,
        "free": _bounded(reported.disk_free_mb, MAX_INT) if reported else None,
        "total": _bounded(reported.disk_total_mb, MAX_INT) if reported else None,
        "waiting": _bounded(reported.log_bytes_waiting, MAX_BIGINT) if reported else None,
    }
    with connection.cursor() as cursor:
        cursor.execute(HEARTBEAT, values)
        row = cursor.fetchone()
    if row is None:
        raise _fenced()
    return row[0]


def heartbeats(reported: Mapping[UUID, tuple[int, Heartbeat]]) -> dict[UUID, int]:
    """Renew the leases of many nodes (node: epoch, what it reported) in one query; return their
    desired revisions. Left out are nodes whose session is over, and those whose row is locked: they
    hold up no other node."""
    beats = [beat for _, beat in reported.values()]
    values = [
        list(reported),
        [epoch for epoch, _ in reported.values()],
        [_bounded(beat.disk_free_mb, MAX_INT) for beat in beats],
        [_bounded(beat.disk_total_mb, MAX_INT) for beat in beats],
        [_bounded(beat.log_bytes_waiting, MAX_BIGINT) for beat in beats],
    ]
    return dict(fetch(HEARTBEATS, [*values, lease().total_seconds()]))


HEARTBEATS = """
WITH mine AS (
  SELECT n.id, b.free, b.total, b.waiting
    FROM unnest(%s::uuid[], %s::bigint[], %s::int[], %s::int[], %s::bigint[])
         b (id, epoch, free, total, waiting)
    JOIN cluster_node n ON n.id = b.id AND n.session_epoch = b.epoch
   WHERE n.connected AND n.state = 'ONLINE'
   ORDER BY n.id FOR NO KEY UPDATE OF n SKIP LOCKED)
UPDATE cluster_node AS n
   SET last_heartbeat_at = statement_timestamp(),
       lease_expires_at = statement_timestamp() + make_interval(secs => %s),
       disk_free_mb = mine.free, disk_total_mb = mine.total,
       log_bytes_waiting = coalesce(mine.waiting, 0)
  FROM mine
 WHERE n.id = mine.id
RETURNING n.id, n.desired_revision
"""

HEARTBEAT = """
UPDATE cluster_node
   SET last_heartbeat_at = statement_timestamp(),
       lease_expires_at = statement_timestamp() + make_interval(secs => %(lease_s)s),
       disk_free_mb = %(free)s::int, disk_total_mb = %(total)s::int,
       log_bytes_waiting = coalesce(%(waiting)s::bigint, 0)
 WHERE id = %(node)s AND session_epoch = %(epoch)s AND connected AND state = 'ONLINE'
RETURNING desired_revision
"""


def _bounded(value: int | None, most: int) -> int | None:
    return None if value is None else min(max(value, 0), most)


@transaction.atomic
def update_inventory(node_id: UUID | str, session_epoch: int, inventory: Inventory) -> None:
    """Store a changed inventory. Raises Conflict `session_fenced` and InvalidInventory."""
    inventories.check(inventory)
    node = Node.objects.select_for_update(no_key=True).filter(
        pk=node_id, session_epoch=session_epoch, connected=True
    )
    found = node.first()
    if found is None:
        raise _fenced()
    digest = inventories.digest(inventory) if _store_devices(found, inventory) else ""
    fields = inventories.node_fields(found, inventory)
    node.update(updated_at=Now(), inventory_digest=digest, **fields)
    notify_changed()


@transaction.atomic
def close_session(node_id: UUID | str, session_epoch: int) -> None:
    """Record that the connection is gone; containers may run until the lease is over. A newer
    session is left alone."""
    mine = Node.objects.filter(pk=node_id, session_epoch=session_epoch, connected=True)
    changed = mine.filter(state__in=NODE.before(NodeState.UNREACHABLE)).update(
        state=NodeState.UNREACHABLE, connected=False, updated_at=Now()
    )
    if changed:
        record("node", node_id, "node.unreachable", "The agent's connection ended.")
        notifications.notify_topic("cluster")
    else:
        mine.update(connected=False)


@transaction.atomic
def plan_absence(sessions: Mapping[UUID, int], for_s: float) -> list[UUID]:
    """End these sessions (node: epoch) because this gateway stops on purpose, and wait for their
    nodes so much longer than a lease. Call it before the agents are notified, which then extend
    their leases by no more than that. Returns the nodes whose sessions were still on."""
    waits_s = for_s + lease().total_seconds()
    with connection.cursor() as cursor:
        cursor.execute(ABSENT, [waits_s, list(sessions), list(sessions.values())])
        found = [row[0] for row in cursor.fetchall()]
    message = f"The server stops on purpose, and waits for the node for {for_s / 60:.0f} minutes."
    events = [event("node", pk, "node.unreachable", message, waits_s=for_s) for pk in found]
    Event.objects.bulk_create(events)
    return found


ABSENT = """
UPDATE cluster_node AS n
   SET connected = false, state = 'UNREACHABLE', updated_at = statement_timestamp(),
       lease_expires_at = greatest(n.lease_expires_at,
                                  statement_timestamp() + make_interval(secs => %s))
  FROM (SELECT n.id FROM cluster_node n
          JOIN unnest(%s::uuid[], %s::bigint[]) s (id, epoch)
            ON n.id = s.id AND n.session_epoch = s.epoch
         WHERE n.connected AND n.state = 'ONLINE' ORDER BY n.id FOR NO KEY UPDATE OF n) AS mine
 WHERE n.id = mine.id
RETURNING n.id
"""


def bump_revision(
    node_ids: Iterable[UUID | str], *, ring: bool = True, writes: Writes | None = None
) -> None:
    """Count a change of what these nodes have to run, and notify their gateways. Without `ring` a
    node learns of it with its next heartbeat: enough for what it may only forget. With `writes` it
    is written when these run, which must be the last step of the transaction."""
    ids = sorted({str(node_id) for node_id in node_ids})
    if not ids:
        return
    bump = writes or Writes()
    bump.add(BUMP, ids)
    if writes is None:
        bump.run()
    if ring:
        notifications.notify_nodes(ids)


# Locked in one order, so that two gangs over the same nodes cannot deadlock.
BUMP = """
UPDATE cluster_node AS n SET desired_revision = n.desired_revision + 1
  FROM (SELECT id FROM cluster_node WHERE id = ANY(%s::uuid[]) ORDER BY id
           FOR NO KEY UPDATE) AS locked
 WHERE n.id = locked.id
"""


def expire_leases() -> list[UUID]:
    """Mark the nodes whose lease is over as LOST: they have fenced themselves by now. None does
    while no gateway is there to renew leases, nor before one has been there for a whole lease. Safe
    to run twice at once: a row is taken by one run, and the guard is checked under its lock."""
    if not EXPIRED.finds() or not may_judge(lease()):
        return []
    return _lose_expired()


def _expired() -> QuerySet[Node]:
    return Node.objects.filter(state__in=NODE.before(NodeState.LOST), lease_expires_at__lt=Now())


EXPIRED = Compiled(_expired)


@transaction.atomic
def _lose_expired() -> list[UUID]:
    due = _expired().select_for_update(skip_locked=True, no_key=True).order_by("pk")
    nodes = list(due.only("name", "state"))
    if not nodes:
        return []
    ids = [node.pk for node in nodes]
    Node.objects.filter(pk__in=ids).update(state=NodeState.LOST, connected=False, updated_at=Now())
    Event.objects.bulk_create(_lost(node) for node in nodes)
    notify_changed()
    return ids


def lease() -> timedelta:
    """How long after a heartbeat the server waits before it gives a node's GPUs away."""
    return timedelta(seconds=settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S)


def _refuse_second_agent(node: Any, instance_id: str) -> None:
    if node.instance_id == instance_id or not node.connected or not node.last_heartbeat_at:
        return
    if node.now - node.last_heartbeat_at < timedelta(seconds=settings.SKEP_LEASE_S):
        message = f"Another agent is connected as {node.name}; stop it, or join under a new name."
        raise Conflict(message, code="agent_duplicate", node=node.name)


def _store_devices(node: Node, inventory: Inventory) -> bool:
    """Store the GPUs of a node. Returns False when a GPU stays with another node: the same
    inventory may say something new later."""
    uuids = [gpu.uuid for gpu in inventory.gpus]
    rows = Device.objects.filter(uuid__in=uuids) | Device.objects.filter(node=node)
    known = list(
        rows.select_for_update(of=("self",), no_key=True).select_related("node").order_by("uuid")
    )
    leased = set(ports.leased_gpus.call().filter(device__in=[device.pk for device in known]))
    owners = {device.uuid: device.node_id for device in known}
    changes = inventories.compare(node, inventory.gpus, known, leased)
    if changes:
        moved = {owners.get(device.uuid, node.pk) for device in changes.changed} - {node.pk}
        if moved:
            Node.objects.filter(pk__in=moved).update(inventory_digest="")
        Device.objects.bulk_create(
            [*changes.new, *changes.changed],
            update_conflicts=True,
            unique_fields=["uuid"],
            update_fields=DEVICE_COLUMNS,
        )
    Event.objects.bulk_create([*changes.events, *_job_events(node, changes.changed, leased)])
    return not changes.elsewhere


def _job_events(node: Node, changed: Iterable[Device], leased: set[str]) -> list[Event]:
    """Return an event for each job whose GPU failed or recovered while it holds it: the fault stays
    in the job's history, also when the GPU is healthy again."""
    bad = {device.pk: device for device in changed if device.pk in leased}
    if not bad:
        return []
    events = []
    for uuid, job_id, task in ports.tasks_on_gpus.call(list(bad)):
        device = bad[uuid]
        gpu = f"GPU {device.index} of {node.name}"
        if device.health == Device.Health.HEALTHY:
            kind, message = "job.gpu_recovered", f"{gpu}, which {task} uses, is healthy again."
        else:
            problem = device.problem or "it is no longer there"
            kind, message = "job.gpu_failed", f"{gpu}, which {task} uses, failed: {problem}"
        data = {"node": node.name, "uuid": uuid, "task": task, "problem": device.problem}
        events.append(event("job", job_id, kind, message, **data))
        notifications.notify_topic("job", job_id)
    return events


def _locked(node_id: UUID | str, **more: Any) -> Any:
    """Lock the row of a node and return it, with `more` computed in the same statement."""
    rows = Node.objects.select_for_update(no_key=True).annotate(**more)
    found = rows.filter(pk=node_id).only(*LOCKED).order_by()
    node = next(iter(found), None)
    if node is None or node.state == NodeState.REMOVED:
        raise Conflict("This node was removed from the cluster.", code="node_removed")
    return node


LOCKED = (
    *("name", "state", "connected", "instance_id", "memory_id", "session_epoch"),
    *("last_heartbeat_at", "lease_expires_at", "inventory_digest", "admin_labels"),
    "desired_revision",
)


def _fenced() -> Conflict:
    return Conflict("A newer session of this node took over.", code="session_fenced")


def _end_older_sessions(node: Node) -> None:
    """Notify the gateway of a node's older session, if it is still there, to end it."""
    message = {"type": "node.replaced", "epoch": node.session_epoch}
    notifications.notify(notifications.node_group(node.pk), message)


def _online(node: Node, before: str) -> Event:
    return event("node", node.pk, "node.online", f"Node {node.name} is online.", was=before)


def _lost(node: Node) -> Event:
    seconds = settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S
    message = f"Node {node.name} did not answer for {seconds:g} s; its tasks count as lost."
    return event("node", node.pk, "node.lost", message, was=node.state)


def notify_changed() -> None:
    """Notify the scheduler and open pages that the set of usable nodes or GPUs changed."""
    notifications.notify_scheduler()
    notifications.notify_topic("cluster")


# Whether the control plane itself was there: it may not judge nodes by the end of a lease that it
# could not renew. Every gateway writes a row a few times within `gap()`. A longer silence is an
# absence of all of them, after which every node has a full lease to come back before it is judged.
# Waiting longer is always safe: agents fence themselves by their own clocks.
CONTROL_PLANE = 1  # the key of the only row
LONGEST_GAP_S = 5.0


def gap() -> timedelta:
    """How long no gateway may be seen before that counts as an absence; a part of the lease, so
    that no lease runs out before the absence is noticed."""
    return timedelta(seconds=min(LONGEST_GAP_S, settings.SKEP_LEASE_S / 4))


def beat_interval_s() -> float:
    """Return how often a gateway calls `beat`."""
    return gap().total_seconds() / 5


def beat() -> None:
    """Record that a gateway is up and accepts agents. One statement."""
    with connection.cursor() as cursor:
        cursor.execute(BEAT, {"row": CONTROL_PLANE, "gap_s": gap().total_seconds()})


BEAT = """
INSERT INTO cluster_controlplane AS c (id, seen_at, since)
VALUES (%(row)s, statement_timestamp(), statement_timestamp())
ON CONFLICT (id) DO UPDATE
   SET since = CASE WHEN c.seen_at < statement_timestamp() - make_interval(secs => %(gap_s)s)
                    THEN statement_timestamp() ELSE c.since END,
       seen_at = greatest(c.seen_at, statement_timestamp())
"""


def may_judge(lease: timedelta) -> bool:
    """Whether a gateway is up, and has been for a whole lease. True where none was ever seen."""
    with connection.cursor() as cursor:
        values = {
            "row": CONTROL_PLANE,
            "gap_s": gap().total_seconds(),
            "lease_s": lease.total_seconds(),
        }
        cursor.execute(JUDGE, values)
        row = cursor.fetchone()
    return row is None or bool(row[0])


JUDGE = """
SELECT seen_at >= statement_timestamp() - make_interval(secs => %(gap_s)s)
   AND since <= statement_timestamp() - make_interval(secs => %(lease_s)s)
  FROM cluster_controlplane WHERE id = %(row)s
"""


def absent_since() -> ControlPlane | None:
    """The row, for health pages; None where no gateway was ever seen."""
    return ControlPlane.objects.filter(pk=CONTROL_PLANE).first()
