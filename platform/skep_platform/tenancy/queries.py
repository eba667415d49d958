"""All reads of virtual clusters, and who may do what in them.

Rows of higher apps (jobs, leases) are reached by the names of their reverse relations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.models import Count, F, OuterRef, QuerySet, Subquery

from skep_platform.core.errors import NotFound
from skep_platform.tenancy.models import Membership, VirtualCluster

AnyUser = Any  # User or AnonymousUser, as `request.user` is


def visible_to(user: AnyUser) -> QuerySet[VirtualCluster]:
    """The virtual clusters that exist for this user: all for an admin, else those it belongs to."""
    vcs = VirtualCluster.objects.all()
    if is_admin(user):
        return vcs
    return vcs.filter(memberships__user_id=user.pk)


def own_names(user: AnyUser) -> set[str] | None:
    """The names of virtual clusters that the user may be told; None for an admin: all of them."""
    return None if is_admin(user) else set(visible_to(user).values_list("name", flat=True))


def find(user: AnyUser, name: str) -> VirtualCluster:
    """Raises NotFound, also when it exists and the user may not know."""
    vc = visible_to(user).filter(name=name).first()
    if vc is None:
        raise NotFound(f"There is no virtual cluster named {name}.")
    return vc


def may_submit(user: AnyUser, vc: VirtualCluster) -> bool:
    return is_admin(user) or role_in(user, vc) is not None


def manages(user: AnyUser, vc: VirtualCluster) -> bool:
    return is_admin(user) or role_in(user, vc) == Membership.Role.MANAGER


def role_in(user: AnyUser, vc: VirtualCluster) -> str | None:
    rows = Membership.objects.filter(vc=vc, user_id=user.pk)
    return rows.values_list("role", flat=True).first()


def is_admin(user: AnyUser) -> bool:
    return bool(getattr(user, "is_admin", False))


def usage(vcs: Iterable[VirtualCluster]) -> dict[UUID, dict[str, int]]:
    """GPUs in use by model for each virtual cluster, from active leases, in one query."""
    used: dict[UUID, dict[str, int]] = defaultdict(dict)
    rows = (
        VirtualCluster.objects.filter(
            pk__in=[vc.pk for vc in vcs],
            jobs__attempts__leases__released_at__isnull=True,
            jobs__attempts__leases__isnull=False,
        )
        .values("pk", model=F("jobs__attempts__leases__device__model"))
        .annotate(gpus=Count("jobs__attempts__leases__device", distinct=True))
        .order_by()
    )
    for row in rows:
        used[row["pk"]][row["model"]] = row["gpus"]
    return used


def with_facts(vcs: QuerySet[VirtualCluster], user: AnyUser) -> QuerySet[VirtualCluster]:
    """Adds what the API shows: `quotas`, `cells` and `pinned_cells` loaded, `members_count`, and
    the caller's `own_role`."""
    members = Membership.objects.filter(vc=OuterRef("pk")).order_by()
    counted = members.values("vc").annotate(n=Count("pk")).values("n")
    own = members.filter(user_id=user.pk).values("role")[:1]
    return vcs.annotate(members_count=Subquery(counted), own_role=Subquery(own)).prefetch_related(
        "quotas", "cells", "pinned_cells"
    )


def members(vc: VirtualCluster) -> QuerySet[Membership]:
    """With `username`."""
    return Membership.objects.filter(vc=vc).annotate(username=F("user__username"))
