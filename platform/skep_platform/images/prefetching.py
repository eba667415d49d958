"""Images that nodes shall have before a task asks for them.

An admin asks for any node; a VC admin for the nodes on which the virtual cluster has its cells, or
may be given them. The agents of these nodes get the complete list of what is not done yet, with
credentials that are read from the sealed ones at that time, check the rules of the virtual cluster
again, and pull one image at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from skep_agent.protocol import (
    MAX_CACHED_IMAGES,
    CachedImage,
    ImageSpec,
    Prefetches,
    PrefetchReport,
    PrefetchSpec,
)
from skep_jobfile.plain import plain
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.cluster.models import Node, NodeState
from skep_platform.cluster.node_work import NodesWithWork
from skep_platform.core import ports
from skep_platform.core.deleting import delete_in_batches
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.images import credentials, rules
from skep_platform.images.models import (
    Image,
    NodeImage,
    NodePrefetch,
    Prefetch,
    PrefetchState,
)
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.limits import limit
from skep_platform.tenancy.models import VirtualCluster

OPEN = (PrefetchState.WAITING, PrefetchState.PULLING)
MAX_OPEN = 20  # of one virtual cluster, and of all admins together
MAX_HOURS = 7 * 24
DEFAULT_HOURS = 24
KEPT = timedelta(days=7)  # after it expired
MAX_BYTES = 2**63 - 1


def request(
    user: User,
    image: Image,
    virtual_cluster: str = "",
    nodes: Sequence[str] = (),
    hours: int = DEFAULT_HOURS,
) -> Prefetch:
    """Ask that an image be pulled to these nodes, or to all of a virtual cluster. Raises Forbidden,
    NotFound, SkepError `nodes_missing` and `image_not_allowed`, Conflict `too_many_prefetches`."""
    vc = tenancy.find(user, virtual_cluster) if virtual_cluster else None
    if not (tenancy.manages(user, vc) if vc else tenancy.is_admin(user)):
        raise Forbidden("Only an admin, or a VC admin who names a virtual cluster, may do this.")
    if vc is not None:
        _check_allowed(vc, image)
    wanted = _nodes(vc, nodes)
    with transaction.atomic():
        if vc is not None:
            VirtualCluster.objects.select_for_update().get(pk=vc.pk)
        _check_open(vc)
        expires_at = timezone.now() + timedelta(hours=hours)
        made = Prefetch.objects.create(
            image=image.name,
            reference=image.reference,
            vc=vc,
            created_by=user,
            expires_at=expires_at,
        )
        NodePrefetch.objects.bulk_create(NodePrefetch(prefetch=made, node=node) for node in wanted)
        after = {"reference": image.reference, "nodes": len(wanted), "hours": hours}
        audit.record("image.prefetch", "image", image.pk, image.name, vc=vc, after=after)
    forget()
    return made


@transaction.atomic
def cancel(user: User, prefetch: Prefetch) -> None:
    """Give up what is not done yet; what was pulled stays. Raises Forbidden."""
    vc = prefetch.vc
    if not (tenancy.manages(user, vc) if vc else tenancy.is_admin(user)):
        raise Forbidden("Only an admin, or a VC admin of its virtual cluster, may do this.")
    prefetch.nodes.filter(state__in=OPEN).update(state=PrefetchState.CANCELLED)
    before = {"reference": prefetch.reference}
    audit.record(
        "image.prefetch_cancel", "image", prefetch.pk, prefetch.image, vc=vc, before=before
    )


def visible_to(user: Any) -> QuerySet[Prefetch]:
    """Select the prefetches that a user may see, with the number of nodes in each state: an admin
    all, a VC admin those for own virtual clusters."""
    counts = {state.lower(): Count("nodes", filter=Q(nodes__state=state)) for state in COUNTED}
    found = Prefetch.objects.select_related("vc", "created_by").annotate(**counts)
    if not tenancy.is_admin(user):
        found = found.filter(vc__in=tenancy.managed_by(user))
    return found


COUNTED = (PrefetchState.WAITING, PrefetchState.PULLING, PrefetchState.DONE, PrefetchState.FAILED)


def find(user: Any, prefetch_id: UUID) -> Prefetch:
    """Return a prefetch. Raises NotFound, also when the user may not see it."""
    found = visible_to(user).filter(pk=prefetch_id).first()
    if found is None:
        raise NotFound("There is no such prefetch.")
    return found


def _check_allowed(vc: VirtualCluster, image: Image) -> None:
    listed = image.virtual_clusters.all()
    if listed.exists() and not listed.filter(pk=vc.pk).exists():
        raise NotFound(f"There is no image named {image.name} for {vc.name}.")
    found = rules.check(vc, image.reference)
    if not found["allowed"]:
        message = f"Jobs of {vc.name} may not use {image.reference}: {found['reason']}"
        raise SkepError(message, code="image_not_allowed", image=image.reference)


def _nodes(vc: VirtualCluster | None, names: Sequence[str]) -> list[Node]:
    own = ports.nodes_of_vc.call(vc.name) if vc is not None else None
    if own is None and not names:
        message = "Say where: name nodes, or a virtual cluster."
        raise SkepError(message, code="nodes_missing")
    if own is not None and (foreign := sorted(set(names) - own)):
        message = f"{vc.name if vc else ''} has no cells on {foreign[0][:63]}."
        raise NotFound(message, nodes=foreign[:20])
    wanted = set(names) or own or set()
    found = list(Node.objects.exclude(state=NodeState.REMOVED).filter(name__in=wanted))
    if missing := sorted(set(names) - {node.name for node in found}):
        raise NotFound(f"There is no node named {missing[0][:63]}.", nodes=missing[:20])
    if not found:
        message = "The virtual cluster has no cells on any node."
        raise SkepError(message, code="nodes_missing")
    return found


def _check_open(vc: VirtualCluster | None) -> None:
    is_open = NodePrefetch.objects.filter(prefetch=OuterRef("pk"), state__in=OPEN)
    count = Prefetch.objects.filter(Exists(is_open), vc=vc, expires_at__gt=timezone.now()).count()
    if count >= MAX_OPEN:
        message = f"{count} prefetches are not done yet; wait for one, or cancel one."
        raise Conflict(message, code="too_many_prefetches", now=count, most=MAX_OPEN)


# --- what nodes are sent, and what they report


def _open() -> QuerySet[NodePrefetch]:
    return NodePrefetch.objects.filter(
        state__in=OPEN, prefetch__expires_at__gt=timezone.now()
    ).order_by()


# The nodes with images to pull, as far as it is known and fresh.
nodes_with_work = NodesWithWork(
    lambda: frozenset(_open().values_list("node_id", flat=True).distinct())
)
forget = nodes_with_work.forget


NOTHING = Prefetches(images=[]).model_dump_json()


def frame(node_id: UUID) -> str:
    """Return what a node shall pull, with the credentials for it. Four queries at most."""
    if node_id not in nodes_with_work():
        return NOTHING
    rows = list(_open().filter(node=node_id).select_related("prefetch__vc"))
    asked = [row.prefetch for row in rows]
    owners = {one.created_by_id for one in asked if one.created_by_id}
    vcs = {one.vc_id: one.vc for one in asked if one.vc_id}
    logins = credentials.read(owners, vcs.keys())
    patterns = rules.of_many(vcs.keys())
    latest = {pk: bool(limit(vc, "latest_images")) for pk, vc in vcs.items() if vc}
    specs = []
    for one in asked:
        login = logins.login(one.created_by_id or 0, one.vc_id or one.pk, one.reference)
        image = ImageSpec(reference=one.reference, **login)
        spec = PrefetchSpec(prefetch_id=str(one.pk), image=image)
        if one.vc_id:
            rule = {"image_patterns": patterns.get(one.vc_id, [])}
            spec = spec.model_copy(update=rule | {"latest_images": latest[one.vc_id]})
        specs.append(spec)
    return Prefetches(images=specs).model_dump_json()


def apply_reports(node_id: UUID, reports: Sequence[PrefetchReport]) -> None:
    """Store what a node reports of its own prefetches; of others, and of what ended, nothing. One
    statement for each prefetch."""
    newest: dict[UUID, PrefetchReport] = {}
    for report in reports:
        try:
            newest[UUID(report.prefetch_id)] = report
        except ValueError:
            continue
    for prefetch_id, report in newest.items():
        _open().filter(node=node_id, prefetch=prefetch_id).update(**_columns(report))


def _columns(report: PrefetchReport) -> Mapping[str, object]:
    total = min(max(report.total, 0), MAX_BYTES)
    return {
        "state": report.state.upper(),
        "percent": min(max(report.percent, 0), 100),
        "done_bytes": min(max(report.done, 0), MAX_BYTES),
        "total_bytes": total or None,
        "message": plain(report.message.replace("\0", ""))[:300],
        "updated_at": timezone.now(),
    }


@transaction.atomic
def store_images(reported: Mapping[UUID, Sequence[CachedImage]]) -> None:
    """Replace what is known of the images on these nodes: one query, two where something changed
    for any number of nodes, and one more for each node that has images no longer."""
    known: dict[UUID, dict[str, int]] = {node_id: {} for node_id in reported}
    rows = NodeImage.objects.filter(node__in=list(reported))
    for node_id, reference, size in rows.values_list("node_id", "reference", "size"):
        known[node_id][reference] = size
    changed = []
    for node_id, images in reported.items():
        found = {
            one.reference: min(max(one.size, 0), MAX_BYTES)
            for one in images[:MAX_CACHED_IMAGES]
            if 0 < len(one.reference) <= 512 and one.reference.isprintable()
        }
        if gone := known[node_id].keys() - found.keys():
            NodeImage.objects.filter(node=node_id, reference__in=gone).delete()
        changed += [
            NodeImage(node_id=node_id, reference=reference, size=size)
            for reference, size in sorted(found.items())
            if known[node_id].get(reference) != size
        ]
    changed.sort(key=lambda image: image.node_id)  # two of these at once cannot deadlock
    if changed:
        NodeImage.objects.bulk_create(
            changed,
            update_conflicts=True,
            unique_fields=["node", "reference"],
            update_fields=["size"],
        )


def tidy() -> None:
    """End prefetches whose time is over, and delete old ones and the images of removed nodes."""
    now = timezone.now()
    over = NodePrefetch.objects.filter(state__in=OPEN, prefetch__expires_at__lte=now)
    over.update(state=PrefetchState.EXPIRED)
    # Each has a row for each of its nodes.
    delete_in_batches(Prefetch.objects.filter(expires_at__lt=now - KEPT), rows=1)
    delete_in_batches(NodeImage.objects.filter(node__state=NodeState.REMOVED))
