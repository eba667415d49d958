"""All reads of storages, and who may mount which: by a grant to a virtual cluster or to a group.
Who has neither does not learn that a storage exists."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import (
    Case,
    Exists,
    F,
    OuterRef,
    Prefetch,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
)
from django.db.models.functions import JSONObject

from skep_platform.accounts.models import GroupMember, User
from skep_platform.core.errors import Forbidden, NotFound
from skep_platform.storage.models import Storage, StorageGrant
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Membership, VirtualCluster


def visible_to(user: Any) -> QuerySet[Storage]:
    """Select the storages that the user may use in some virtual cluster or by a group, or manages
    as a VC admin, all of them for an admin; `known_grants` are the grants that the user may know,
    and `may_change` is whether the user may change the storage."""
    grants = _known(user).select_related("vc", "group").order_by("vc__name", "group__name")
    storages = Storage.objects.select_related("managed_by").prefetch_related(
        Prefetch("grants", queryset=grants, to_attr="known_grants")
    )
    if tenancy.is_admin(user):
        return storages.annotate(may_change=Value(True))
    managed = Q(managed_by__in=tenancy.managed_by(user))
    granted = Exists(_known(user).filter(storage=OuterRef("pk")))
    return storages.annotate(
        may_change=Case(When(managed, then=Value(True)), default=Value(False))
    ).filter(granted | managed)


def _known(user: Any) -> QuerySet[StorageGrant]:
    """Select the grants to the virtual clusters and the groups of the user, all for an admin."""
    if tenancy.is_admin(user):
        return StorageGrant.objects.all()
    return _applying(user, tenancy.visible_to(user))


def _applying(user: User, vcs: QuerySet[VirtualCluster] | list[VirtualCluster]) -> Any:
    """Select the grants by which jobs of the user mount storages in these virtual clusters."""
    groups = GroupMember.objects.filter(user_id=user.pk).values("group")
    return StorageGrant.objects.filter(Q(vc__in=vcs) | Q(group__in=groups))


def usable(user: User, name: str) -> tuple[Storage, bool]:
    """Return a storage of which the user may read the files, and whether the user may write them:
    what the user's jobs may. Raises NotFound."""
    storage = find(user, name)
    if user.is_admin:
        return storage, not storage.read_only
    grants = _applying(user, _submitting(user)).filter(storage=storage)
    read_only = list(grants.values_list("read_only", flat=True))
    if not read_only:
        raise Forbidden("You may run no job that mounts it.", code="storage_forbidden")
    return storage, not (storage.read_only or all(read_only))


def _submitting(user: User) -> QuerySet[VirtualCluster]:
    """Select the virtual clusters in which the user runs jobs; with the token of a job at most that
    of the job."""
    known = tenancy.visible_to(user)
    if user.is_superuser:
        return known
    roles = Membership.SUBMITTERS
    mine = VirtualCluster.objects.filter(memberships__user=user, memberships__role__in=roles)
    return mine.filter(pk__in=known)


def writable(user: User, name: str) -> Storage:
    """Return a storage of which the user may write the files. Raises NotFound and Forbidden."""
    storage, may_write = usable(user, name)
    if not may_write:
        message = f"You may only read storage {storage.name}."
        raise Forbidden(message, code="storage_read_only")
    return storage


def mountable(owner: User, vc: VirtualCluster) -> QuerySet[Storage]:
    """Select the storages that a job of this owner may mount in a virtual cluster, by name."""
    granted = Exists(_applying(owner, [vc]).filter(storage=OuterRef("pk")))
    return Storage.objects.filter(granted).order_by("name")


def asked(owner: User, vc: VirtualCluster, names: Collection[str]) -> QuerySet[Storage]:
    """Select those of these names that a job may mount; without names those that are mounted by
    default."""
    wanted = Q(name__in=names) if names else Q(default=True)
    return mountable(owner, vc).filter(wanted)


class Mounting(NamedTuple):
    """A storage that a job of this owner in this virtual cluster mounts."""

    storage: UUID
    vc: UUID
    owner: int


@dataclass(frozen=True, slots=True)
class Granted:
    """Which of the mountings are granted, and whether each is read-only: the widest grant holds."""

    _by_vc: dict[tuple[UUID, UUID], bool] = field(default_factory=dict)
    _by_owner: dict[tuple[UUID, int], bool] = field(default_factory=dict)

    def read_only(self, one: Mounting) -> bool | None:
        """Return whether a grant allows reading only; None: none allows anything."""
        found = [
            self._by_vc.get((one.storage, one.vc)),
            self._by_owner.get((one.storage, one.owner)),
        ]
        known = [read_only for read_only in found if read_only is not None]
        return all(known) if known else None


def granted(wanted: Collection[Mounting]) -> Granted:
    """Return what is granted of these at this moment. One query."""
    storages, vcs = {one.storage for one in wanted}, {one.vc for one in wanted}
    owners = {one.owner for one in wanted}
    rows = StorageGrant.objects.filter(
        Q(vc__in=vcs) | Q(group__members__user__in=owners), storage__in=storages
    ).values_list("storage_id", "vc_id", "group__members__user_id", "read_only")
    found = Granted()
    for storage, vc, owner, read_only in rows:
        if vc is not None:
            found._by_vc[storage, vc] = read_only
        else:
            pair = storage, owner
            found._by_owner[pair] = read_only and found._by_owner.get(pair, True)
    return found


def home_of(owner: OuterRef, vc: OuterRef) -> Subquery:
    """Return an expression for the home of a job: what a node mounts of it, or null. The home of
    its virtual cluster comes before that of a group of its owner; the widest grant of it holds."""
    applying = Q(vc=vc) | Q(group__members__user=owner)
    rows = StorageGrant.objects.filter(applying, storage__home=True)
    same = Q(vc=OuterRef(vc)) | Q(group__members__user=OuterRef(owner))
    writable = StorageGrant.objects.filter(same, storage=OuterRef("storage"), read_only=False)
    read_only = ~Exists(writable) | Q(storage__read_only=True)
    what = JSONObject(
        type="storage__type",
        data="storage__data",
        options="storage__mount_options",
        read_only=Case(When(read_only, then=True), default=False),
    )
    return Subquery(
        rows.order_by(F("vc").asc(nulls_last=True), "storage__name").values(what=what)[:1]
    )


def find(user: Any, name: str) -> Storage:
    """Return a storage. Raises NotFound, also when it exists and the user may not know."""
    storage = visible_to(user).filter(name=name).first()
    if storage is None:
        raise NotFound(f"There is no storage named {name}.", code="storage_not_found")
    return storage
