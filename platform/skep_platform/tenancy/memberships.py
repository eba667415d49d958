"""Who belongs to a virtual cluster, and in which role.

Roles are granted to users and to groups (`RoleGrant`). What a user may do is the highest of these
grants; it is stored as one `Membership` row, which every list, count and socket reads. `refresh`
derives those rows; all writes to grants and groups end with it, in their transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.dispatch import Signal

from skep_platform.accounts import groups, queries
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import ports
from skep_platform.core.errors import Conflict, NotFound
from skep_platform.core.events import record
from skep_platform.tenancy.models import Membership, Role, RoleGrant, VirtualCluster

# Sent with `users`, the ids of users whose memberships changed.
memberships_changed = Signal()

RANKS = {role: rank for rank, role in enumerate(Role.values)}


@transaction.atomic
def set_member(
    actor: User | None, vc: VirtualCluster, username: str, role: str, *, confirm: bool = False
) -> None:
    """Give a user a role. Raises NotFound for an unknown user, and Conflict `last_vc_admin` where
    no VC admin would be left and that was not confirmed."""
    groups.lock()
    member = queries.people().filter(username=username).first()
    if member is None:
        raise NotFound(f"There is no user named {username}.")
    before, held = _admins(vc), _granted(vc, user=member)
    RoleGrant.objects.update_or_create(vc=vc, user=member, defaults={"role": Role(role)})
    now = {"role": role}
    audit.record("vc.member.set", "user", member.pk, username, before=held, after=now, vc=vc)
    data = {"username": username, "role": role}
    record(
        "vc", vc.pk, "member.set", f"{username} is {role} of {vc.name}.", actor=_who(actor), **data
    )
    refresh(vcs=[vc.pk], users=[member.pk], actor=_who(actor))
    _check_admins(vc, before, confirm)


@transaction.atomic
def remove_member(
    actor: User | None, vc: VirtualCluster, username: str, *, confirm: bool = False
) -> None:
    """Take a user's role away; the user's jobs in this virtual cluster stop. Raises NotFound when
    it is not a member, Conflict `member_by_group` when it remains one through a group, and
    `last_vc_admin` where no VC admin would be left and that was not confirmed."""
    groups.lock()
    members = Membership.objects.filter(vc=vc, user__is_service_account=False)
    membership = members.filter(user__username=username).first()
    if membership is None:
        raise NotFound(f"{username} is not a member of {vc.name}.")
    before = _admins(vc)
    by_group = RoleGrant.objects.filter(vc=vc, group__members__user=membership.user_id)
    names = list(by_group.order_by("group__name").values_list("group__name", flat=True))
    if names:
        message = (
            f"{username} is in {vc.name} through {_listed(names)}: remove {username} there, or "
            f"the role of {_listed(names)} in {vc.name}."
        )
        raise Conflict(message, code="member_by_group", username=username, groups=names)
    was = {"role": membership.role}
    audit.record("vc.member.remove", "user", membership.user_id, username, before=was, vc=vc)
    RoleGrant.objects.filter(vc=vc, user=membership.user_id).delete()
    message = f"{username} left {vc.name}."
    record("vc", vc.pk, "member.removed", message, actor=_who(actor), username=username)
    refresh(vcs=[vc.pk], users=[membership.user_id], actor=_who(actor))
    _check_admins(vc, before, confirm)


@transaction.atomic
def set_group(
    actor: User | None, vc: VirtualCluster, name: str, role: str, *, confirm: bool = False
) -> None:
    """Give all users of a group a role. Raises NotFound for an unknown group, Conflict
    `last_vc_admin` as `set_member` does."""
    groups.lock()
    group, before = groups.find(name), _admins(vc)
    held, now = _granted(vc, group=group), {"role": role}
    audit.record("vc.group.set", "group", group.pk, name, before=held, after=now, vc=vc)
    RoleGrant.objects.update_or_create(vc=vc, group=group, defaults={"role": Role(role)})
    message = f"The group {name} is {role} of {vc.name}."
    data = {"group": name, "role": role}
    record("vc", vc.pk, "member.group_set", message, actor=_who(actor), **data)
    refresh(vcs=[vc.pk], actor=_who(actor))
    _check_admins(vc, before, confirm)


@transaction.atomic
def remove_group(
    actor: User | None, vc: VirtualCluster, name: str, *, confirm: bool = False
) -> None:
    """Take a group's role away; jobs of users who then have none stop. Raises NotFound when it has
    none, Conflict `last_vc_admin` as `set_member` does."""
    groups.lock()
    before = _admins(vc)
    grant = RoleGrant.objects.filter(vc=vc, group__name=name).first()
    if grant is None:
        raise NotFound(f"The group {name} has no role in {vc.name}.")
    was = {"role": grant.role}
    audit.record("vc.group.remove", "group", grant.group_id or "", name, before=was, vc=vc)
    grant.delete()
    message = f"The group {name} left {vc.name}."
    record("vc", vc.pk, "member.group_removed", message, actor=_who(actor), group=name)
    refresh(vcs=[vc.pk], actor=_who(actor))
    _check_admins(vc, before, confirm)


def refresh(
    *, vcs: Sequence[UUID] | None = None, users: Sequence[int] | None = None, actor: str = ""
) -> None:
    """Derive the memberships of these virtual clusters and users (None: of all) from the grants,
    within the caller's transaction, which holds `groups.lock`. The jobs that a user may no longer
    run stop. A constant number of statements, and one more for each user who lost a role."""
    wanted = _wanted(vcs, users)
    present = {(m.vc_id, m.user_id): m for m in Membership.objects.filter(_within(vcs, users))}
    gone = [m for key, m in present.items() if key not in wanted]
    changed = [m for key, m in present.items() if wanted.get(key, m.role) != m.role]
    lost = {m.user_id for m in gone}
    for membership in changed:
        membership.role = wanted[membership.vc_id, membership.user_id]
        if membership.role not in Membership.SUBMITTERS:
            lost.add(membership.user_id)
    new = [
        Membership(vc_id=vc, user_id=user, role=role)
        for (vc, user), role in wanted.items()
        if (vc, user) not in present
    ]
    Membership.objects.filter(pk__in=[m.pk for m in gone]).delete()
    Membership.objects.bulk_update(changed, ["role"], batch_size=1000)
    Membership.objects.bulk_create(new, batch_size=1000)
    for user in sorted(lost):
        ports.stop_jobs_of.call(user, actor)
    if affected := {m.user_id for m in (*gone, *changed, *new)}:
        memberships_changed.send(Membership, users=affected)


def refresh_users(users: Sequence[int], actor: str = "") -> None:
    """Derive all memberships of these users, as the port `groups_changed` wants it."""
    refresh(users=users, actor=actor)


def _within(vcs: Sequence[UUID] | None, users: Sequence[int] | None, user: str = "user") -> Q:
    found = Q()
    if vcs is not None:
        found &= Q(vc__in=vcs)
    if users is not None:
        found &= Q(**{f"{user}__in": users})
    return found


def _wanted(vcs: Sequence[UUID] | None, users: Sequence[int] | None) -> dict[tuple[UUID, int], str]:
    """Return {(virtual cluster, user): role}: the highest of the grants."""
    own = RoleGrant.objects.exclude(user=None).filter(_within(vcs, users))
    member = "group__members__user"
    by_group = RoleGrant.objects.exclude(**{member: None}).filter(_within(vcs, users, member))
    roles: dict[tuple[UUID, int], str] = {}
    for vc, user, role in (
        *own.values_list("vc", "user", "role"),
        *by_group.values_list("vc", member, "role"),
    ):
        held = roles.get((vc, user))
        if held is None or RANKS[role] > RANKS[held]:
            roles[vc, user] = role
    return roles


def sources(
    vc: VirtualCluster, users: Iterable[int]
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Return the roles that these users were given themselves, and the names of the groups through
    which they have one. Two queries."""
    ids = list(users)
    own = RoleGrant.objects.filter(vc=vc, user__in=ids).values_list("user", "role")
    named = RoleGrant.objects.filter(vc=vc, group__members__user__in=ids).order_by("group__name")
    through: dict[int, list[str]] = defaultdict(list)
    for user, group in named.values_list("group__members__user", "group__name"):
        through[user].append(group)
    return dict(own), through


def group_grants(vc: VirtualCluster) -> Any:
    """Return the grants to groups by name of the group, each with `group`."""
    grants = RoleGrant.objects.filter(vc=vc).exclude(group=None)
    return grants.select_related("group").order_by("group__name")


def _granted(vc: VirtualCluster, **to: Any) -> dict[str, str]:
    """Return {"role": role} as granted to a user or a group itself; empty without a grant."""
    role = RoleGrant.objects.filter(vc=vc, **to).values_list("role", flat=True).first()
    return {"role": role} if role else {}


def _admins(vc: VirtualCluster) -> list[str]:
    """Return the names of one or two VC admins."""
    found = Membership.objects.filter(vc=vc, role=Role.ADMIN).order_by("pk")
    return list(found.values_list("user__username", flat=True)[:2])


def _check_admins(vc: VirtualCluster, before: list[str], confirm: bool) -> None:
    """Raises Conflict when there were VC admins and none is left, unless that was confirmed."""
    if before and not confirm and not _admins(vc):
        message = (
            f"{before[0]} is the last VC admin of {vc.name}: name another one first, or confirm "
            "that only platform admins shall manage it."
        )
        raise Conflict(message, code="last_vc_admin", username=before[0])


def _listed(names: Sequence[str]) -> str:
    kind = "the group" if len(names) == 1 else "the groups"
    return f"{kind} {', '.join(names)}"


def _who(actor: User | None) -> str:
    return actor.get_username() if actor else ""
