"""Checks of a node before it is used: when it joins, after its maintenance, or as an admin asks.

The node stays cordoned, with the reason, until it has passed so many rounds in a row; then it is
used again by itself. A round is what its agent does when no task is there: it writes and reads its
disk, tries its GPUs, and measures the way to the servers and to other nodes (`peer_checks`,
`skep_agent.shell.checks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from skep_agent.protocol import CheckReport, NodeChecks
from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster import peer_checks, queries, services
from skep_platform.cluster.models import Node, NodeCheck, NodeCheckState
from skep_platform.cluster.node_work import NodesWithWork
from skep_platform.core import ports
from skep_platform.core.api import AdminWrites, Body, validated
from skep_platform.core.events import record
from skep_platform.core.paging import page, paged

AGAIN = timedelta(seconds=30)  # between two rounds that pass
AFTER_FAILURE = timedelta(minutes=10)
KEPT = 50  # rounds of a node
MOST_NEEDED = 20
WAITS = "Waits for its checks"
MAX_RESULTS, MAX_MESSAGE = 64, 300


def on_join() -> int:
    """Return how many rounds a new node has to pass."""
    return int(settings.SKEP_NODE_CHECKS)


after_maintenance = on_join


@transaction.atomic
def require(node: Node, rounds: int, cause: str, user: User | None = None) -> NodeCheck:
    """Cordon a node until it has passed so many rounds in a row, and its maintenance is over; then
    it is used whoever had cordoned it before. The first round is due now."""
    # Before its windows, as all others do.
    Node.objects.select_for_update(no_key=True).get(pk=node.pk)
    if not services.active_windows(node).update(was_cordoned=False, was_draining=False):
        services.end_drain(node.name)
    reason = f"{WAITS} ({cause})."
    services.set_use(user, node.name, "cordoned", cordoned=True, cordon_reason=reason)
    Node.objects.filter(pk=node.pk).update(checks_needed=rounds)
    return _ask(node, cause)


def _ask(node: Node, cause: str) -> NodeCheck:
    """Have a node run a round now, instead of one that waits."""
    NodeCheck.objects.filter(node=node, state=NodeCheckState.WAITING).delete()
    made = NodeCheck.objects.create(node=node, cause=cause, due_at=timezone.now())
    nodes_with_work.forget()
    return made


@transaction.atomic
def check(admin: User, name: str, rounds: int) -> NodeCheck:
    """Have a node pass so many rounds before it is used again, and record who asked for it. Raises
    NotFound."""
    node = queries.find(name)
    made = require(node, rounds, "admin", admin)
    audit.record("node.check", "node", node.pk, name, after={"rounds": rounds})
    return made


def of_node(name: str) -> QuerySet[NodeCheck]:
    """Return the rounds of a node. Raises NotFound."""
    return NodeCheck.objects.filter(node=queries.find(name))


# --- what nodes are sent, and what they report


def _due() -> QuerySet[NodeCheck]:
    """Return the rounds that are due on nodes without tasks: a check needs the GPUs for itself."""
    busy = Exists(ports.attempts_on.call(OuterRef("node")))
    waiting = NodeCheck.objects.filter(state=NodeCheckState.WAITING, due_at__lte=timezone.now())
    return waiting.exclude(busy).order_by()


def _rounds_by_node() -> dict[UUID, list[UUID]]:
    """Return the rounds that are due, by each node that runs one or listens for it."""
    found: dict[UUID, list[UUID]] = {}
    for pk, node_id, peers in _due().values_list("pk", "node_id", "peers"):
        for concerned in {node_id, *peer_checks.nodes_of(peers)}:
            found.setdefault(concerned, []).append(pk)
    return found


nodes_with_work = NodesWithWork(_rounds_by_node)


NOTHING = NodeChecks().model_dump_json()


def frame(node_id: UUID) -> str:
    """Return the round that a node shall run now (an empty id when there is none), and what it
    listens for."""
    concerned = nodes_with_work().get(node_id)
    if concerned is None:
        return NOTHING
    with transaction.atomic():
        rounds = _due().filter(pk__in=concerned).select_related("node")
        own = rounds.filter(node=node_id).select_for_update(of=("self",), no_key=True).first()
        asked = NodeChecks(
            check_id=str(own.pk) if own else "",
            peers=peer_checks.of_round(own) if own else [],
            least_mb_s=settings.SKEP_NODE_CHECK_MB_S,
            listens=peer_checks.listens(node_id, rounds),
        )
    return asked.model_dump_json()


@transaction.atomic
def apply_reports(node_id: UUID, reports: Sequence[CheckReport]) -> None:
    """Store how a node fared; a report of a round that it was not asked for changes nothing."""
    for report in reports:
        node = Node.objects.select_for_update(no_key=True).get(pk=node_id)
        waiting = node.checks.filter(state=NodeCheckState.WAITING).first()
        if waiting is not None and str(waiting.pk) == report.check_id:
            _finish(node, waiting, report)


def _finish(node: Node, check: NodeCheck, report: CheckReport) -> None:
    results = [one.model_dump() for one in report.results[:MAX_RESULTS]]
    for one in results:
        one["message"] = one["message"].replace("\0", "")[:MAX_MESSAGE]
    failed = peer_checks.count_as_failed(results)
    passed = bool(results) and not failed
    check.state = NodeCheckState.PASSED if passed else NodeCheckState.FAILED
    check.results, check.finished_at = results, timezone.now()
    check.save(update_fields=["state", "results", "finished_at", "updated_at"])
    old = node.checks.order_by("-pk").values("pk")[KEPT:]
    NodeCheck.objects.filter(pk__in=[row["pk"] for row in old]).delete()
    _follow(node, check, failed)
    _note_peers(node, check)
    nodes_with_work.forget()


def _note_peers(node: Node, check: NodeCheck) -> None:
    """Record which nodes could not be reached well by one that passed."""
    if check.state == NodeCheckState.PASSED:
        for one in (one for one in check.results if not one["passed"]):
            message = f"Node {node.name} passed its checks, but for {one['name']}: {one['message']}"
            record("node", node.pk, "node.peer_not_reached", message[:500], check=str(check.pk))


def _follow(node: Node, check: NodeCheck, failed: Sequence[Mapping[str, Any]]) -> None:
    if check.state == NodeCheckState.FAILED:
        why = "; ".join(f"{one['name']}: {one['message']}" for one in failed) or "nothing was run"
        message = f"Node {node.name} failed its checks: {why}"[:500]
        record("node", node.pk, "node.check_failed", message, check=str(check.pk))
        if node.checks_needed:
            reason = f"Failed its checks: {why}"[:300]
            services.set_use(None, node.name, "cordoned", cordoned=True, cordon_reason=reason)
            _repeat(node, node.checks_needed, AFTER_FAILURE)
    elif node.checks_needed > 1:
        _repeat(node, node.checks_needed - 1, AGAIN)
    elif node.checks_needed == 1:
        _release(node)


def _release(node: Node) -> None:
    """Use a node that has passed; where a window of maintenance is on, at its end."""
    window = services.active_windows(node).first()
    if window is None:
        services.uncordon(None, node.name)
        return
    Node.objects.filter(pk=node.pk).update(checks_needed=0)
    # A server of an earlier version took the cordon for one of others.
    services.active_windows(node).update(was_cordoned=False, was_draining=False)
    services.set_use(None, node.name, "cordoned", cordon_reason=window.cordon_reason)


def _repeat(node: Node, needed: int, after: timedelta) -> None:
    Node.objects.filter(pk=node.pk).update(checks_needed=needed)
    due_at = timezone.now() + after
    NodeCheck.objects.create(node=node, cause="repeated", due_at=due_at)


TAGS = ["nodes"]


class CheckResultSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(
        help_text="disk, network, gpu and its UUID, or peer and the name of a node."
    )
    passed = serializers.BooleanField()
    message = serializers.CharField(allow_blank=True)
    numbers = serializers.DictField(child=serializers.FloatField())


class NodeCheckSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    cause = serializers.CharField(help_text="joined, maintenance, admin or repeated.")
    state = serializers.ChoiceField(NodeCheckState.values)
    due_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    results = CheckResultSerializer(many=True)


class NodeCheckBody(Body):
    rounds = serializers.IntegerField(
        min_value=1,
        max_value=MOST_NEEDED,
        required=False,
        help_text="Rounds to pass in a row before the node is used again; default 1.",
    )


class NodeChecksView(APIView):
    permission_classes = (AdminWrites,)

    @paged("list_node_checks", NodeCheckSerializer, TAGS)
    def get(self, request: Request, name: str) -> Response:
        """List the rounds of checks of a node, newest first."""
        return page(request, of_node(name), _show, "id", descending=True)

    @extend_schema(
        operation_id="check_node",
        request=NodeCheckBody,
        responses={201: NodeCheckSerializer},
        tags=TAGS,
    )
    def post(self, request: Request, name: str) -> Response:
        """Cordon a node, check it when no task is there, and use it again when it has passed."""
        rounds = validated(NodeCheckBody, request).get("rounds", 1)
        made = check(current_user.admin(request), name, rounds)
        return Response(_show([made])[0], status=201)


def _show(checks: Sequence[NodeCheck]) -> list[Any]:
    return list(NodeCheckSerializer(checks, many=True).data)


def joined(node: Node) -> None:
    """Have a node that has just joined, maybe in the place of a lost one, pass its checks, where
    the setting says so. One that an admin or a rule has cordoned stays so whatever they find."""
    rounds = on_join()
    if rounds and node.cordoned and not services.cordon_is_temporary(node):
        _ask(node, "joined")
    elif rounds:
        require(node, rounds, "joined")
