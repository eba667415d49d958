"""All writes to nodes: joining, sessions with their leases, inventory, cordon and removal.

Deadlines are set and compared with the database's clock: web replicas may disagree about time,
a node's lease must not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from skep_agent.protocol import Heartbeat, Hello, Inventory
from skep_platform.accounts.models import User
from skep_platform.cluster import faults, presence
from skep_platform.cluster import inventory as inventories
from skep_platform.cluster.models import NODE, NODE_NAME, Device, JoinToken, Node, NodeState
from skep_platform.cluster.tokens import CREDENTIAL_PREFIX, JOIN_PREFIX, digest, new_secret
from skep_platform.core import doorbells
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import event, record
from skep_platform.core.models import Event

RESERVED_NAMES = frozenset({"join", "join-tokens"})
MAX_INT, MAX_BIGINT = 2**31 - 1, 2**63 - 1
ADMIN_LABELS = frozenset({"rack", "fabric"})
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
MAX_JOIN_TTL = timedelta(days=30)
DEVICE_COLUMNS = ["node", "model", "memory_mb", "index", "pci_bus_id", "numa_node"]
DEVICE_COLUMNS += ["health", "problem", "updated_at"]


def create_join_token(user: User | None, ttl: timedelta | float, node: str = "") -> str:
    """A token that lets one node join within `ttl` (a timedelta, or seconds); not shown again."""
    return issue_join_token(user, ttl, node=node)[1]


@transaction.atomic
def issue_join_token(
    user: User | None, ttl: timedelta | float, nodes: int = 1, node: str = ""
) -> tuple[JoinToken, str]:
    """A token that lets so many nodes join, or only the one named, which may then take the place
    of a lost node of that name. Raises SkepError `ttl_invalid`, `name_invalid`."""
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    longest = int(MAX_JOIN_TTL.total_seconds())
    if not 0 < seconds <= longest:
        message = f"A join token lives at most {MAX_JOIN_TTL.days} days."
        raise SkepError(message, code="ttl_invalid", longest_s=longest)
    if node:
        check_name(node)
        if nodes != 1:
            message = "A token for a named node lets one node in; leave out `nodes`, or the name."
            raise SkepError(message, code="invalid", nodes=nodes, node=node)
    secret = new_secret(JOIN_PREFIX)
    expires_at = Now() + timedelta(seconds=seconds)
    row = JoinToken.objects.create(
        token_hash=digest(secret),
        created_by=user,
        expires_at=expires_at,
        uses_left=nodes,
        node_name=node,
    )
    row.refresh_from_db(fields=["expires_at"])
    if user is not None:
        what = f"node {node}" if node else "1 node" if nodes == 1 else f"{nodes} nodes"
        message = f"{user.get_username()} made a join token for {what}."
        data = {"token": str(row.pk), "nodes": nodes, "node": node}
        record("user", user.pk, "join_token.created", message, actor=user.get_username(), **data)
    return row, secret


def join_tokens() -> QuerySet[JoinToken]:
    """Those that still let nodes in."""
    living = JoinToken.objects.filter(uses_left__gt=0, expires_at__gt=Now())
    return living.select_related("created_by")


@transaction.atomic
def revoke_join_token(user: User, token_id: UUID) -> None:
    """From now on it lets nobody in; nodes that joined with it stay. Raises NotFound."""
    if not join_tokens().filter(pk=token_id).exists():
        raise NotFound("There is no such join token, or it is used up or expired.")
    JoinToken.objects.filter(pk=token_id).update(uses_left=0, updated_at=Now())
    name = user.get_username()
    message = f"{name} revoked a join token."
    record("user", user.pk, "join_token.revoked", message, actor=name, token=str(token_id))


@transaction.atomic
def join_node(token: str, name: str, instance_id: str) -> tuple[Node, str]:
    """Trade a join token for a node and its credential, which is told only here. An agent that
    joined and never connected may join again; the name of a lost node is taken over only with a
    token that was made for that name. The node then gets a new credential.

    Raises Forbidden `join_token_invalid` and `join_token_for_another`, Conflict `node_name_taken`
    and `rejoin_not_allowed`."""
    check_name(name)
    row = JoinToken.objects.filter(token_hash=digest(token), uses_left__gt=0, expires_at__gt=Now())
    join_token = row.select_for_update(of=("self",)).select_related("created_by").first()
    if join_token is None:
        message = "The join token is unknown, used, revoked or expired; ask an admin for a new one."
        raise Forbidden(message, code="join_token_invalid")
    if join_token.node_name not in ("", name):
        message = "The join token was made for a node of another name; ask an admin for a new one."
        raise Forbidden(message, code="join_token_for_another")
    node = _named_or_new(name, instance_id, join_token)
    secret = new_secret(CREDENTIAL_PREFIX)
    node.credential_hash, node.instance_id = digest(secret), instance_id[:64]
    node.connected, node.session_epoch = False, node.session_epoch + 1
    _save(node)
    row.update(uses_left=F("uses_left") - 1)
    record("node", node.pk, "node.joined", f"Node {name} joined.", actor=_name(join_token))
    doorbells.ring_topic("cluster")
    return node, secret


def authenticate_node(credential: str) -> Node | None:
    """The node that holds this credential, unless it was removed; without its largest columns."""
    nodes = Node.objects.exclude(state=NodeState.REMOVED).exclude(credential_hash="")
    nodes = nodes.defer("topology", "labels", "reported_labels", "admin_labels")
    return nodes.filter(credential_hash=digest(credential)).first()


@transaction.atomic
def open_session(node_id: UUID | str, instance_id: str, hello: Hello) -> Node:
    """Start a new session of a node: fences every older one, starts the lease, stores what the
    node has. Two statements when that is what was stored before. A lease that was extended for a
    planned absence stays until the first heartbeat: only that proves that the agent has heard of
    its new one. Raises Conflict `agent_duplicate` when an agent with another state directory is
    alive, `node_removed`, and InvalidInventory."""
    inventories.check(hello.inventory)
    node = _locked(node_id, now=Now())
    _refuse_second_agent(node, instance_id)
    before, was_connected, now = node.state, node.connected, node.now
    if before != NodeState.ONLINE:
        NODE.check(before, NodeState.ONLINE, node.name)
    digest = inventories.digest(hello.inventory)
    changed = digest != node.inventory_digest
    told = inventories.node_fields(node, hello.inventory) if changed else {}
    fields: dict[str, Any] = {
        "state": NodeState.ONLINE,
        "connected": True,
        "instance_id": instance_id[:64],
        "agent_version": hello.agent_version[:64],
        "session_epoch": node.session_epoch + 1,
        "last_heartbeat_at": now,
        "lease_expires_at": max(node.lease_expires_at or now, now + lease()),
        "updated_at": now,
        **told,
    }
    if changed:
        fields["inventory_digest"] = digest if _store_devices(node, hello.inventory) else ""
    Node.objects.filter(pk=node.pk).update(**fields)
    for name, value in fields.items():
        setattr(node, name, value)
    if before != NodeState.ONLINE:
        record("node", node.pk, "node.online", f"Node {node.name} is online.", was=before)
    if was_connected:
        bell = {"type": "node.replaced", "epoch": node.session_epoch}
        doorbells.ring(doorbells.node_group(node.pk), bell)
    if changed or before != NodeState.ONLINE:
        _tell_all()
    return node


def remember(node_id: UUID | str, memory_id: str) -> None:
    """The agent's journal from now on: what it forgot before was dealt with."""
    Node.objects.filter(pk=node_id).update(memory_id=memory_id[:64])


def heartbeat(node_id: UUID | str, session_epoch: int, told: Heartbeat | None = None) -> int:
    """Renew the lease, and store what the node told of itself; the answer is the node's desired
    revision. One query: every node does this every few seconds. Raises Conflict
    `session_fenced`."""
    values: dict[str, str | float | None] = {
        "lease_s": lease().total_seconds(),
        "node": str(node_id),
        "epoch": session_epoch,
        "free": _bounded(told.disk_free_mb, MAX_INT) if told else None,
        "total": _bounded(told.disk_total_mb, MAX_INT) if told else None,
        "waiting": _bounded(told.log_bytes_waiting, MAX_BIGINT) if told else None,
    }
    with connection.cursor() as cursor:
        cursor.execute(HEARTBEAT, values)
        row = cursor.fetchone()
    if row is None:
        raise _fenced()
    return row[0]


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
    _tell_all()


@transaction.atomic
def close_session(node_id: UUID | str, session_epoch: int) -> None:
    """The connection is gone; containers may still run until the lease is over. A newer session
    is left alone."""
    mine = Node.objects.filter(pk=node_id, session_epoch=session_epoch, connected=True)
    changed = mine.filter(state__in=NODE.before(NodeState.UNREACHABLE)).update(
        state=NodeState.UNREACHABLE, connected=False, updated_at=Now()
    )
    if changed:
        record("node", node_id, "node.unreachable", "The agent's connection ended.")
        doorbells.ring_topic("cluster")
    else:
        mine.update(connected=False)


@transaction.atomic
def plan_absence(sessions: Mapping[UUID, int], for_s: float) -> list[UUID]:
    """This gateway stops on purpose: end these sessions (node: epoch), and wait for their nodes so
    much longer than a lease. To be called before the agents are told, who then extend their leases
    by no more than that. Returns the nodes whose sessions were still on."""
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


def bump_revision(node_ids: Iterable[UUID | str], *, ring: bool = True) -> None:
    """What these nodes shall run has changed: count it and ring their gateways. Without `ring` a
    node learns of it with its next heartbeat: enough for what it may only forget."""
    ids = sorted({str(node_id) for node_id in node_ids})
    if not ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(BUMP, [ids])
        found = [row[0] for row in cursor.fetchall()]
    if ring:
        doorbells.ring_nodes(found)


# Locked in one order, so that two gangs over the same nodes cannot deadlock.
BUMP = """
UPDATE cluster_node AS n SET desired_revision = n.desired_revision + 1
  FROM (SELECT id FROM cluster_node WHERE id = ANY(%s::uuid[]) ORDER BY id
           FOR NO KEY UPDATE) AS locked
 WHERE n.id = locked.id
RETURNING n.id
"""


@transaction.atomic
def expire_leases() -> list[UUID]:
    """Nodes whose lease is over become LOST: they have fenced themselves by now. None does while
    no gateway is there to renew leases, nor before one has been there for a whole lease. Safe to
    run twice at once: a row is taken by one run, and the guard is checked under its lock."""
    if not presence.may_judge(lease()):
        return []
    due = (
        Node.objects.select_for_update(skip_locked=True, no_key=True)
        .filter(state__in=NODE.before(NodeState.LOST), lease_expires_at__lt=Now())
        .order_by("pk")
    )
    nodes = list(due)
    if not nodes:
        return []
    ids = [node.pk for node in nodes]
    Node.objects.filter(pk__in=ids).update(state=NodeState.LOST, connected=False, updated_at=Now())
    Event.objects.bulk_create(_lost(node) for node in nodes)
    _tell_all()
    return ids


def cordon(user: User | None, name: str) -> Node:
    """Place nothing new on this node; what runs goes on."""
    return _set_use(user, name, "cordoned", cordoned=True, cordon_reason="")


@transaction.atomic
def uncordon(user: User | None, name: str) -> Node:
    """Also the end of draining it. Its faults count no more."""
    node = _set_use(user, name, "uncordoned", cordoned=False, draining=False, cordon_reason="")
    faults.forget(node.pk)
    return node


def mark_draining(user: User | None, name: str) -> Node:
    """Cordon it; and what runs there shall go, which those see to who know of jobs."""
    return _set_use(user, name, "drained", cordoned=True, draining=True, cordon_reason="")


@transaction.atomic
def set_labels(user: User | None, name: str, changes: Mapping[str, str | None]) -> Node:
    """Labels of a node that overrule what its agent reports; null goes back to that. Raises
    SkepError `label_invalid`."""
    check_labels(changes)
    node = _named(name, Node.objects.select_for_update(no_key=True))
    own = node.admin_labels | changes
    node.admin_labels = {key: value for key, value in own.items() if value is not None}
    before, node.labels = node.labels, node.reported_labels | node.admin_labels
    node.save(update_fields=["admin_labels", "labels", "updated_at"])
    if node.labels != before:
        message = f"Node {name} was labelled {_label_words(node.labels)}."
        data = {"before": before, "after": node.labels}
        record("node", node.pk, "node.labelled", message, actor=_username(user), **data)
        _tell_all()
    return node


@transaction.atomic
def declare_lost(user: User | None, name: str) -> Node:
    """Give up waiting for a node, as when its machine burned during a planned absence: its tasks
    count as lost and its GPUs as free at once. If it still runs they run twice, until its agent
    comes back or its lease is over. Raises Conflict `node_connected`."""
    node = _named(name, Node.objects.select_for_update(no_key=True))
    if node.connected:
        message = f"The agent of {name} is connected; stop it first, or cordon and drain the node."
        raise Conflict(message, code="node_connected", node=name)
    if node.state != NodeState.LOST:
        NODE.check(node.state, NodeState.LOST, name)
        Node.objects.filter(pk=node.pk).update(
            state=NodeState.LOST, session_epoch=F("session_epoch") + 1, updated_at=Now()
        )
        message = f"Node {name} was declared lost by an admin; its tasks count as lost."
        record("node", node.pk, "node.lost", message, actor=_username(user), was=node.state)
        _tell_all()
    node.refresh_from_db()
    return node


@transaction.atomic
def remove_node(user: User | None, name: str) -> None:
    """Forget a node and its credential. Raises Conflict `node_busy` while an attempt on it is
    not released."""
    # A full row lock: a placement in flight cannot reference the node while we look.
    node = _named(name, Node.objects.select_for_update())
    busy = node.attempts.filter(released_at=None).count()
    if busy:
        message = f"{busy} task attempts are on node {name}; cordon it and wait, or stop them."
        raise Conflict(message, code="node_busy", attempts=busy)
    NODE.check(node.state, NodeState.REMOVED, name)
    Node.objects.filter(pk=node.pk).update(
        state=NodeState.REMOVED,
        connected=False,
        credential_hash="",
        session_epoch=F("session_epoch") + 1,
        updated_at=Now(),
    )
    node.devices.update(health=Device.Health.ABSENT, problem="Its node was removed.")
    record("node", node.pk, "node.removed", f"Node {name} was removed.", actor=_username(user))
    doorbells.ring_nodes([node.pk])
    _tell_all()


def lease() -> timedelta:
    """How long after a heartbeat the server waits before it gives a node's GPUs away."""
    return timedelta(seconds=settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S)


def check_name(name: str) -> None:
    """Raises SkepError `name_invalid`."""
    try:
        NODE_NAME(name)
        if name in RESERVED_NAMES:
            raise ValidationError("This name is taken by an address of the API.")
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=str(name)[:100]) from None


def check_labels(changes: Mapping[str, str | None]) -> None:
    """Raises SkepError `label_invalid`."""
    for key, value in changes.items():
        if key not in ADMIN_LABELS or not (value is None or LABEL.fullmatch(value)):
            message = "An admin sets the labels rack and fabric: letters, digits, '.', '-' and '_'."
            raise SkepError(message, code="label_invalid", label=str(key)[:63])


def _named_or_new(name: str, instance_id: str, join_token: JoinToken) -> Node:
    node = Node.objects.select_for_update().exclude(state=NodeState.REMOVED)
    found = node.filter(name=name).first()
    if found is None:
        return Node(name=name)
    if found.state not in (NodeState.JOINED, NodeState.LOST):
        raise _name_taken(found)
    tried_again = found.state == NodeState.JOINED and found.instance_id == instance_id[:64]
    if join_token.node_name != name and not tried_again:
        message = (
            f"There is a node {name} that is {found.state.lower()}. To put this machine in its "
            f"place, an admin makes a join token for that name; or removes the node."
        )
        raise Conflict(message, code="rejoin_not_allowed", name=name, state=found.state)
    return found


def _save(node: Node) -> None:
    try:
        with transaction.atomic():
            node.save()
    except IntegrityError:  # another node of this name joined just now
        raise _name_taken(node) from None


def _refuse_second_agent(node: Any, instance_id: str) -> None:
    if node.instance_id == instance_id or not node.connected or not node.last_heartbeat_at:
        return
    if node.now - node.last_heartbeat_at < timedelta(seconds=settings.SKEP_LEASE_S):
        message = f"Another agent is connected as {node.name}; stop it, or join under a new name."
        raise Conflict(message, code="agent_duplicate", node=node.name)


def _store_devices(node: Node, inventory: Inventory) -> bool:
    """False when a GPU stays with another node: the same inventory may say something new later."""
    uuids = [gpu.uuid for gpu in inventory.gpus]
    rows = Device.objects.filter(uuid__in=uuids) | Device.objects.filter(node=node)
    known = list(
        rows.select_for_update(of=("self",), no_key=True).select_related("node").order_by("uuid")
    )
    leased = set(
        Device.objects.filter(
            pk__in=[device.pk for device in known], leases__isnull=False, leases__released_at=None
        ).values_list("pk", flat=True)
    )
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
    Event.objects.bulk_create([*changes.events, *_tell_jobs(node, changes.changed, leased)])
    return not changes.elsewhere


def _tell_jobs(node: Node, changed: Iterable[Device], leased: set[str]) -> list[Event]:
    """Jobs whose GPU failed or came back while they hold it: the fault stays in their story, also
    when the GPU is healthy again."""
    bad = {device.pk: device for device in changed if device.pk in leased}
    if not bad:
        return []
    holders = Device.objects.filter(pk__in=bad, leases__released_at=None).values_list(
        *("pk", "leases__attempt__job_id", "leases__attempt__role__name"),
        "leases__attempt__task__index",
    )
    events = []
    for uuid, job_id, role, index in holders:
        device = bad[uuid]
        task, gpu = f"{role}-{index}", f"GPU {device.index} of {node.name}"
        if device.health == Device.Health.HEALTHY:
            kind, message = "job.gpu_recovered", f"{gpu}, which {task} uses, is healthy again."
        else:
            problem = device.problem or "it is no longer there"
            kind, message = "job.gpu_failed", f"{gpu}, which {task} uses, failed: {problem}"
        data = {"node": node.name, "uuid": uuid, "task": task, "problem": device.problem}
        events.append(event("job", job_id, kind, message, **data))
        doorbells.ring_topic("job", job_id)
    return events


def _locked(node_id: UUID | str, **more: Any) -> Any:
    """The row, with `more` computed in the same statement."""
    rows = Node.objects.select_for_update(no_key=True).annotate(**more)
    found = rows.filter(pk=node_id).defer("topology", "labels", "reported_labels")
    node = found.order_by().first()
    if node is None or node.state == NodeState.REMOVED:
        raise Conflict("This node was removed from the cluster.", code="node_removed")
    return node


def _named(name: str, nodes: Any) -> Node:
    node = nodes.exclude(state=NodeState.REMOVED).filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node named {name}.")
    return node


@transaction.atomic
def _set_use(user: User | None, name: str, verb: str, **wanted: bool | str) -> Node:
    node = _named(name, Node.objects.select_for_update(no_key=True))
    if any(getattr(node, column) != value for column, value in wanted.items()):
        Node.objects.filter(pk=node.pk).update(**wanted, updated_at=Now())
        record("node", node.pk, f"node.{verb}", f"Node {name} was {verb}.", actor=_username(user))
        _tell_all()
    node.refresh_from_db()
    return node


def _tell_all() -> None:
    """The places to run have changed: for the scheduler and for open pages."""
    doorbells.ring_scheduler()
    doorbells.ring_topic("cluster")


def _name_taken(node: Node) -> Conflict:
    message = f"A node named {node.name} is in the cluster; remove it first or take another name."
    return Conflict(message, code="node_name_taken", name=node.name)


def _fenced() -> Conflict:
    return Conflict("A newer session of this node took over.", code="session_fenced")


def _lost(node: Node) -> Event:
    seconds = settings.SKEP_LEASE_S + settings.SKEP_LEASE_MARGIN_S
    message = f"Node {node.name} did not answer for {seconds:g} s; its tasks count as lost."
    return event("node", node.pk, "node.lost", message, was=node.state)


def _label_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "with nothing"


def _username(user: User | None) -> str:
    return user.get_username() if user else ""


def _name(join_token: JoinToken) -> str:
    return _username(join_token.created_by)
