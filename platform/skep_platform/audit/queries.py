"""All reads of the audit log, and who may read which entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from skep_platform.audit.actions import named
from skep_platform.audit.models import AuditEntry, first_id_at
from skep_platform.core import ports
from skep_platform.core.database.plans import fetch_planned
from skep_platform.core.errors import SkepError

AnyUser = Any  # User or AnonymousUser, as `request.user` is
MAX_BRANCHES = 16  # alternatives that are asked one by one
TRIGRAM = 3  # characters that the index of names needs
EXPORTED_AT_ONCE = 1000
MAX_FEW = 1000  # matches of a name


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What entries to list; an empty field does not restrict them. `actions` are names or prefixes
    of names, `target` is a part of the target's name in any case, `since` is included and `until`
    is not."""

    actor: str = ""
    actions: tuple[str, ...] = ()
    outcome: str = ""
    target_type: str = ""
    target: str = ""
    virtual_cluster: str = ""
    address: str = ""
    since: datetime | None = None
    until: datetime | None = None


def find(user: AnyUser, which: AuditFilter) -> tuple[QuerySet[AuditEntry], Sequence[Q]]:
    """Return the entries that the user may read and that the filter names, and alternatives of
    which one applies to each (see `core.paging.page`): an index answers each of them in order.

    Admins read all entries, VC admins those of their virtual clusters, and each user
    those of what the user did. Raises SkepError `unknown_action`."""
    rows = _filtered(which)
    readable = _readable(user)
    names = _names(which.actions)
    if readable is None and len(names) == 1:
        return rows.filter(action=names[0]), ()
    if readable is None and len(names) <= MAX_BRANCHES:
        return rows, [Q(action=name) for name in names]
    if names:
        rows = rows.filter(action__in=names)
    return rows, readable or ()


def export(user: AnyUser, which: AuditFilter, after: UUID | None) -> list[AuditEntry]:
    """Return the next entries of an export, newest first: those before the entry `after`."""
    rows, among = find(user, which)
    if after is not None:
        rows = rows.filter(id__lt=after)
    if among:
        parts = [rows.filter(q).order_by("-id").values("pk")[:EXPORTED_AT_ONCE] for q in among]
        first, *others = parts
        rows = rows.filter(pk__in=first.union(*others)) if others else rows.filter(among[0])
    return list(rows.order_by("-id")[:EXPORTED_AT_ONCE])


def _readable(user: AnyUser) -> Sequence[Q] | None:
    """Return alternatives, one of which an entry must meet; None for an admin, who reads all."""
    if getattr(user, "is_admin", False):
        return None
    managed = list(ports.managed_vcs.call(user))
    own = Q(actor_id=user.pk)
    if len(managed) >= MAX_BRANCHES:
        return [own, Q(vc_id__in=managed)]
    return [own, *(Q(vc_id=vc) for vc in managed)]


def _filtered(which: AuditFilter) -> QuerySet[AuditEntry]:
    rows = AuditEntry.objects.all()
    exact = {
        "actor_name": which.actor,
        "outcome": which.outcome,
        "target_type": which.target_type,
        "address": which.address,
    }
    rows = rows.filter(**{column: value for column, value in exact.items() if value})
    if which.virtual_cluster:
        rows = rows.filter(vc_id__in=_vc_ids(which.virtual_cluster))
    # The id holds the time: partitions outside of the range are not looked into.
    if which.since:
        rows = rows.filter(id__gte=first_id_at(which.since))
    if which.until:
        rows = rows.filter(id__lt=first_id_at(which.until))
    return _by_target(rows, which.target) if which.target else rows


def _by_target(rows: QuerySet[AuditEntry], text: str) -> QuerySet[AuditEntry]:
    """Return the rows with this text in the name of their target.

    Few matches are looked up first, without an order, which the index of names answers. PostgreSQL
    would walk the whole table in order of time for them, as it does well for many matches."""
    how = "icontains" if len(text) >= TRIGRAM else "iexact"
    found = rows.filter(**{f"target_name__{how}": text})
    few = [pk for (pk,) in fetch_planned(found.order_by().values_list("pk")[: MAX_FEW + 1])]
    return rows.filter(pk__in=few) if len(few) <= MAX_FEW else found


def _vc_ids(name: str) -> list[UUID]:
    """Return the ids that virtual clusters of this name have and had, deleted ones included."""
    deleted = AuditEntry.objects.filter(action="vc.delete", vc_name=name).values_list("vc_id")
    gone = [pk for (pk,) in deleted.order_by("-id")[:MAX_BRANCHES] if pk]
    return [*ports.vc_ids.call([name]).values(), *gone]


def _names(prefixes: Sequence[str]) -> list[str]:
    found: dict[str, None] = {}
    for prefix in prefixes:
        names = named(prefix)
        if not names:
            message = f"No action has the name or prefix {prefix!r}; see GET audit/actions."
            raise SkepError(message, code="unknown_action", action=prefix)
        found.update(dict.fromkeys(names))
    return list(found)
