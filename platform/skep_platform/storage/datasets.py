"""Datasets: all reads and writes. A dataset belongs to a virtual cluster, whose members see it and
whose jobs mount it, as far as they may mount the storage that it lies in."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from skep_limits import MAX_STORAGE_PATH, is_storage_path
from skep_platform.accounts.models import User
from skep_platform.audit import services as audit
from skep_platform.core import ports
from skep_platform.core.errors import Conflict, Forbidden, NotFound, SkepError
from skep_platform.core.events import record
from skep_platform.storage import files, queries
from skep_platform.storage.models import VERSION, Dataset, Storage
from skep_platform.tenancy import queries as tenancy
from skep_platform.tenancy.models import NAME, VirtualCluster

MAX_DATASETS = 10_000  # versions in a virtual cluster


def visible_to(user: Any) -> QuerySet[Dataset]:
    """Select the datasets of the virtual clusters of the user, and the user's own in those that the
    user left; all for an admin."""
    known = Q(vc__in=tenancy.visible_to(user))
    if tenancy.only_vc(user) is None:
        known |= Q(owner_id=user.pk)
    rows = Dataset.objects.filter(known)
    return rows.select_related("vc", "storage", "owner")


def search(rows: QuerySet[Dataset], words: str) -> QuerySet[Dataset]:
    """Select the datasets that have each word in their name, version, description, virtual cluster
    or owner."""
    for word in words.split():
        found = Q()
        for column in ("name", "version", "description", "vc__name", "owner__username"):
            found |= Q(**{f"{column}__icontains": word})
        rows = rows.filter(found)
    return rows


def find(user: Any, dataset_id: UUID) -> Dataset:
    """Return a dataset. Raises NotFound, also when it exists and the user may not know."""
    dataset = visible_to(user).filter(pk=dataset_id).first()
    if dataset is None:
        raise NotFound("There is no such dataset.", code="dataset_not_found")
    return dataset


def may_change(user: Any, dataset: Dataset, managed: Collection[UUID]) -> bool:
    """Return whether the user may describe and remove it: its owner, VC admins and admins.
    `managed`: the virtual clusters that the user is a VC admin of."""
    return tenancy.is_admin(user) or dataset.owner_id == user.pk or dataset.vc_id in managed


def named(owner: User, vc: VirtualCluster, names: Collection[str]) -> dict[str, Dataset]:
    """Return the datasets of a virtual cluster by what a job file calls them, NAME@VERSION or NAME
    for the newest one; `may_mount` says whether a job of this owner may. Those in the folder of a
    user who does not own them are left out. One query."""
    exact, newest = Q(pk__in=[]), list[str]()
    for name in names:
        title, _, version = name.partition("@")
        if version:
            exact |= Q(name=title, version=version)
        else:
            newest.append(title)
    last = Dataset.objects.filter(vc=vc, name__in=newest).order_by("name", "-pk").distinct("name")
    rows = Dataset.objects.filter(exact | Q(pk__in=last.values("pk")), vc=vc)
    storages = queries.mountable(owner, vc).filter(pk=OuterRef("storage"))
    found: dict[str, Dataset] = {}
    may_mount = Exists(storages) & ~Q(storage__per_user=True, user_folder="")
    rows = rows.select_related("storage", "owner").order_by("pk")
    for row in rows.annotate(may_mount=may_mount):
        if not row.abandoned:
            found[row.name] = found[str(row)] = row
    return {name: found[name] for name in names if name in found}


def create(
    user: User,
    virtual_cluster: str,
    name: str,
    storage: str,
    path: str = "",
    *,
    version: str = "",
    description: str = "",
    job: UUID | None = None,
) -> Dataset:
    """Make a dataset of a folder that the user may read; in a storage with folders for users, of
    one in the user's own. Without `version` it gets the next number. `job`: whose outputs it is.

    Raises NotFound, Forbidden `may_not_submit` and `storage_forbidden`, SkepError `name_invalid`,
    `version_invalid` and `storage_path_invalid`, Conflict `dataset_version_taken` and
    `too_many_datasets`."""
    vc = tenancy.find(user, virtual_cluster)
    if not tenancy.may_submit(user, vc):
        message = f"Only members of {vc.name} add datasets to it."
        raise Forbidden(message, code="may_not_submit")
    _check(NAME, name, "name_invalid")
    place, _ = queries.usable(user, storage)
    if not queries.mountable(user, vc).filter(pk=place.pk).exists():
        message = f"Storage {place.name} is granted neither to {vc.name} nor to a group of yours."
        raise Forbidden(message, code="storage_forbidden")
    dataset = Dataset(vc=vc, name=name, description=description, storage=place, owner=user)
    dataset.user_folder = user.get_username() if place.per_user else ""
    dataset.path = "/".join(part for part in path.split("/") if part)
    _check_path(dataset)
    if job is not None:
        dataset.job_id, dataset.job_name = job, ports.find_job.call(user, job).name
    _count(user, place, dataset)
    if Dataset.objects.filter(vc=vc).count() >= MAX_DATASETS:
        message = f"{vc.name} has {MAX_DATASETS} datasets, the most: remove some of them."
        raise Conflict(message, code="too_many_datasets")
    with transaction.atomic():
        dataset.version = version or _next_version(vc, name)
        _check(VERSION, dataset.version, "version_invalid")
        _save(dataset)
        message = f"Dataset {dataset} was made of {_where(dataset)}."
        record("dataset", dataset.pk, "dataset.created", message, actor=user.get_username())
        after = {"storage": place.name, "path": dataset.folder, "job": dataset.job_name}
        audit.record("dataset.create", "dataset", dataset.pk, str(dataset), after=after, vc=vc)
    return dataset


@transaction.atomic
def describe(user: User, dataset: Dataset, description: str) -> Dataset:
    """Change what is said of a dataset. Raises Forbidden."""
    _check_change(user, dataset)
    before, dataset.description = dataset.description, description
    dataset.save()
    message = f"Dataset {dataset} was described anew."
    record("dataset", dataset.pk, "dataset.changed", message, actor=user.get_username())
    audit.record(
        *("dataset.update", "dataset", dataset.pk, str(dataset)),
        before={"description": before},
        after={"description": description},
        vc=dataset.vc,
    )
    return dataset


@transaction.atomic
def delete(user: User, dataset: Dataset) -> None:
    """Delete a dataset, and nothing of its files. Containers that run keep it mounted; jobs that
    wait and name it fail when they start. Raises Forbidden."""
    _check_change(user, dataset)
    message = f"Dataset {dataset} was deleted."
    record("dataset", dataset.pk, "dataset.deleted", message, actor=user.get_username())
    before = {"storage": dataset.storage.name, "path": dataset.folder}
    audit.record(
        "dataset.delete", "dataset", dataset.pk, str(dataset), before=before, vc=dataset.vc
    )
    dataset.delete()


def _check(pattern: Any, text: str, code: str) -> None:
    try:
        pattern(text)
    except ValidationError as error:
        raise SkepError(error.messages[0], code=code) from None


def _check_path(dataset: Dataset) -> None:
    base = dataset.storage.path.rstrip("/")
    whole = f"{base}/{dataset.folder}".rstrip("/") or "/"
    if whole != "/" and not is_storage_path(whole):
        message = (
            f"A dataset is a folder of a storage, such as runs/42, of letters, digits and any of "
            f"_@+=~.-, and at most {MAX_STORAGE_PATH} characters with the path of the storage."
        )
        raise SkepError(message, code="storage_path_invalid")


def _count(user: User, storage: Storage, dataset: Dataset) -> None:
    """Count its files, where the server has them, and refuse a folder that is not there. Raises
    NotFound and SkepError."""
    try:
        total = files.total(user, storage, dataset.path)
    except Conflict as error:
        if error.code != "storage_files_not_served":
            raise
        return
    if total.modified_at is not None:
        message = f"{dataset.path} is a file: make a dataset of its folder."
        raise SkepError(message, code="not_a_folder")
    if total.complete:
        dataset.size, dataset.files = total.size, total.files


def _next_version(vc: VirtualCluster, name: str) -> str:
    taken = Dataset.objects.filter(vc=vc, name=name, version__regex=r"^[0-9]{1,9}$")
    return str(max(map(int, taken.values_list("version", flat=True)), default=0) + 1)


def _save(dataset: Dataset) -> None:
    try:
        with transaction.atomic():
            dataset.save()
    except IntegrityError:
        message = f"{dataset.vc.name} has {dataset} already; versions never change. Name another."
        raise Conflict(message, code="dataset_version_taken") from None


def _check_change(user: User, dataset: Dataset) -> None:
    if not may_change(user, dataset, tenancy.managed_by(user)):
        message = "Only its owner and the VC admins may change or remove a dataset."
        raise Forbidden(message, code="may_not_change_dataset")


def _where(dataset: Dataset) -> str:
    return f"{dataset.storage.name}:{dataset.folder}"
