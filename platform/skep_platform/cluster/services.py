"""All writes to nodes, join tokens and the layout of cells. What connected agents write is in
`sessions`.

Secrets that machines hold are random, distinguished by a prefix, and kept only as SHA-256: for 256
random bits no slow hash is needed.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster import faults
from skep_platform.cluster.models import (
    NODE,
    NODE_NAME,
    OPEN_WINDOWS,
    CellLayout,
    Device,
    JoinToken,
    MaintenanceState,
    MaintenanceWindow,
    Node,
    NodeCheckState,
    NodeState,
)
from skep_platform.cluster.sessions import (
    bump_revision,
    close_session,
    expire_leases,
    heartbeat,
    heartbeats,
    lease,
    notify_changed,
    open_session,
    plan_absence,
    record_journal,
    reopen_sessions,
    update_inventory,
)
from skep_platform.core import caller, notifications, ports
from skep_platform.core.bulk import fetch
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.core.models import Event

__all__ = [
    "active_windows",
    "authenticate_node",
    "bump_revision",
    "cell_layout",
    "cells_changed",
    "check_labels",
    "check_name",
    "close_session",
    "cordon",
    "cordon_is_temporary",
    "create_join_token",
    "declare_lost",
    "end_drain",
    "expire_leases",
    "forget_join_tokens",
    "heartbeat",
    "heartbeats",
    "issue_join_token",
    "join_node",
    "join_tokens",
    "lease",
    "lock_cell_layout",
    "mark_draining",
    "notify_changed",
    "open_session",
    "plan_absence",
    "record_journal",
    "remove_node",
    "reopen_sessions",
    "revoke_join_token",
    "set_labels",
    "set_use",
    "uncordon",
    "update_inventory",
]

ADMIN_LABELS = frozenset({"rack", "fabric"})
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
RESERVED_NAMES = frozenset({"join", "join-tokens"})
MAX_JOIN_TTL = timedelta(days=30)
KEPT_JOIN_TOKENS = timedelta(days=30)  # after they expired
JOIN_PREFIX = "skj_"
CREDENTIAL_PREFIX = "skn_"


@transaction.atomic
def cordon(user: User | None, name: str, reason: str = "") -> Node:
    """Place nothing new on this node; what runs goes on. `reason` is shown with the node. Neither
    its checks nor the end of its maintenance puts it to use again."""
    return set_use(user, name, "cordoned", cordoned=True, **_take_over(name, reason))


@transaction.atomic
def uncordon(user: User | None, name: str) -> Node:
    """Place tasks on this node again; this ends draining it, too. Its faults count no more."""
    _take_over(name, "")
    node = set_use(user, name, "uncordoned", cordoned=False, draining=False, cordon_reason="")
    faults.forget(node.pk)
    # It would run beside a task that is placed meanwhile, and mean nothing any more.
    node.checks.filter(state=NodeCheckState.WAITING).delete()
    return node


def end_drain(name: str) -> Node:
    """Let what runs on a cordoned node stay, which stays cordoned."""
    Node.objects.exclude(state=NodeState.REMOVED).filter(name=name).update(draining=False)
    return _named(name, Node.objects)


@transaction.atomic
def mark_draining(user: User | None, name: str, reason: str = "") -> Node:
    """Cordon a node as `cordon` does, and mark it so that the app `cells`, which knows jobs, evicts
    what runs there."""
    given = _take_over(name, reason, was_draining=True)
    return set_use(user, name, "drained", cordoned=True, draining=True, **given)


@transaction.atomic
def set_labels(user: User | None, name: str, changes: Mapping[str, str | None]) -> Node:
    """Set labels of a node, which override what its agent reports; null removes such a label.
    Raises SkepError `label_invalid`."""
    check_labels(changes)
    node = _named(name, Node.objects.select_for_update(no_key=True))
    own = node.admin_labels | changes
    node.admin_labels = {key: value for key, value in own.items() if value is not None}
    before, node.labels = node.labels, node.reported_labels | node.admin_labels
    node.save(update_fields=["admin_labels", "labels", "updated_at"])
    if node.labels != before:
        message = f"Node {name} was labelled {_label_words(node.labels)}."
        data = {"before": before, "after": node.labels}
        record("node", node.pk, "node.labelled", message, actor=username(user), **data)
        audit.record("node.update", "node", node.pk, name, before=before, after=node.labels)
        notify_changed()
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
        record("node", node.pk, "node.lost", message, actor=username(user), was=node.state)
        audit.record("node.declare_lost", "node", node.pk, name, was=node.state)
        notify_changed()
    node.refresh_from_db()
    return node


@transaction.atomic
def remove_node(user: User | None, name: str) -> None:
    """Forget a node and its credential. Raises Conflict `node_busy` while an attempt on it is
    not released."""
    # A full row lock: a placement in flight cannot reference the node while we look.
    node = _named(name, Node.objects.select_for_update())
    busy = ports.attempts_on.call(node.pk).count()
    if busy:
        message = f"{busy} task attempts are on node {name}; cordon it and wait, or stop them."
        raise Conflict(message, code="node_busy", attempts=busy)
    NODE.check(node.state, NodeState.REMOVED, name)
    Node.objects.filter(pk=node.pk).update(
        state=NodeState.REMOVED,
        connected=False,
        credential_hash="",
        session_epoch=F("session_epoch") + 1,
        checks_needed=0,
        maintenance_from=None,
        maintenance_until=None,
        updated_at=Now(),
    )
    windows = node.maintenance_windows.filter(state__in=OPEN_WINDOWS)
    windows.update(state=MaintenanceState.CANCELLED)
    node.checks.filter(state=NodeCheckState.WAITING).delete()
    node.devices.update(health=Device.Health.ABSENT, problem="Its node was removed.")
    record("node", node.pk, "node.removed", f"Node {name} was removed.", actor=username(user))
    audit.record("node.remove", "node", node.pk, name, was=node.state)
    notifications.notify_nodes([node.pk])
    notify_changed()


def check_labels(changes: Mapping[str, str | None]) -> None:
    """Check labels that an admin sets. Raises SkepError `label_invalid`."""
    for key, value in changes.items():
        if key not in ADMIN_LABELS or not (value is None or LABEL.fullmatch(value)):
            message = "An admin sets the labels rack and fabric: letters, digits, '.', '-' and '_'."
            raise SkepError(message, code="label_invalid", label=str(key)[:63])


def _named(name: str, nodes: Any) -> Node:
    node = nodes.exclude(state=NodeState.REMOVED).filter(name=name).first()
    if node is None:
        raise NotFound(f"There is no node named {name}.")
    return node


def _take_over(name: str, reason: str, **more: bool) -> dict[str, str]:
    """Take a node from its checks and its maintenance, as whoever changes its use knows better.
    Return the column to set: without a reason, that of a cordon by an admin or a rule stays."""
    node = _named(name, Node.objects.select_for_update(no_key=True))
    was_temporary = cordon_is_temporary(node)
    Node.objects.filter(pk=node.pk).update(checks_needed=0)
    active_windows(node).update(was_cordoned=True, **more)
    return {"cordon_reason": reason} if reason or was_temporary else {}


def cordon_is_temporary(node: Node) -> bool:
    """Return whether a cordon of this node is one that its checks, or the end of its maintenance,
    take back."""
    return bool(node.checks_needed) or active_windows(node).filter(was_cordoned=False).exists()


def active_windows(node: Node) -> QuerySet[MaintenanceWindow]:
    """Return the windows of maintenance that are on: one, or two for the moment between them."""
    return node.maintenance_windows.filter(state=MaintenanceState.ACTIVE)


@transaction.atomic
def set_use(user: User | None, name: str, verb: str, **wanted: bool | str) -> Node:
    """Change whether a node is used, and record it. Checks and maintenance cordon by this alone, as
    they take it back."""
    node = _named(name, Node.objects.select_for_update(no_key=True))
    if any(getattr(node, column) != value for column, value in wanted.items()):
        Node.objects.filter(pk=node.pk).update(**wanted, updated_at=Now())
        reason = wanted.get("cordon_reason")
        message = f"Node {name} was {verb}: {reason}" if reason else f"Node {name} was {verb}."
        record("node", node.pk, f"node.{verb}", message, actor=username(user))
        before = {column: getattr(node, column) for column in wanted}
        audit.record(f"node.{ACTIONS[verb]}", "node", node.pk, name, before=before, after=wanted)
        notify_changed()
    node.refresh_from_db()
    return node


ACTIONS = {"cordoned": "cordon", "uncordoned": "uncordon", "drained": "drain"}


def _label_words(labels: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(labels.items())) or "with nothing"


def create_join_token(user: User | None, ttl: timedelta | float, node: str = "") -> str:
    """Return a token that lets one node join within `ttl` (a timedelta, or seconds). It cannot be
    read again."""
    return issue_join_token(user, ttl, node=node)[1]


@transaction.atomic
def issue_join_token(
    user: User | None, ttl: timedelta | float, nodes: int = 1, node: str = ""
) -> tuple[JoinToken, str]:
    """Create a token that lets so many nodes join, or only the one named, which may then take the
    place of a lost node of that name. Returns its row and its text. Raises SkepError `ttl_invalid`,
    `name_invalid`."""
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
    data = {"nodes": nodes, "node": node, "expires_at": row.expires_at}
    audit.record("join_token.create", "join_token", row.pk, node, after=data)
    if user is not None:
        what = f"node {node}" if node else "1 node" if nodes == 1 else f"{nodes} nodes"
        message = f"{user.get_username()} made a join token for {what}."
        data = {"token": str(row.pk), "nodes": nodes, "node": node}
        record("user", user.pk, "join_token.created", message, actor=user.get_username(), **data)
    return row, secret


def join_tokens() -> QuerySet[JoinToken]:
    """Return the join tokens that still let nodes in."""
    living = JoinToken.objects.filter(uses_left__gt=0, expires_at__gt=Now())
    return living.select_related("created_by")


@transaction.atomic
def revoke_join_token(user: User, token_id: UUID) -> None:
    """Revoke a join token; nodes that joined with it stay. Raises NotFound."""
    # One that is used up still lets its nodes join again.
    if not JoinToken.objects.filter(pk=token_id, expires_at__gt=Now()).exists():
        raise NotFound("There is no such join token, or it is expired.")
    JoinToken.objects.filter(pk=token_id).update(uses_left=0, expires_at=Now(), updated_at=Now())
    audit.record("join_token.delete", "join_token", token_id)
    name = user.get_username()
    message = f"{name} revoked a join token."
    record("user", user.pk, "join_token.revoked", message, actor=name, token=str(token_id))


def forget_join_tokens() -> int:
    """Delete join tokens that expired a month ago; return how many."""
    return delete_in_batches(JoinToken.objects.filter(expires_at__lt=Now() - KEPT_JOIN_TOKENS))


@transaction.atomic
def join_node(token: str, name: str, instance_id: str) -> tuple[Node, str]:
    """Trade a join token for a node and its credential, of which only the digest is stored.

    An agent that joined and never connected may join again, as when the answer was lost: the token
    that let it in counts it once. The name of a lost node is taken over only with a token that was
    made for that name. The node then gets a new credential, and what failed on the machine that was
    there before counts no more.

    Raises Forbidden `join_token_invalid` and `join_token_for_another`, Conflict `node_name_taken`
    and `rejoin_not_allowed`."""
    check_name(name)
    instance_id = instance_id[:64]
    found = fetch(LOCK_TOKEN, [digest(token)])
    if not found:
        raise _token_invalid()
    [(token_id, made_for, uses_left, actor)] = found
    if made_for not in ("", name):
        message = "The join token was made for a node of another name; ask an admin for a new one."
        raise Forbidden(message, code="join_token_for_another")
    known = _living(name)
    if known is None or not _was_let_in(known, instance_id, token_id):
        if uses_left < 1:
            raise _token_invalid()
        JoinToken.objects.filter(pk=token_id).update(uses_left=uses_left - 1, updated_at=Now())
    if known is not None:
        _check_rejoin(known, instance_id, made_for)
        if known.instance_id != instance_id:
            faults.forget(known.pk)
    node = known or Node(name=name)
    secret = new_secret(CREDENTIAL_PREFIX)
    node.credential_hash, node.instance_id = digest(secret), instance_id
    node.connected, node.session_epoch = False, node.session_epoch + 1
    try:
        node.save()
    except IntegrityError:  # another node of this name joined just now
        raise _name_taken(node) from None
    by = {"actor": actor or "", "token": str(token_id)}
    record("node", node.pk, "node.joined", f"Node {name} joined.", **by)
    caller.identify_node(name)
    audit.record("node.join", "node", node.pk, name, admitted_by=actor or "")
    notifications.notify_topic("cluster")
    return node, secret


# Also one that is used up: whom it let in may join again.
LOCK_TOKEN = f"""
SELECT t.id, t.node_name, t.uses_left,
       (SELECT u.username FROM {User._meta.db_table} u WHERE u.id = t.created_by_id)
  FROM {JoinToken._meta.db_table} t
 WHERE t.token_hash = %s AND t.expires_at > statement_timestamp()
   FOR NO KEY UPDATE OF t
"""  # noqa: S608 names of our tables


def _token_invalid() -> Forbidden:
    message = "The join token is unknown, used, revoked or expired; ask an admin for a new one."
    return Forbidden(message, code="join_token_invalid")


def authenticate_node(credential: str) -> Node | None:
    """Return the node that holds this credential, with its name, state and lease only; None where
    no node has it, or the node was removed."""
    return authenticate_nodes([credential]).get(credential)


def authenticate_nodes(credentials: Iterable[str]) -> dict[str, Node]:
    """Return the nodes that hold these credentials, as `authenticate_node` does, by one query."""
    hashes = {digest(credential): credential for credential in credentials}
    nodes = Node.objects.raw(AUTHENTICATE, [list(hashes)])
    return {hashes[node.credential_hash]: node for node in nodes}


AUTHENTICATE = f"""
SELECT id, name, state, lease_expires_at, credential_hash FROM {Node._meta.db_table}
 WHERE credential_hash = ANY(%s) AND credential_hash <> '' AND state <> 'REMOVED'
"""  # noqa: S608 the name of our table


def check_name(name: str) -> None:
    """Raises SkepError `name_invalid`."""
    try:
        NODE_NAME(name)
        if name in RESERVED_NAMES:
            raise ValidationError("This name is taken by an address of the API.")
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=str(name)[:100]) from None


def _living(name: str) -> Node | None:
    """Return the node of this name, locked, unless there is none or it was removed."""
    nodes = Node.objects.select_for_update().exclude(state=NodeState.REMOVED)
    return next(iter(nodes.filter(name=name)[:1]), None)


def _was_let_in(node: Node, instance_id: str, token_id: UUID) -> bool:
    """Return whether the agent that joined as this node last did so with this token."""
    if node.instance_id != instance_id:
        return False
    joined = Event.objects.filter(
        subject_type=Event.Subject.NODE, subject_id=str(node.pk), kind="node.joined"
    )
    last = joined.order_by("-id").values_list("data__token", flat=True).first()
    return last == str(token_id)


def _check_rejoin(node: Node, instance_id: str, made_for: str) -> None:
    """Raise Conflict unless this agent may join as a node that is there."""
    if node.state not in (NodeState.JOINED, NodeState.LOST):
        raise _name_taken(node)
    tried_again = node.state == NodeState.JOINED and node.instance_id == instance_id
    if made_for != node.name and not tried_again:
        message = (
            f"There is a node {node.name} that is {node.state.lower()}. To put this machine in its "
            f"place, an admin makes a join token for that name; or removes the node."
        )
        raise Conflict(message, code="rejoin_not_allowed", name=node.name, state=node.state)


def _name_taken(node: Node) -> Conflict:
    message = f"A node named {node.name} is in the cluster; remove it first or take another name."
    return Conflict(message, code="node_name_taken", name=node.name)


def new_secret(prefix: str) -> str:
    return prefix + secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """SHA-256 in hex; any text is accepted, also one that is not valid Unicode."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def username(user: User | None) -> str:
    """Return the name of the acting user, or "" for the system."""
    return user.get_username() if user else ""


LAYOUT = 1  # the key of the only row


def cell_layout() -> CellLayout:
    """Return how the admin wants the cells laid out, and the revision that every change of it, or
    of what virtual clusters own, raises: an editor says which one it began with."""
    return CellLayout.objects.filter(pk=LAYOUT).first() or CellLayout(pk=LAYOUT)


def lock_cell_layout() -> CellLayout:
    """Lock the row until the end of the transaction: one change at a time."""
    CellLayout.objects.get_or_create(pk=LAYOUT)
    return CellLayout.objects.select_for_update(no_key=True).get(pk=LAYOUT)


def cells_changed(**columns: str) -> int:
    """Count a change, and store `text` if that is what changed. Returns the new revision."""
    row = lock_cell_layout()
    CellLayout.objects.filter(pk=LAYOUT).update(
        revision=F("revision") + 1, updated_at=Now(), **columns
    )
    notifications.notify_scheduler()
    notifications.notify_topic("cluster")
    return row.revision + 1
