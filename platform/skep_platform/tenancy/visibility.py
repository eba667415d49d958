"""Who sees which jobs: the one rule behind every list, count, search, socket and download.

A job is seen by its owner, by the managers of its virtual cluster and by admins. Its own
`visibility`, or else the `job_visibility` of its virtual cluster, may open it to the members of
that virtual cluster or to every user.

The rule stands here, below the app of jobs, because nodes and cells show who uses them and know
no jobs: they reach the columns by the names of reverse relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import OuterRef, Q, Subquery

from skep_platform.tenancy.models import Membership, VirtualCluster, Visibility

AnyUser = Any  # User or AnonymousUser, as `request.user` is
MAX_BRANCHES = 16  # virtual clusters that are looked into one by one


def of_jobs(user: AnyUser, path: str = "") -> Q:
    """The condition that a user may see a job. `path` leads to the job from the table that is
    filtered, such as "attempt__job__"; empty for the table of jobs itself. Admins see all."""
    if getattr(user, "is_admin", False):
        return ~Q(pk__in=[])
    mine = Membership.objects.filter(user_id=user.pk).order_by()
    managed = mine.filter(role=Membership.Role.MANAGER)
    members = VirtualCluster.objects.filter(
        job_visibility=Visibility.MEMBERS, pk__in=mine.values("vc")
    )
    everyone = VirtualCluster.objects.filter(job_visibility=Visibility.EVERYONE)
    own, shared = f"{path}visibility", f"{path}vc__in"
    return (
        Q(**{f"{path}owner_id": user.pk})
        | Q(**{shared: managed.values("vc")})
        | Q(**{own: Visibility.EVERYONE})
        | Q(**{own: Visibility.MEMBERS, shared: mine.values("vc")})
        | Q(**{own: "", shared: members.values("pk")})
        | Q(**{own: "", shared: everyone.values("pk")})
    )


def branches(user: AnyUser) -> Sequence[Q]:
    """The same condition as alternatives, each of which an index of jobs answers in order of
    submission; empty for admins, who see all. One query."""
    if getattr(user, "is_admin", False):
        return ()
    own = Membership.objects.filter(vc=OuterRef("pk"), user_id=user.pk).values("role")[:1]
    known = VirtualCluster.objects.annotate(own_role=Subquery(own)).filter(
        Q(own_role__isnull=False) | Q(job_visibility=Visibility.EVERYONE)
    )
    managed, shared, joined = [], [], []
    for pk, role, visibility in known.values_list("pk", "own_role", "job_visibility"):
        if role == Membership.Role.MANAGER:
            managed.append(pk)
            continue
        if role is not None:
            joined.append(pk)
        if visibility != Visibility.OWNER:
            shared.append(pk)
    return [
        Q(owner_id=user.pk),
        Q(visibility=Visibility.EVERYONE),
        *_in(managed),
        *(q & Q(visibility=Visibility.MEMBERS) for q in _in(joined)),
        *(q & Q(visibility="") for q in _in(shared)),
    ]


def _in(vcs: Sequence[Any]) -> list[Q]:
    """One alternative for each virtual cluster, so that its index gives the jobs in order."""
    if len(vcs) > MAX_BRANCHES:
        return [Q(vc__in=vcs)]
    return [Q(vc=vc) for vc in vcs]
