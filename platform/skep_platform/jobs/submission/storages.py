"""The storages and datasets that a job asks for: whether it may mount them, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from skep_jobfile import Issue, JobFile, Path
from skep_jobfile.extras import TEAMWISE_STORAGE, Storage
from skep_jobfile.problems import named
from skep_jobfile.scripts import PLUGINS
from skep_jobfile.skep_extras import DatasetMount
from skep_limits import (
    CLOSED_MOUNT_TARGETS,
    MAX_STORAGES,
    is_folder_name,
    is_storage_path,
    overlaps,
)
from skep_platform.accounts.models import User
from skep_platform.jobs.models import Job, JobStorage
from skep_platform.storage import datasets, queries
from skep_platform.storage.models import Storage as Row
from skep_platform.tenancy.models import VirtualCluster

NOT_FOUND, FORBIDDEN, BAD_PATH = "storage_not_found", "storage_forbidden", "storage_path_invalid"
NO_DATASET = "dataset_not_found"
DATASETS: Path = ("extras", "skep", "datasets")
MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class AskedStorages:
    """`found` are rows that are not stored yet; `missing`: why others cannot be mounted; `wrong`:
    what is wrong with a file that asks for them."""

    found: list[JobStorage] = field(default_factory=list)
    missing: list[Issue] = field(default_factory=list)
    wrong: list[Issue] = field(default_factory=list)

    def store(self, job: Job) -> None:
        """Store what the containers of the job mount."""
        for row in self.found:
            row.job = job
        JobStorage.objects.bulk_create(self.found)


def of(user: User, job: JobFile, vc: VirtualCluster) -> AskedStorages:
    """Return the storages and datasets of a job. No query for a job that asks for none, else at
    most two for storages and one for datasets."""
    asked, sets = job.extras.asked_storages, job.extras.skep.asked_datasets
    if asked is None and not sets:
        return AskedStorages()
    if len(asked or ()) + len(sets) > MAX_STORAGES:
        number = len(asked or ()) + len(sets)
        message = f"A job mounts at most {MAX_STORAGES} storages and datasets, this one {number}."
        path: Path = _path(job) if asked else DATASETS
        issue = Issue("too_many_storages", message, path, details={"most": MAX_STORAGES})
        return AskedStorages(wrong=[issue])
    result, granted, wanted = AskedStorages(), dict[str, Row](), list[Storage]()
    if asked is not None:
        names = [storage.name for storage in asked]
        granted = {row.name: row for row in queries.asked(user, vc, names)}
        wanted = asked or [Storage(name=name) for name in list(granted)[: MAX_STORAGES - len(sets)]]
        missing = [(index, s) for index, s in enumerate(wanted) if s.name not in granted]
        result.found.extend(
            JobStorage(storage=granted[storage.name], name=storage.name, target=storage.target)
            for storage in wanted
            if storage.name in granted
        )
        result.missing.extend(_missing(user, job, vc, missing) if missing else [])
    targets = [(one.target, _path(job, i, "mountPath")) for i, one in enumerate(wanted)]
    targets += [(one.target, (*DATASETS, i)) for i, one in enumerate(sets)]
    result.wrong.extend(_wrong_paths(job, targets))
    if any(row.per_user for row in granted.values()) and not is_folder_name(user.get_username()):
        message = "Your user name cannot be the name of a folder: ask an admin to change it."
        result.wrong.append(Issue(FORBIDDEN, message, _path(job)))
    if sets:
        _add_datasets(result, user, vc, sets)
    return result


def _add_datasets(
    result: AskedStorages, user: User, vc: VirtualCluster, sets: list[DatasetMount]
) -> None:
    known = datasets.named(user, vc, [one.name for one in sets])
    for index, one in enumerate(sets):
        path, details = (*DATASETS, index), {"dataset": one.name, "virtual_cluster": vc.name}
        row = known.get(one.name)
        if row is None:
            message = f"There is no dataset {named(one.name)} in {vc.name}: see skep datasets."
            result.wrong.append(Issue(NO_DATASET, message, path, details=details))
        elif not row.may_mount:  # type: ignore[attr-defined]
            message = f"Dataset {row} lies in a storage that jobs of yours in {vc.name} cannot use."
            result.wrong.append(Issue(FORBIDDEN, message, path, details=details))
        else:
            mount = JobStorage(storage=row.storage, dataset=row, name=str(row), target=one.target)
            result.found.append(mount)


def lost(source: Job, asked: AskedStorages) -> Issue | None:
    """Return why a clone cannot mount what the job that is cloned did. What that was submitted
    without, its clone does without."""
    if not asked.missing:
        return None
    mounted = set(JobStorage.objects.filter(job=source).values_list("name", flat=True))
    return next((i for i in asked.missing if i.details["storage"] in mounted), None)


def _missing(
    user: User, job: JobFile, vc: VirtualCluster, missing: list[tuple[int, Storage]]
) -> list[Issue]:
    """Return why these cannot be mounted. Of what was granted to virtual clusters that the user
    does not belong to, nothing is said."""
    names = [storage.name for _, storage in missing]
    known = {found.name: found for found in queries.visible_to(user).filter(name__in=names)}
    issues = []
    for index, storage in missing:
        elsewhere = known.get(storage.name)
        if elsewhere is None:
            code = NOT_FOUND
            message = f"There is no storage {named(storage.name)} for jobs of {vc.name}."
        else:
            code = FORBIDDEN
            grants = elsewhere.known_grants  # type: ignore[attr-defined]
            known_vcs = [grant.vc.name for grant in grants if grant.vc is not None]
            holders = ", ".join(known_vcs[:MOST_NAMED]) or "none yet"
            message = f"Storage {storage.name} is not granted to {vc.name}, but to: {holders}."
        details = {"storage": storage.name[:100], "virtual_cluster": vc.name}
        issues.append(Issue(code, message, _path(job, index), details=details))
    return issues


def _wrong_paths(job: JobFile, wanted: list[tuple[str, Path]]) -> Iterator[Issue]:
    targets: list[str] = []
    for target, path in wanted:
        message = ""
        if not is_storage_path(target):
            message = (
                f"{target[:100]!r} is no folder for a storage: write an absolute path without '.' "
                "and '..', of letters, digits and any of _@+=~.-"
            )
        elif closed := overlaps(target, CLOSED_MOUNT_TARGETS):
            message = f"A storage cannot be mounted at {target}: {closed} is not the job's."
        elif other := overlaps(target, tuple(targets)):
            message = f"Storages cannot be mounted at both {other} and {target}."
        elif (files := job.extras.skep.working_files) and _within(files.path, target):
            message = f"The working files at {files.path} would be hidden by {target}."
        if message:
            yield Issue(BAD_PATH, message, path, details={"path": target[:200]})
        targets.append(target)


def _within(folder: str, target: str) -> bool:
    return f"{folder}/".startswith(f"{target}/")


def _path(job: JobFile, *index: int | str) -> Path:
    """Return where the file asks for its storages, or for one of them."""
    if job.extras.storages is not None:
        known = index if index and len(job.extras.storages) > int(index[0]) else ()
        if len(known) > 1 and job.extras.storages[int(known[0])].mount_path is None:
            known = known[:1]
        return ("extras", "storages", *known)
    plugins = job.extras.runtime_plugins
    at = next(i for i, plugin in enumerate(plugins) if plugin.plugin == TEAMWISE_STORAGE)
    return ("extras", PLUGINS, at, "plugin")
