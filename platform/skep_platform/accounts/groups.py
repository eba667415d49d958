"""Groups of users: all reads and writes.

A group gets roles in virtual clusters, and its users have them. Who joins or leaves one therefore
changes what the user may do: every write ends with the port `groups_changed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.core.exceptions import ValidationError
from django.db import IntegrityError, connection, transaction
from django.db.models import Count, F, QuerySet

from skep_platform.accounts import queries
from skep_platform.accounts.models import GROUP_NAME, Group, GroupMember, User
from skep_platform.audit import services as audit
from skep_platform.core import ports
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record

CHANGEABLE = ("name", "description", "external_name")


def all_groups() -> QuerySet[Group]:
    """Return all groups by name, each with `members_count`."""
    return Group.objects.annotate(members_count=Count("members")).order_by("name")


def find(name: str) -> Group:
    """Return a group with `members_count`. Raises NotFound."""
    group = all_groups().filter(name=name).first()
    if group is None:
        raise NotFound(f"There is no group named {name}.")
    return group


def members(group: Group) -> QuerySet[GroupMember]:
    """Return the members by name, each with `username`."""
    rows = GroupMember.objects.filter(group=group).annotate(username=F("user__username"))
    return rows.order_by("username")


def names_of(user: User) -> list[str]:
    """Return the names of the user's groups."""
    found = Group.objects.filter(members__user=user).order_by("name")
    return list(found.values_list("name", flat=True))


def lock() -> None:
    """Wait for other transactions that change groups or roles. Two of them at once would each
    derive memberships without what the other one adds."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('skep_memberships'))")


@transaction.atomic
def create(actor: User, name: str, description: str = "", external_name: str = "") -> Group:
    """Create an empty group. Raises Conflict `name_taken` and `external_name_taken`, SkepError
    `name_invalid`."""
    group = Group(name=name, description=description, external_name=external_name)
    _save(group)
    record("group", group.pk, "group.created", f"Group {name} was created.", actor=str(actor))
    audit.record("group.create", "group", group.pk, name, after=_audited(group))
    return group


@transaction.atomic
def update(actor: User, group: Group, **changes: str) -> Group:
    """Set any of name, description, external_name. Raises what `create` does."""
    before = {field: getattr(group, field) for field in CHANGEABLE}
    for field in before.keys() & changes.keys():
        setattr(group, field, changes[field])
    _save(group)
    message = f"Group {group.name} was changed: {', '.join(sorted(changes))}."
    data = {"before": before, "after": changes}
    record("group", group.pk, "group.changed", message, actor=str(actor), **data)
    after = _audited(group)
    audit.record("group.update", "group", group.pk, group.name, before=before, after=after)
    return group


@transaction.atomic
def delete(actor: User, group: Group) -> None:
    """Delete a group. Its users lose the roles that they had only through it, and their jobs there
    stop."""
    lock()
    users = list(GroupMember.objects.filter(group=group).values_list("user_id", flat=True))
    record("group", group.pk, "group.deleted", f"Group {group.name} was deleted.", actor=str(actor))
    before = {**_audited(group), "members": len(users)}
    audit.record("group.delete", "group", group.pk, group.name, before=before)
    group.delete()
    ports.groups_changed.call(users, str(actor))


@transaction.atomic
def add_members(actor: User | None, group: Group, usernames: Sequence[str]) -> None:
    """Add users. One whom the identity provider added stays when it no longer names the group.
    Raises NotFound for an unknown user, and where the group was deleted meanwhile; then no one is
    added."""
    lock()
    if not Group.objects.filter(pk=group.pk).exists():
        raise NotFound(f"There is no group named {group.name}.")
    users = _users(usernames)
    GroupMember.objects.bulk_create(
        [GroupMember(group=group, user=user) for user in users],
        update_conflicts=True,
        unique_fields=["group", "user"],
        update_fields=["external"],
    )
    _changed(actor, group, "joined", users)


@transaction.atomic
def remove_member(actor: User | None, group: Group, username: str) -> None:
    """Take a user out. The user's jobs stop where the user has no role any more. Raises NotFound
    when it is not a member."""
    lock()
    rows = GroupMember.objects.filter(group=group, user__username=username).select_related("user")
    member = rows.first()
    if member is None:
        raise NotFound(f"{username} is not in the group {group.name}.")
    member.delete()
    _changed(actor, group, "left", [member.user])


@transaction.atomic
def set_external(user: User, external_names: Iterable[str]) -> None:
    """Follow the identity provider, which named these of its groups for the user at login: join
    those that have one of our groups, and leave those that the provider added before and no longer
    names. Memberships that an admin made stay."""
    lock()
    named = {name for name in external_names if name}
    wanted = {group.pk: group for group in Group.objects.filter(external_name__in=named)}
    present = GroupMember.objects.filter(user=user).select_related("group")
    known = {member.group_id for member in present}
    left = [member for member in present if member.external and member.group_id not in wanted]
    joined = [group for pk, group in wanted.items() if pk not in known]
    GroupMember.objects.filter(pk__in=[member.pk for member in left]).delete()
    GroupMember.objects.bulk_create(
        GroupMember(group=group, user=user, external=True) for group in joined
    )
    for group in joined:
        _record(None, group, "joined", [user])
    for member in left:
        _record(None, member.group, "left", [user])
    if joined or left:
        ports.groups_changed.call([user.pk])


def _users(usernames: Sequence[str]) -> list[User]:
    found = list(queries.people().filter(username__in=usernames))
    missing = sorted(set(usernames) - {user.username for user in found})
    if missing:
        raise NotFound(f"There is no user named {missing[0]}.", missing=missing[:100])
    return found


def _changed(actor: User | None, group: Group, verb: str, users: Sequence[User]) -> None:
    _record(actor, group, verb, users)
    ports.groups_changed.call([user.pk for user in users], str(actor or ""))


def _record(actor: User | None, group: Group, verb: str, users: Sequence[User]) -> None:
    names = [user.username for user in users]
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    message = f"{shown} {verb} the group {group.name}."
    data = {"usernames": names[:1000]}
    record("group", group.pk, f"group.{verb}", message, actor=str(actor or ""), **data)
    action = "group.member.add" if verb == "joined" else "group.member.remove"
    audit.record(action, "group", group.pk, group.name, usernames=names[:200], users=len(names))


def _audited(group: Group) -> dict[str, str]:
    return {field: getattr(group, field) for field in CHANGEABLE}


def _save(group: Group) -> None:
    try:
        GROUP_NAME(group.name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=group.name[:100]) from None
    try:
        with transaction.atomic():
            group.save()
    except IntegrityError as error:
        if "external" in str(error):
            message = f"Another group follows {group.external_name} of the identity provider."
            details = {"external_name": group.external_name}
            raise Conflict(message, code="external_name_taken", **details) from None
        message = f"A group named {group.name} exists."
        raise Conflict(message, code="name_taken", name=group.name) from None
