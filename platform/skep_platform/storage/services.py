"""All writes to storages and their grants. Only admins write; the API checks that before it
calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

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
from skep_platform.core.errors import Conflict, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.storage.models import Dataset, Storage, StorageGrant, StorageType
from skep_platform.tenancy.models import NAME, VirtualCluster

Holder = VirtualCluster | Group  # of a grant
MAX_MOUNT_OPTIONS = 32
CHANGEABLE = (
    *("description", "data", "mount_options", "read_only", "per_user", "home", "default"),
)  # fmt: skip


@transaction.atomic
def create(user: User, name: str, type: str, data: Mapping[str, str], **fields: Any) -> Storage:
    """Create a storage, which no virtual cluster may use yet. `fields`: those of CHANGEABLE.

    Raises Conflict `name_taken`, `storage_overlaps` and `home_taken`, SkepError `name_invalid`,
    `storage_data_invalid`, `storage_path_closed`, `storage_home_shared` and
    `mount_option_invalid`."""
    try:
        NAME(name)
    except ValidationError as error:
        raise SkepError(error.messages[0], code="name_invalid", name=name[:100]) from None
    storage = Storage(name=name, type=type, data=data, created_by=user, **_known(fields))
    _check(storage)
    try:
        with transaction.atomic():
            storage.save()
    except IntegrityError:
        message = f"A storage named {name} exists."
        raise Conflict(message, code="name_taken", name=name) from None
    _record(user, storage, "created", f"Storage {name} ({_where(storage)}) was created.")
    audit.record("storage.create", "storage", storage.pk, name, after=_facts(storage))
    return storage


@transaction.atomic
def update(user: User, storage: Storage, **fields: Any) -> Storage:
    """Change any of CHANGEABLE. Containers that run keep what they have mounted. Raises what
    `create` does, and Conflict `storage_has_datasets`."""
    changes = _known(fields)
    if changes.get("per_user") and not storage.per_user:
        _check_no_shared_datasets(storage)
    before = {name: getattr(storage, name) for name in changes}
    for name, value in changes.items():
        setattr(storage, name, value)
    _check(storage)
    storage.save()
    message = f"Storage {storage.name} was changed: {', '.join(sorted(changes))}."
    _record(user, storage, "changed", message, before=before, after=changes)
    audit.record(
        "storage.update", "storage", storage.pk, storage.name, before=before, after=changes
    )
    return storage


@transaction.atomic
def delete(user: User, storage: Storage) -> None:
    """Delete a storage with its grants, never what lies in it. Containers that run keep it mounted;
    jobs that wait and name it fail when they start."""
    _record(user, storage, "deleted", f"Storage {storage.name} was deleted.")
    audit.record("storage.delete", "storage", storage.pk, storage.name, before=_facts(storage))
    storage.delete()


def grant(user: User, storage: Storage, vc_name: str, *, read_only: bool = False) -> StorageGrant:
    """Let the jobs of a virtual cluster mount a storage, or change how. Raises NotFound, and
    Conflict `home_taken` for a second home storage."""
    return _grant(user, storage, _vc(vc_name), read_only)


def grant_group(
    user: User, storage: Storage, group_name: str, *, read_only: bool = False
) -> StorageGrant:
    """Let the jobs of the users of a group mount a storage, wherever they run, or change how.
    Raises NotFound."""
    return _grant(user, storage, groups.find(group_name), read_only)


def revoke(user: User, storage: Storage, vc_name: str) -> None:
    """Withdraw a grant; revoking one that is not there changes nothing. Containers that run keep
    the storage, those of jobs that wait are refused when they start. Raises NotFound."""
    _revoke(user, storage, _vc(vc_name))


def revoke_group(user: User, storage: Storage, group_name: str) -> None:
    """Withdraw the grant to a group, as `revoke` does. Raises NotFound."""
    _revoke(user, storage, groups.find(group_name))


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
    unknown = fields.keys() - set(CHANGEABLE)
    if unknown:
        raise TypeError(f"unknown fields: {sorted(unknown)}")
    return dict(fields)


def _vc(name: str) -> VirtualCluster:
    vc = VirtualCluster.objects.filter(name=name).first()
    if vc is None:
        raise NotFound(f"There is no virtual cluster named {name}.")
    return vc


# --- what a storage may be


def _check(storage: Storage) -> None:
    keys, check = _TYPES[storage.type]
    if storage.data.keys() != keys:
        words = " and ".join(sorted(keys))
        raise _invalid(f"The data of a storage of type {storage.type} are: {words}.")
    check(storage)
    if storage.home and not storage.per_user:
        message = "A home storage has a folder for each user: set per_user, too."
        raise SkepError(message, code="storage_home_shared")
    _check_overlap(storage)
    if storage.home and storage.pk:
        for holder in _holders(storage):
            _check_one_home(storage, holder)


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


_TYPES: dict[str, tuple[set[str], Callable[[Storage], None]]] = {
    StorageType.NFS: ({"server", "path"}, _check_nfs),
    StorageType.HOST_PATH: ({"path"}, _check_host_path),
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
    Raises Conflict."""
    others = Storage.objects.exclude(pk=storage.pk).filter(type=storage.type)
    if not storage.per_user:
        others = others.filter(per_user=True)
    for other in others.only("name", "data"):
        same_server = other.data.get("server") == storage.data.get("server")
        below = other.data["path"].rstrip("/")
        if same_server and (not below or overlaps(storage.data["path"].rstrip("/"), (below,))):
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
    server = storage.data.get("server")
    return f"{server}:{storage.data['path']}" if server else str(storage.data["path"])


def _facts(storage: Storage) -> dict[str, Any]:
    return {name: getattr(storage, name) for name in ("name", "type", *CHANGEABLE)}


def _record(user: User, storage: Storage, verb: str, message: str, **data: Any) -> None:
    record("storage", storage.pk, f"storage.{verb}", message, actor=user.get_username(), **data)
