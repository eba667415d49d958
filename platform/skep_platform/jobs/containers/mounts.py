"""What the containers of jobs mount: storages, datasets in them, and the homes of their owners, as
they are granted when a node is sent the jobs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import structlog
from django.db.models import OuterRef, QuerySet

from skep_agent.protocol import S3Mount, StorageMount
from skep_jobfile.extras import TEAMWISE_STORAGE
from skep_limits import is_folder_name, is_storage_path, overlaps
from skep_platform.core.encryption import DecryptionFailed
from skep_platform.jobs.models import Job, JobStorage
from skep_platform.storage import buckets
from skep_platform.storage import queries as storage
from skep_platform.storage.models import Dataset, Storage, StorageType

HOMES = "/home"  # in containers, with a folder of the name of their owner
Row = Mapping[str, Any]
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Mounts:
    """What the containers of one job mount. `home`: where the home of its owner is; "": nowhere.
    `refusal`: code and message of why none of its attempts may start. `buckets`: storages of `s3`,
    and when they were changed last."""

    all: list[StorageMount] = field(default_factory=list)
    s3: list[S3Mount] = field(default_factory=list)
    home: str = ""
    refusal: tuple[str, str] | None = None
    buckets: dict[UUID, datetime] = field(default_factory=dict)

    @property
    def targets(self) -> list[str]:
        """Return where the containers find them."""
        return [*(mount.target for mount in self.all), *(mount.target for mount in self.s3)]

    def refusal_at(
        self, node: str, *, inner_mounts: bool, s3_mounts: bool
    ) -> tuple[str, str] | None:
        """Return why a node may not start an attempt. `inner_mounts`, `s3_mounts`: see `Node`."""
        inside = any(mount.type == StorageType.NFS and mount.inner for mount in self.all)
        if self.refusal:
            return self.refusal
        if self.s3 and not s3_mounts:
            message = f"The agent of {node} cannot mount storages of type s3: update the agent."
            return "storage_unavailable", message
        if inner_mounts or not inside:
            return None
        message = f"The agent of {node} cannot mount folders within an export: update the agent."
        return "storage_unavailable", message


def with_home(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Add `home`: what is mounted as the home of the owner, or null."""
    return jobs.annotate(home=storage.home_of(OuterRef("owner_id"), OuterRef("vc_id")))


def of(rows: Collection[Row]) -> dict[UUID, Mounts]:
    """Return what these jobs mount as it was granted at this moment: a grant may have been
    withdrawn, or made read-only, since the submit. `rows` have what `with_home` adds. No query
    where no job asks for storages, else two."""
    found = {row["id"]: Mounts() for row in rows}
    _add_storages({row["id"]: row for row in rows if _asks(row["spec__extras"] or {})}, found)
    for row in rows:
        _add_home(row, found[row["id"]])
    return found


def _asks(extras: Row) -> bool:
    plugins = extras.get("com.microsoft.pai.runtimeplugin") or ()
    teamwise = any(plugin["plugin"] == TEAMWISE_STORAGE for plugin in plugins)
    datasets = (extras.get("skep") or {}).get("datasets")
    return extras.get("storages") is not None or teamwise or bool(datasets)


def _add_storages(jobs: Mapping[UUID, Row], found: Mapping[UUID, Mounts]) -> None:
    if not jobs:
        return
    mounted = JobStorage.objects.filter(job__in=jobs).order_by("pk")
    rows = mounted.select_related("storage", "dataset__owner", "dataset__storage")
    asked = [(row, jobs[row.job_id], found[row.job_id]) for row in rows]
    granted = storage.granted(
        {_mounting(row.storage_id, job) for row, job, _ in asked if row.storage_id}
    )
    for row, job, mounts in asked:
        kept = row.storage
        if kept is None:
            message = f"Storage {row.name} was deleted after the job was submitted."
            mounts.refusal = ("storage_not_found", message)
            continue
        if row.dataset is None and "@" in row.name:
            message = f"Dataset {row.name} was deleted after the job was submitted."
            mounts.refusal = ("dataset_not_found", message)
            continue
        if row.dataset is not None and (refusal := _refusal(row.dataset)):
            mounts.refusal = refusal
            continue
        read_only = granted.read_only(_mounting(kept.pk, job))
        if read_only is None:
            holders = f"{job['vc__name']} nor to a group of {job['owner__username']}"
            message = f"Storage {kept.name} is granted neither to {holders} any longer."
            mounts.refusal = ("storage_forbidden", message)
        if kept.type == StorageType.S3:
            _add_copy(row, kept, job, read_only is not False, mounts)
        else:
            mounts.all.append(_mount(row, kept, job, read_only is not False))


def _refusal(dataset: Dataset) -> tuple[str, str] | None:
    """Return why no job may mount a dataset whatever is granted."""
    if dataset.abandoned:
        message = f"Dataset {dataset} lies in the folder of a user who does not own it any longer."
        return "dataset_not_found", message
    if dataset.exposes_users:
        message = f"Dataset {dataset} would show the folders of all users of its storage."
        return "storage_forbidden", message
    return None


def _mount(row: JobStorage, kept: Storage, job: Row, read_only: bool) -> StorageMount:
    own, inner = job["owner__username"] if kept.per_user else "", 0
    path = kept.path
    if row.dataset is not None:
        own, read_only = "", True
        inner = len([part for part in row.dataset.folder.split("/") if part])
        path = "/".join(filter(None, [path.rstrip("/"), row.dataset.folder])) or "/"
    return StorageMount(
        type=kept.type,
        server=kept.host,
        path=path,
        inner=inner,
        options=kept.mount_options,
        user_folder=own,
        target=row.target,
        read_only=kept.read_only or read_only,
    )


def _add_copy(row: JobStorage, kept: Storage, job: Row, read_only: bool, mounts: Mounts) -> None:
    """Add what is copied of a bucket, with the keys for it."""
    try:
        keys = buckets.keys(kept)
    except DecryptionFailed as error:
        log.error("storage_keys_locked", storage=kept.name, error=error.message)
        message = f"The keys of storage {kept.name} cannot be read: an admin has to set them again."
        mounts.refusal = ("storage_unavailable", message)
        return
    folder = row.dataset.folder if row.dataset is not None else ""
    data = kept.data
    mounts.buckets[kept.pk] = kept.updated_at
    mounts.s3.append(
        S3Mount(
            storage=kept.name,
            endpoint=data["endpoint"],
            region=data.get("region", ""),
            bucket=data["bucket"],
            prefix="/".join(filter(None, [data.get("prefix", ""), folder])),
            path_style=data.get("path_style", "true") == "true",
            user_folder=job["owner__username"] if kept.per_user and row.dataset is None else "",
            target=row.target,
            read_only=kept.read_only or read_only or row.dataset is not None,
            **keys,
        )
    )


def _mounting(storage_id: UUID, job: Row) -> storage.Mounting:
    return storage.Mounting(storage_id, job["vc_id"], job["owner_id"])


def _add_home(row: Row, mounts: Mounts) -> None:
    """Add the home of the owner, where there is one and the job file does not do without it or
    puts something else there."""
    home, owner, skep = row["home"], row["owner__username"], _skep(row)
    target, files = f"{HOMES}/{owner}", (skep.get("workingFiles") or {}).get("path")
    taken = mounts.targets + ([files] if files else [])
    if (
        not home
        or skep.get("home") is False
        or not is_folder_name(owner)
        or not is_storage_path(target)
        or overlaps(target, tuple(taken))
    ):
        return
    mounts.home = target
    mounts.all.append(
        StorageMount(
            type=home["type"],
            server=home["data"].get("server", ""),
            path=home["data"]["path"],
            options=home["options"],
            user_folder=owner,
            target=target,
            read_only=home["read_only"],
        )
    )


def _skep(row: Row) -> Row:
    return (row["spec__extras"] or {}).get("skep") or {}
