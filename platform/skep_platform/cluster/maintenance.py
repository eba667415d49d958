"""Windows of maintenance: an admin plans when nodes are not used. Reads, writes and REST.

The scheduler places nothing on a node that would not end before its window begins. At the start the
node is drained, at the end it is used again; `reconcile` does both. The node's row has the window
that is on or comes next, with those that follow it at once, because the scheduler reads nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster import checks, services
from skep_platform.cluster.models import (
    OPEN_WINDOWS,
    MaintenanceState,
    MaintenanceWindow,
    Node,
    NodeState,
)
from skep_platform.core import one_by_one
from skep_platform.core.api import AdminWrites, Body, IsAdmin, validated
from skep_platform.core.bulk import deletion_time
from skep_platform.core.compiled import Compiled, Given
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.core.paging import page, paged

MOST_NODES = 1000
AT_ONCE = 100  # nodes whose windows begin or end in one round
_random = SystemRandom()
log = structlog.get_logger(__name__)


@transaction.atomic
def plan(
    user: User | None, nodes: Sequence[str], starts_at: datetime, ends_at: datetime, reason: str
) -> list[MaintenanceWindow]:
    """Plan a window for each of these nodes. Raises NotFound, SkepError `maintenance_invalid` and
    Conflict `maintenance_overlaps`."""
    if not starts_at < ends_at or ends_at <= timezone.now():
        message = "A window ends after it begins, and in the future."
        raise SkepError(message, code="maintenance_invalid")
    found = _locked(nodes)
    _refuse_overlaps(found, starts_at, ends_at)
    made = [
        MaintenanceWindow(
            node=node, starts_at=starts_at, ends_at=ends_at, reason=reason, created_by=user
        )
        for node in found
    ]
    MaintenanceWindow.objects.bulk_create(made)
    for window in made:
        _note(window.node)
        message = f"Maintenance of {window.node.name} is planned: {_words(window)}."
        actor = services.username(user)
        record("node", window.node_id, "node.maintenance_planned", message, actor=actor)
        audit.record(
            "maintenance.plan", "node", window.node_id, window.node.name, after=_audited(window)
        )
    services.notify_changed()
    return made


@transaction.atomic
def cancel(user: User | None, window_id: UUID) -> None:
    """Cancel a window that is planned, or end one that is on. Raises NotFound."""
    window = _open().filter(pk=window_id).first()
    if window is None:
        raise NotFound("There is no such window, or it is over.")
    [node] = _locked([window.node.name])
    window.refresh_from_db()
    if window.state not in OPEN_WINDOWS:
        raise NotFound("This window is over.")
    before = _audited(window)
    if window.state == MaintenanceState.ACTIVE:
        _end(window, node, MaintenanceState.CANCELLED)
    else:
        window.state = MaintenanceState.CANCELLED
        window.save(update_fields=["state", "updated_at"])
    _note(node)
    message = f"Maintenance of {node.name} was cancelled."
    record("node", node.pk, "node.maintenance_cancelled", message, actor=services.username(user))
    audit.record("maintenance.cancel", "node", node.pk, node.name, before=before)
    services.notify_changed()


def reconcile(now: datetime | None = None) -> None:
    """Begin and end the windows whose time has come. One query when there are none; may overlap
    with itself."""
    now = now or timezone.now()
    due = [node_id for (node_id,) in DUE.rows(now=now)]
    _random.shuffle(due)  # any number of nodes that fail holds up none of the others
    for node_id in due[:AT_ONCE]:
        one_by_one.change([node_id], lambda ids: _advance(ids[0], now), _leave_out)


def _due() -> QuerySet[Any, Any]:
    due = MaintenanceWindow.objects.filter(
        Q(state=MaintenanceState.PLANNED, starts_at__lte=Given("now"))
        | Q(state=MaintenanceState.ACTIVE, ends_at__lte=Given("now"))
    )
    return due.values("node").distinct()


DUE = Compiled(_due, "node")


def _leave_out(node_id: UUID) -> None:
    log.exception("maintenance_not_advanced", node_id=str(node_id))


def open_windows(node: str = "") -> QuerySet[MaintenanceWindow]:
    """Return the windows that are planned or on, of one node or of all."""
    found = _open()
    return found.filter(node__name=node) if node else found


def _open() -> QuerySet[MaintenanceWindow]:
    known = MaintenanceWindow.objects.exclude(node__state=NodeState.REMOVED)
    return known.filter(state__in=OPEN_WINDOWS).select_related("node", "created_by").order_by("pk")


def delete_old() -> int:
    """Delete windows that ended more than SKEP_EVENT_RETENTION_DAYS ago; return how many."""
    days = settings.SKEP_EVENT_RETENTION_DAYS
    if days <= 0:
        return 0
    before = deletion_time() - timedelta(days=days)
    over = MaintenanceWindow.objects.filter(ends_at__lt=before).exclude(state__in=OPEN_WINDOWS)
    return delete_in_batches(over)


def _advance(node_id: UUID, now: datetime) -> None:
    """Begin and end the windows of a node that are due, in this order: it is not used between one
    and the next that follows at once."""
    node = Node.objects.select_for_update(no_key=True).get(pk=node_id)
    windows = node.maintenance_windows.order_by("starts_at")
    if node.state == NodeState.REMOVED:  # by an older server, which left them open
        windows.filter(state__in=OPEN_WINDOWS).update(state=MaintenanceState.CANCELLED)
        return
    for window in windows.filter(state=MaintenanceState.PLANNED, starts_at__lte=now):
        _begin(window, node, now)
    for window in windows.filter(state=MaintenanceState.ACTIVE, ends_at__lte=now):
        _end(window, node, MaintenanceState.ENDED)
    _note(node)
    services.notify_changed()


def _begin(window: MaintenanceWindow, node: Node, now: datetime) -> None:
    """Drain a node. A cordon of someone else keeps its reason, and that of the checks, too."""
    if window.ends_at <= now:  # no server was there meanwhile: the node was in use
        window.state = MaintenanceState.ENDED
        window.save(update_fields=["state", "updated_at"])
        return
    before = services.active_windows(node).first()
    window.state = MaintenanceState.ACTIVE
    window.was_cordoned = node.cordoned and not services.cordon_is_temporary(node)
    window.was_draining = (
        window.was_cordoned and node.draining and (before is None or before.was_draining)
    )
    shown = window.was_cordoned or node.checks_needed
    reason = {} if shown else {"cordon_reason": window.cordon_reason}
    services.set_use(None, node.name, "drained", cordoned=True, draining=True, **reason)
    node.refresh_from_db()
    window.save(update_fields=["state", "was_cordoned", "was_draining", "updated_at"])


def _end(window: MaintenanceWindow, node: Node, state: MaintenanceState) -> None:
    """Use a node again, after its checks where it has some, unless another window is on or someone
    else has cordoned it."""
    window.state = state
    window.save(update_fields=["state", "updated_at"])
    if services.active_windows(node).exists():
        return
    rounds = max(checks.after_maintenance(), node.checks_needed)
    if window.was_cordoned:
        if not window.was_draining:
            services.end_drain(node.name)
    elif rounds:
        checks.require(node, rounds, "maintenance")
    else:
        services.uncordon(None, node.name)


def _note(node: Node) -> None:
    """Store in the row of the node when its maintenance, that is on or comes next, begins and ends:
    windows that follow each other without a break are one, as the node is not used in between."""
    windows = node.maintenance_windows.filter(state__in=OPEN_WINDOWS).order_by("starts_at")
    begins = ends = None
    for starts_at, ends_at in windows.values_list("starts_at", "ends_at"):
        if ends is not None and starts_at > ends:
            break
        begins, ends = begins or starts_at, max(ends or ends_at, ends_at)
    Node.objects.filter(pk=node.pk).update(maintenance_from=begins, maintenance_until=ends)


def _locked(names: Sequence[str]) -> list[Node]:
    rows = Node.objects.exclude(state=NodeState.REMOVED).filter(name__in=names)
    found = list(rows.select_for_update(no_key=True).order_by("pk"))
    if missing := sorted(set(names) - {node.name for node in found}):
        raise NotFound(f"There is no node named {missing[0][:63]}.", nodes=missing[:20])
    return found


def _refuse_overlaps(nodes: Sequence[Node], starts_at: datetime, ends_at: datetime) -> None:
    known = _open().filter(node__in=nodes, starts_at__lt=ends_at, ends_at__gt=starts_at)
    if other := known.first():
        message = f"{other.node.name} has a window already: {_words(other)}."
        raise Conflict(message, code="maintenance_overlaps", node=other.node.name, id=str(other.pk))


def _words(window: MaintenanceWindow) -> str:
    times = f"{window.starts_at:%Y-%m-%d %H:%M} to {window.ends_at:%Y-%m-%d %H:%M} UTC"
    return f"{times} ({window.reason})" if window.reason else times


def _audited(window: MaintenanceWindow) -> dict[str, Any]:
    return {name: getattr(window, name) for name in ("starts_at", "ends_at", "reason", "state")}


TAGS = ["nodes"]


class MaintenanceSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    node = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField()
    reason = serializers.CharField(allow_blank=True)
    state = serializers.ChoiceField(MaintenanceState.values)
    created_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()


class MaintenanceBody(Body):
    nodes = serializers.ListField(
        child=serializers.CharField(max_length=63), min_length=1, max_length=MOST_NODES
    )
    starts_at = serializers.DateTimeField(help_text="The nodes are drained then.")
    ends_at = serializers.DateTimeField(help_text="They are used again then.")
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True)


class MaintenanceWindowsView(APIView):
    permission_classes = (AdminWrites,)

    @paged("list_maintenance_windows", MaintenanceSerializer, TAGS, OpenApiParameter("node", str))
    def get(self, request: Request) -> Response:
        """List the windows of maintenance that are planned or on."""
        rows = open_windows(request.query_params.get("node", ""))
        return page(request, rows, _show, "id")

    @extend_schema(
        operation_id="plan_maintenance",
        request=MaintenanceBody,
        responses={201: MaintenanceSerializer(many=True)},
        tags=TAGS,
    )
    def post(self, request: Request) -> Response:
        """Plan a window for nodes. Until it begins, nothing is placed there that would not end
        before; then they are drained, and at its end used again."""
        body = validated(MaintenanceBody, request)
        names = list(dict.fromkeys(body["nodes"]))
        when = body["starts_at"], body["ends_at"]
        made = plan(current_user.admin(request), names, *when, body.get("reason", "").strip())
        return Response(_show(made), status=201)


class MaintenanceWindowView(APIView):
    permission_classes = (IsAdmin,)

    @extend_schema(operation_id="cancel_maintenance", responses={204: None}, tags=TAGS)
    def delete(self, request: Request, id: UUID) -> Response:
        """Cancel a window; one that is on ends, and the node is used again."""
        cancel(current_user.admin(request), id)
        return Response(status=204)


def _show(windows: Sequence[MaintenanceWindow]) -> list[Any]:
    return [
        {
            "id": window.pk,
            "node": window.node.name,
            "starts_at": window.starts_at,
            "ends_at": window.ends_at,
            "reason": window.reason,
            "state": window.state,
            "created_by": window.created_by.get_username() if window.created_by else None,
            "created_at": window.created_at,
        }
        for window in windows
    ]
