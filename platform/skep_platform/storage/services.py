"""All writes to storages and their grants: by admins, and of the buckets that a virtual cluster
manages by its VC admins. What these may not do keeps a team from the data of others: an export is
mounted by the node, which every team's jobs share, and a bucket of theirs lies in a store that an
admin listed, opens with keys of their own, and is granted to their own virtual cluster alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from skep_limits import (
    CLOSED_HOST_FOLDERS,
    is_nfs_option,
    is_server_name,
    is_storage_path,
    overlaps,
)
from skep_platform.accounts import groups
from skep_platform.accounts.models import Group, User
from skep_platform.audit import services as audit
from skep_platform.cluster.models import Node
from skep_platform.cluster.sessions import bump_revision
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.storage import buckets
from skep_platform.storage.models import Dataset, Storage, StorageGrant, StorageType
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import NAME, VirtualCluster

Holder = VirtualCluster | Group  # of a grant
MAX_MOUNT_OPTIONS = 32
MAX_MANAGED = 100  # storages of one virtual cluster
CHANGEABLE = (
    *("description", "data", "mount_options", "read_only", "per_user", "home", "default"),
)  # fmt: skip
KEYS = ("access_key", "secret_key")  # of buckets: they are written, and never read again


@transaction.atomic
def create(
    user: User,
    name: str,
    type: str,
    data: Mapping[str, str],
    managed_by: str = "",
    **fields: Any,
) -> Storage:
    """Create a storage, which no virtual cluster may use yet; with `managed_by` one that this
    virtual cluster uses, and that its VC admins may create and change. `fields`: those of
    CHANGEABLE and KEYS.

    Raises Conflict `name_taken`, `storage_overlaps`, `home_taken` and `too_many_storages`,
    Forbidden, NotFound, SkepError `name_invalid`, `storage_data_invalid`, `storage_path_closed`,
    `storage_home_shared`, `mount_option_invalid`, `storage_endpoint_closed`,
    `storage_endpoint_not_allowed`, `storage_type_invalid`, `storage_keys_needed` and
    `storage_keys_invalid`."""
    vc = tenancy.managing(user, managed_by)
    try:
        NAME(name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=name[:100]) from None
    keys = _keys(type, fields)
    storage = Storage(name=name, type=type, data=data, created_by=user, **_known(fields))
    storage.managed_by = vc
    _check(storage)
    if keys is not None:
        buckets.set_keys(storage, *keys)
    if vc is not None:
        _check_managed(user, storage, vc)
        _check_new(storage, vc)
    try:
        with transaction.atomic():
            storage.save()
    except IntegrityError:
        message = f"A storage named {name} exists."
        raise Conflict(message, code="name_taken", name=name) from None
    _record(user, storage, "created", f"Storage {name} ({_where(storage)}) was created.")
    audit.record("storage.create", "storage", storage.pk, name, vc=vc, after=_facts(storage))
    if vc is not None:
        _grant(user, storage, vc, read_only=False)
    return storage


@transaction.atomic
def update(user: User, storage: Storage, **fields: Any) -> Storage:
    """Change any of CHANGEABLE and KEYS. Containers that run keep what they have mounted; what they
    wrote to a bucket goes back with the new keys, and only to where it came from. Raises what
    `create` does, and Conflict `storage_has_datasets`."""
    check_may_change(user, storage)
    keys, changes, place = _keys(storage.type, fields), _known(fields), storage.host
    if changes.get("per_user") and not storage.per_user:
        _check_no_shared_datasets(storage)
    before = {name: getattr(storage, name) for name in changes}
    for name, value in changes.items():
        setattr(storage, name, value)
    _check(storage)
    if keys is None:
        buckets.check_keys_fit(storage, place)
    else:
        buckets.set_keys(storage, *keys)
        before, changes = before | {"keys": "the old ones"}, changes | {"keys": "new ones"}
    if storage.managed_by is not None:
        _check_managed(user, storage, storage.managed_by)
    storage.save()
    if keys is not None:  # nodes write back with them what containers that run leave
        nodes = Node.objects.filter(connected=True, s3_mounts=True)
        bump_revision(nodes.values_list("pk", flat=True))
    message = f"Storage {storage.name} was changed: {', '.join(sorted(changes))}."
    _record(user, storage, "changed", message, before=before, after=changes)
    audit.record(
        *("storage.update", "storage", storage.pk, storage.name),
        vc=storage.managed_by,
        before=before,
        after=changes,
    )
    return storage


@transaction.atomic
def delete(user: User, storage: Storage) -> None:
    """Delete a storage with its grants, never what lies in it. Containers that run keep it mounted;
    jobs that wait and name it fail when they start. Raises Forbidden."""
    check_may_change(user, storage)
    _record(user, storage, "deleted", f"Storage {storage.name} was deleted.")
    audit.record(
        *("storage.delete", "storage", storage.pk, storage.name),
        vc=storage.managed_by,
        before=_facts(storage),
    )
    storage.delete()


def check_may_change(user: User, storage: Storage) -> None:
    """Raises Forbidden where the user is no admin, and no VC admin of what manages the storage."""
    tenancy.check_manages(user, storage.managed_by, "storage")


def grant(user: User, storage: Storage, vc_name: str, *, read_only: bool = False) -> StorageGrant:
    """Let the jobs of a virtual cluster mount a storage, or change how. Raises NotFound, Forbidden,
    and Conflict `home_taken` for a second home storage."""
    _check_may_grant(user, storage, vc_name)
    return _grant(user, storage, _vc(vc_name), read_only)


def grant_group(
    user: User, storage: Storage, group_name: str, *, read_only: bool = False
) -> StorageGrant:
    """Let the jobs of the users of a group mount a storage, wherever they run, or change how.
    Raises NotFound and Forbidden."""
    _check_may_grant(user, storage)
    return _grant(user, storage, groups.find(group_name), read_only)


def revoke(user: User, storage: Storage, vc_name: str) -> None:
    """Withdraw a grant; revoking one that is not there changes nothing. Containers that run keep
    the storage, those of jobs that wait are refused when they start. Raises NotFound, Forbidden."""
    _check_may_grant(user, storage, vc_name)
    _revoke(user, storage, _vc(vc_name))


def revoke_group(user: User, storage: Storage, group_name: str) -> None:
    """Withdraw the grant to a group, as `revoke` does. Raises NotFound and Forbidden."""
    _check_may_grant(user, storage)
    _revoke(user, storage, groups.find(group_name))


def _check_may_grant(user: User, storage: Storage, vc_name: str = "") -> None:
    """VC admins grant what their virtual cluster manages to it alone: jobs of others would find
    files that these VC admins chose. Raises Forbidden."""
    check_may_change(user, storage)
    own = storage.managed_by.name if storage.managed_by else ""
    if vc_name != own and not tenancy.is_admin(user):
        raise Forbidden(f"Only an admin grants it to others than {own}.")


@transaction.atomic
def _grant(user: User, storage: Storage, to: Holder, read_only: bool) -> StorageGrant:
    key, facts, scope = _facts_of(to)
    if storage.home:
        _check_one_home(storage, to)
    row, _ = StorageGrant.objects.update_or_create(
        storage=storage, **key, defaults={"read_only": read_only}
    )
    how = "to read" if read_only or storage.read_only else "to read and write"
    message = f"{to} may use storage {storage.name} {how}."
    _record(user, storage, "granted", message, **facts, read_only=read_only)
    after = facts | {"read_only": read_only}
    audit.record("storage.grant.set", "storage", storage.pk, storage.name, after=after, **scope)
    return row


@transaction.atomic
def _revoke(user: User, storage: Storage, to: Holder) -> None:
    key, facts, scope = _facts_of(to)
    deleted, _ = StorageGrant.objects.filter(storage=storage, **key).delete()
    if deleted:
        _record(
            user, storage, "revoked", f"{to} may no longer use storage {storage.name}.", **facts
        )
        audit.record(
            "storage.grant.remove", "storage", storage.pk, storage.name, before=facts, **scope
        )


def _facts_of(to: Holder) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """Return the columns, the facts for the log, and the scope of the entry in the audit log."""
    if isinstance(to, VirtualCluster):
        return {"vc": to}, {"virtual_cluster": to.name}, {"vc": to}
    return {"group": to}, {"group": to.name}, {}


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    unknown = fields.keys() - {*CHANGEABLE, *KEYS}
    if unknown:
        raise TypeError(f"unknown fields: {sorted(unknown)}")
    return {name: value for name, value in fields.items() if name not in KEYS}


def _keys(type: str, fields: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return both keys of a bucket; None where none are given. Raises SkepError."""
    if not any(name in fields for name in KEYS):
        return None
    access_key, secret_key = (str(fields.get(name) or "") for name in KEYS)
    if type != StorageType.S3 and (access_key or secret_key):
        message = "Only a storage of type s3 has keys."
        raise SkepError(message, code="storage_keys_invalid")
    return access_key, secret_key


def _vc(name: str) -> VirtualCluster:
    vc = VirtualCluster.objects.filter(name=name).first()
    if vc is None:
        raise NotFound(f"There is no virtual cluster named {name}.")
    return vc


# --- what a storage may be


def _check(storage: Storage) -> None:
    keys, optional, check = _TYPES[storage.type]
    if not keys <= storage.data.keys() <= keys | optional:
        words = " and ".join(sorted(keys))
        more = f", and perhaps {', '.join(sorted(optional))}" if optional else ""
        raise _invalid(f"The data of a storage of type {storage.type} are: {words}{more}.")
    check(storage)
    if storage.home and not storage.per_user:
        message = "A home storage has a folder for each user: set per_user, too."
        raise SkepError(message, code="storage_home_shared")
    _check_overlap(storage)
    if storage.home and storage.pk:
        for holder in _holders(storage):
            _check_one_home(storage, holder)


def _check_managed(user: User, storage: Storage, vc: VirtualCluster) -> None:
    """Check what is true of a storage that a virtual cluster manages, and what VC admins may not
    write into one. Raises SkepError."""
    if storage.type != StorageType.S3:
        message = (
            f"{vc.name} manages buckets only (type s3): nodes mount exports and folders with rights"
            " of their own, so only admins add these."
        )
        raise SkepError(message, code="storage_type_invalid", field="type")
    if tenancy.is_admin(user):
        return
    if storage.sealed is None:
        message = "A bucket that a virtual cluster manages has keys: give both."
        raise SkepError(message, code="storage_keys_needed", field="access_key")
    stores = settings.SKEP_VC_OBJECT_STORES
    if not buckets.is_in(storage, stores):
        allowed = " and ".join(stores) or "none yet"
        message = (
            "VC admins add buckets of the object stores that an admin listed in "
            f"SKEP_VC_OBJECT_STORES: {allowed}."
        )
        raise SkepError(message, code="storage_endpoint_not_allowed", field="endpoint")


def _check_new(storage: Storage, vc: VirtualCluster) -> None:
    """Check name and number of a new storage that a virtual cluster manages. Its name begins with
    that of the virtual cluster, so that a name that is taken says nothing of storages of others.
    Raises SkepError and Conflict."""
    prefix = f"{vc.name}-"
    if not storage.name.startswith(prefix):
        message = f"The name of a storage that {vc.name} manages begins with {prefix}"
        raise SkepError(message, code="name_invalid", name=storage.name, field="name")
    VirtualCluster.objects.select_for_update(no_key=True).get(pk=vc.pk)
    if Storage.objects.filter(managed_by=vc).count() >= MAX_MANAGED:
        message = f"{vc.name} manages {MAX_MANAGED} storages, which is the most. Remove one first."
        raise Conflict(message, code="too_many_storages", most=MAX_MANAGED)


def _check_nfs(storage: Storage) -> None:
    server, path = storage.data["server"], storage.data["path"]
    if not is_server_name(server):
        raise _invalid(f"{server[:100]!r} is not a host name or an IPv4 address.", field="server")
    if path != "/":
        _check_path(path)
    _check_options(storage.mount_options)


def _check_host_path(storage: Storage) -> None:
    path = storage.data["path"]
    _check_path(path)
    if closed := overlaps(path, CLOSED_HOST_FOLDERS):
        message = f"{path} cannot be a storage: {closed} belongs to the system of the nodes."
        raise SkepError(message, code="storage_path_closed", path=path, closed=closed)
    if storage.mount_options:
        message = "A host path has no mount options: read-only is a field of its own."
        raise SkepError(message, code="mount_option_invalid", option=storage.mount_options[0])


_NONE: frozenset[str] = frozenset()
# What its data have, what they may have, and what is right of it.
_TYPES: dict[str, tuple[Set[str], Set[str], Callable[[Storage], None]]] = {
    StorageType.NFS: ({"server", "path"}, _NONE, _check_nfs),
    StorageType.HOST_PATH: ({"path"}, _NONE, _check_host_path),
    StorageType.S3: (buckets.REQUIRED, buckets.OPTIONAL, buckets.check),
}


def _check_path(path: str) -> None:
    if not is_storage_path(path):
        message = (
            f"{path[:100]!r} is not a plain absolute path. It has no '.', no '..', no '/' at its "
            "end, and no characters but letters, digits and any of _@+=~.-"
        )
        raise _invalid(message, field="path")


def _check_options(options: Sequence[str]) -> None:
    if len(options) > MAX_MOUNT_OPTIONS:
        message = f"A storage has at most {MAX_MOUNT_OPTIONS} mount options."
        raise SkepError(message, code="mount_option_invalid", most=MAX_MOUNT_OPTIONS)
    for option in options:
        if not is_nfs_option(option):
            message = f"{option[:64]!r} is not a mount option that a storage may set."
            raise SkepError(message, code="mount_option_invalid", option=option[:64])


def _check_no_shared_datasets(storage: Storage) -> None:
    """Refuse folders for users below what datasets show to all. Raises Conflict."""
    if shared := Dataset.objects.filter(storage=storage, user_folder="").count():
        message = (
            f"{shared} datasets lie in {storage.name}, and would show the folders of its users: "
            "remove them before you set per_user."
        )
        raise Conflict(message, code="storage_has_datasets", datasets=shared)


def _check_overlap(storage: Storage) -> None:
    """Refuse two storages of which one shows the folders that the other keeps for single users.
    Those of two managers are not compared: each has keys of its own, so that their store decides,
    and no one learns of the storages of others. Raises Conflict."""
    others = Storage.objects.exclude(pk=storage.pk).filter(
        type=storage.type, managed_by=storage.managed_by
    )
    if not storage.per_user:
        others = others.filter(per_user=True)
    for other in others.only("name", "type", "data"):
        below, path = other.path.rstrip("/"), storage.path.rstrip("/")
        is_s3 = storage.type == StorageType.S3
        same = buckets.is_same(other, storage) if is_s3 else other.host == storage.host
        if same and (not below or overlaps(path, (below,))):
            message = (
                f"{_where(storage)} overlaps with storage {other.name}, and one of them has a "
                "folder for each user: the other one would show all of these."
            )
            raise Conflict(message, code="storage_overlaps", other=other.name)


def _holders(storage: Storage) -> list[Holder]:
    grants = StorageGrant.objects.filter(storage=storage).select_related("vc", "group")
    return [holder for grant in grants if (holder := grant.vc or grant.group)]


def _check_one_home(storage: Storage, to: Holder) -> None:
    """Refuse a second home for the jobs of a virtual cluster or group. Raises Conflict."""
    key = {"vc": to} if isinstance(to, VirtualCluster) else {"group": to}
    others = StorageGrant.objects.filter(storage__home=True, **key).exclude(storage=storage)
    if other := others.select_related("storage").first():
        name = other.storage.name
        message = f"{to} has a home storage already, {name}: withdraw that grant before this one."
        raise Conflict(message, code="home_taken", other=name)


def _invalid(message: str, **details: str) -> SkepError:
    return SkepError(message, code="storage_data_invalid", **details)


def _where(storage: Storage) -> str:
    if storage.type == StorageType.S3:
        return storage.host + storage.path.rstrip("/")
    return f"{storage.host}:{storage.path}" if storage.host else storage.path


def _facts(storage: Storage) -> dict[str, Any]:
    facts = {name: getattr(storage, name) for name in ("name", "type", *CHANGEABLE)}
    if storage.managed_by is not None:
        facts["managed_by"] = storage.managed_by.name
    return facts | ({"keys": "set"} if storage.sealed is not None else {})


def _record(user: User, storage: Storage, verb: str, message: str, **data: Any) -> None:
    record("storage", storage.pk, f"storage.{verb}", message, actor=user.get_username(), **data)
