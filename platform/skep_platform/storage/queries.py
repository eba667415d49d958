"""All reads of storages: who is in no virtual cluster that a storage was granted to does not learn
that it exists."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, Q, QuerySet

from skep_platform.accounts.models import User
from skep_platform.core.errors import Forbidden, NotFound
from skep_platform.storage.models import Storage, StorageGrant
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import Membership, VirtualCluster


def visible_to(user: Any) -> QuerySet[Storage]:
    """Select the storages that the user may use in some virtual cluster, all of them for an admin;
    `known_grants` are the grants to virtual clusters that the user may know."""
    mine = tenancy.visible_to(user)
    grants = StorageGrant.objects.filter(vc__in=mine).select_related("vc").order_by("vc__name")
    storages = Storage.objects.prefetch_related(
        Prefetch("grants", queryset=grants, to_attr="known_grants")
    )
    if tenancy.is_admin(user):
        return storages
    granted = StorageGrant.objects.filter(storage=OuterRef("pk"), vc__in=mine)
    return storages.filter(Exists(granted))


def usable(user: User, name: str) -> tuple[Storage, bool]:
    """Return a storage of which the user may read the files, and whether the user may write them:
    what the user's jobs may. Raises NotFound."""
    storage = find(user, name)
    if user.is_admin:
        return storage, not storage.read_only
    mine = VirtualCluster.objects.filter(
        memberships__user=user, memberships__role__in=Membership.SUBMITTERS
    )
    grants = StorageGrant.objects.filter(storage=storage, vc__in=mine)
    read_only = list(grants.values_list("read_only", flat=True))
    if not read_only:
        raise Forbidden("You may run no job that mounts it.", code="storage_forbidden")
    return storage, not (storage.read_only or all(read_only))


def writable(user: User, name: str) -> Storage:
    """Return a storage of which the user may write the files. Raises NotFound and Forbidden."""
    storage, may_write = usable(user, name)
    if not may_write:
        message = f"You may only read storage {storage.name}."
        raise Forbidden(message, code="storage_read_only")
    return storage


def granted_to(vc: VirtualCluster, names: Collection[str] | None) -> QuerySet[StorageGrant]:
    """Select the grants to a virtual cluster by name of their storages, which are loaded: those of
    these names; with None those that are mounted by default."""
    grants = StorageGrant.objects.filter(vc=vc).select_related("storage")
    wanted = Q(storage__default=True) if names is None else Q(storage__name__in=names)
    return grants.filter(wanted).order_by("storage__name")


def grants_of(
    pairs: Collection[tuple[UUID, UUID]],
) -> dict[tuple[UUID, UUID], StorageGrant]:
    """Return the grants that exist of these pairs of a storage and a virtual cluster. One query."""
    wanted = {storage for storage, _ in pairs}, {vc for _, vc in pairs}
    rows = StorageGrant.objects.filter(storage__in=wanted[0], vc__in=wanted[1])
    found = {(row.storage_id, row.vc_id): row for row in rows}
    return {pair: found[pair] for pair in pairs if pair in found}


def find(user: Any, name: str) -> Storage:
    """Return a storage. Raises NotFound, also when it exists and the user may not know."""
    storage = visible_to(user).filter(name=name).first()
    if storage is None:
        raise NotFound(f"There is no storage named {name}.", code="storage_not_found")
    return storage
