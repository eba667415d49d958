"""All reads of virtual clusters, and who may do what in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import Count, F, OuterRef, QuerySet, Subquery

from skep_platform.core import ports
from skep_platform.core.errors import Forbidden, NotFound
from skep_platform.tenancy.models import Membership, Role, VirtualCluster

AnyUser = Any  # User or AnonymousUser, as `request.user` is


def visible_to(user: AnyUser) -> QuerySet[VirtualCluster]:
    """Return the virtual clusters that exist for this user: all for an admin, else its own; with
    the token of a job that of the job."""
    vcs = VirtualCluster.objects.all()
    if (only := only_vc(user)) is not None:
        vcs = vcs.filter(pk=only)
    if is_admin(user) or (only and user.is_superuser):
        return vcs
    return vcs.filter(memberships__user_id=user.pk)


def own_names(user: AnyUser) -> set[str] | None:
    """Return the names of the virtual clusters that the user may know; None for an admin: all."""
    return None if is_admin(user) else set(visible_to(user).values_list("name", flat=True))


def find(user: AnyUser, name: str) -> VirtualCluster:
    """Return a virtual cluster. Raises NotFound, also when it exists and the user may not know."""
    vc = visible_to(user).filter(name=name).first()
    if vc is None:
        raise NotFound(f"There is no virtual cluster named {name}.")
    return vc


def may_submit(user: AnyUser, vc: VirtualCluster) -> bool:
    """Return whether the user may run jobs there: members and VC admins may, viewers may not."""
    if is_admin(user):
        return True
    return _role(user, vc) in Membership.SUBMITTERS


def manages(user: AnyUser, vc: VirtualCluster) -> bool:
    return is_admin(user) or _role(user, vc) == Role.ADMIN


def managing(user: AnyUser, name: str) -> VirtualCluster | None:
    """Return the virtual cluster that is to manage what the user creates; None without a name: it
    is managed by admins. Raises Forbidden, and NotFound."""
    if not name:
        if not is_admin(user):
            message = "Only an admin may do this; VC admins name a virtual cluster in managed_by."
            raise Forbidden(message)
        return None
    vc = find(user, name)
    if not manages(user, vc):
        raise Forbidden(f"Only VC admins of {vc.name} and admins may do this.")
    return vc


def check_manages(user: AnyUser, managed_by: VirtualCluster | None, kind: str) -> None:
    """Raises Forbidden where the user is no admin, and no VC admin of what manages a thing of this
    kind, such as "image"."""
    if managed_by is not None and manages(user, managed_by):
        return
    if not is_admin(user):
        raise Forbidden(f"Only an admin, or a VC admin of what manages the {kind}, may do this.")


def _role(user: AnyUser, vc: VirtualCluster) -> str | None:
    """Return the role, which `with_role` may have added for the user who asks."""
    if only_vc(user) is not None:
        return role_in(user, vc)
    return vc.own_role if hasattr(vc, "own_role") else role_in(user, vc)


def with_role(vcs: QuerySet[VirtualCluster], user: AnyUser) -> QuerySet[VirtualCluster]:
    """Add `own_role`: the role of the user in each, or None."""
    own = Membership.objects.filter(vc=OuterRef("pk"), user_id=user.pk).values("role")[:1]
    return vcs.annotate(own_role=Subquery(own))


def role_in(user: AnyUser, vc: VirtualCluster) -> str | None:
    """Return the role of the user. With the token of a job a VC admin and an admin are members, and
    members of the virtual cluster of the job only."""
    only = only_vc(user)
    if only not in (None, vc.pk):
        return None
    if only and user.is_superuser:
        return Role.MEMBER
    rows = Membership.objects.filter(vc=vc, user_id=user.pk)
    role = rows.values_list("role", flat=True).first()
    return Role.MEMBER if only and role == Role.ADMIN else role


def managed_by(user: AnyUser) -> list[UUID]:
    """Return the ids of the virtual clusters that the user is a VC admin of. One query."""
    if only_vc(user) is not None:
        return []
    rows = Membership.objects.filter(user_id=user.pk, role=Role.ADMIN)
    return list(rows.values_list("vc_id", flat=True))


def ids_of(names: Sequence[str]) -> dict[str, UUID]:
    """Return the ids of the virtual clusters of these names, whoever asks. One query."""
    return dict(VirtualCluster.objects.filter(name__in=names).values_list("name", "pk"))


def is_admin(user: AnyUser) -> bool:
    return bool(getattr(user, "is_admin", False))


def only_vc(user: AnyUser) -> UUID | None:
    """Return the virtual cluster to which the token of a job limits its user; None: it is another
    credential."""
    return getattr(user, "only_vc", None)


def usage(vcs: Iterable[VirtualCluster]) -> dict[UUID, dict[str, int]]:
    """Return the GPUs in use by model for each virtual cluster, from active leases. One query."""
    used: dict[UUID, dict[str, int]] = defaultdict(dict)
    for vc_id, model, gpus in ports.gpus_in_use.call([vc.pk for vc in vcs]):
        used[vc_id][model] = gpus
    return used


def with_facts(vcs: QuerySet[VirtualCluster], user: AnyUser) -> QuerySet[VirtualCluster]:
    """Add what the API shows: `quotas`, `cells` and `pinned_cells` loaded, `members_count`, and
    the caller's `own_role`."""
    people = Membership.objects.filter(vc=OuterRef("pk"), user__is_service_account=False)
    members = people.order_by()
    counted = members.values("vc").annotate(n=Count("pk")).values("n")
    return (
        with_role(vcs, user)
        .annotate(members_count=Subquery(counted))
        .prefetch_related("quotas", "cells", "pinned_cells")
    )


def members(vc: VirtualCluster) -> QuerySet[Membership]:
    """Return the members but for service accounts, each with `username`."""
    people = Membership.objects.filter(vc=vc, user__is_service_account=False)
    return people.annotate(username=F("user__username"))
