"""Who sees which jobs: the one rule behind every list, count, search, socket and download.

A job is seen by its owner, by VC admins and by admins, and by whom its owner shared it with: rows
of `JobShare` name users and groups. With the token of a job only the jobs of its virtual cluster
are seen, as a member sees them. Its own
`visibility`, or else the `job_visibility` of its virtual cluster, may open it to the members of
that virtual cluster or to every user. Lower apps, which show who uses nodes and cells, ask by the
ports of `core.ports`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import OuterRef, Q, QuerySet, Subquery

from skep_platform.jobs.models import JobShare
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Membership, Role, VirtualCluster, Visibility

AnyUser = Any  # User or AnonymousUser, as `request.user` is
MAX_BRANCHES = 16  # virtual clusters that are looked into one by one
FEW = 1000  # shared jobs that are named one by one


def shared_with(user: AnyUser) -> QuerySet[JobShare, Any]:
    """Select the ids of the jobs that were shared with a user, alone or as one of a group."""
    to_user = JobShare.objects.filter(user_id=user.pk).values("job").order_by()
    to_groups = JobShare.objects.filter(group__members__user_id=user.pk).values("job").order_by()
    return to_user.union(to_groups, all=True)


def of_jobs(user: AnyUser, path: str = "") -> Q:
    """Return the condition that a user may see a job. `path` leads to the job from the table that
    is filtered, such as "attempt__job__"; empty for the table of jobs itself. Admins see all."""
    if getattr(user, "is_admin", False):
        return ~Q(pk__in=[])
    mine = Membership.objects.filter(user_id=user.pk).order_by()
    only = tenancy.only_vc(user)
    managed = mine.filter(role=Role.ADMIN) if only is None else mine.none()
    members = VirtualCluster.objects.filter(
        job_visibility=Visibility.MEMBERS, pk__in=mine.values("vc")
    )
    everyone = VirtualCluster.objects.filter(job_visibility=Visibility.EVERYONE)
    own, shared = f"{path}visibility", f"{path}vc__in"
    seen = (
        Q(**{f"{path}owner_id": user.pk})
        | Q(**{shared: managed.values("vc")})
        | Q(**{f"{path}pk__in": shared_with(user)})
        | Q(**{own: Visibility.EVERYONE})
        | Q(**{own: Visibility.MEMBERS, shared: mine.values("vc")})
        | Q(**{own: "", shared: members.values("pk")})
        | Q(**{own: "", shared: everyone.values("pk")})
    )
    return seen if only is None else seen & Q(**{f"{path}vc": only})


def branches(user: AnyUser) -> Sequence[Q]:
    """Return the same condition as alternatives, each of which an index of jobs answers in order of
    submission; empty for admins, who see all. Two queries."""
    if getattr(user, "is_admin", False):
        return ()
    if tenancy.only_vc(user) is not None:
        return [of_jobs(user)]
    own = Membership.objects.filter(vc=OuterRef("pk"), user_id=user.pk).values("role")[:1]
    known = VirtualCluster.objects.annotate(own_role=Subquery(own)).filter(
        Q(own_role__isnull=False) | Q(job_visibility=Visibility.EVERYONE)
    )
    managed, shared, joined = [], [], []
    for pk, role, visibility in known.values_list("pk", "own_role", "job_visibility"):
        if role == Role.ADMIN:
            managed.append(pk)
            continue
        if role is not None:
            joined.append(pk)
        if visibility != Visibility.OWNER:
            shared.append(pk)
    return [
        Q(owner_id=user.pk),
        *_shared(user),
        Q(visibility=Visibility.EVERYONE),
        *_in(managed),
        *(q & Q(visibility=Visibility.MEMBERS) for q in _in(joined)),
        *(q & Q(visibility="") for q in _in(shared)),
    ]


def _shared(user: AnyUser) -> list[Q]:
    """Return the alternative of jobs that were shared with the user, by their ids where they are
    few: the database guesses their number badly, and would walk past the jobs of all others."""
    ids = [row["job"] for row in shared_with(user)[: FEW + 1]]
    if len(ids) > FEW:
        return [Q(pk__in=shared_with(user))]
    return [Q(pk__in=ids)] if ids else []


def _in(vcs: Sequence[Any]) -> list[Q]:
    """Return one alternative for each virtual cluster, so that its index gives the jobs in
    order."""
    if len(vcs) > MAX_BRANCHES:
        return [Q(vc__in=vcs)]
    return [Q(vc=vc) for vc in vcs]
