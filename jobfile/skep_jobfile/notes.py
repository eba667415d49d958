"""What the author of a good file should know: fields that are accepted and change nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from skep_jobfile import nameless
from skep_jobfile.demands import PLACES, SKEP
from skep_jobfile.masking import MASK
from skep_jobfile.models import DockerImage, JobFile
from skep_jobfile.problems import Path, Trouble, named
from skep_jobfile.raw import did_you_mean, items, section, suggestions
from skep_jobfile.scripts import CMD, PLUGINS, STARTS, SUCCEEDS

CODE = "not_used"
STORAGE = "storage_not_mounted"  # what the job writes there is lost with its containers
HIVED: Path = ("extras", "hivedScheduler")
CARRIED_OUT = ("cmd", "ssh")
# Told to the pages of OpenPAI alone, or to storages that this cluster has not.
SILENT = {"submitFrom", "tensorBoard"}


def notes(job: JobFile, data: dict[str, Any]) -> list[Trouble]:
    with suggestions():
        return _notes(job, data)


def _notes(job: JobFile, data: dict[str, Any]) -> list[Trouble]:
    return [
        *_unused(data),
        *_strange(job, data),
        *_plugins(job),
        *_callbacks(job, data),
        *_storages(data),
        *_roles(job),
        *_own(job),
        *_masks(data),
        *nameless.notes(data),
    ]


def _unused(data: dict[str, Any]) -> Iterator[Trouble]:
    hived = section(data, *map(str, HIVED))
    for key in ("gangReleaseEnable", "ignoreK8sSuggestedNodes"):
        if hived.get(key) is not None:
            yield Trouble(CODE, f"{key} has no effect here.", (*HIVED, key), at_key=True)
    for role in section(hived, "taskRoles"):
        if section(hived, "taskRoles", role).get("skuNum"):
            message = "skuNum has no effect here: resourcePerInstance says how many."
            yield Trouble(CODE, message, (*PLACES, role, "skuNum"), at_key=True)
    if section(data, "extras", "jobStatusChangeNotification"):
        path: Path = ("extras", "jobStatusChangeNotification")
        yield Trouble(CODE, "Nobody is notified by mail here; look at the job's events.", path)


def _strange(job: JobFile, data: dict[str, Any]) -> Iterator[Trouble]:
    """Fields that the protocol lets pass and nobody reads: most likely misspelt."""
    parts: list[tuple[Path, BaseModel]] = [
        (("defaults",), job.defaults),
        (("extras",), job.extras),
        (HIVED, job.extras.hived_scheduler),
        *(((*PLACES, name), d) for name, d in job.extras.hived_scheduler.task_roles.items()),
    ]
    for name, role in job.task_roles.items():
        if role.extra_container_options is not None:
            path: Path = ("taskRoles", name, "extraContainerOptions")
            parts.append((path, role.extra_container_options))
    for path, part in parts:
        known = [field.alias or name for name, field in type(part).model_fields.items()]
        for key in set(part.model_extra or {}) - SILENT:
            message = f"{named(key)} has no effect here.{did_you_mean(key, known)}"
            yield Trouble(CODE, message, (*path, key), at_key=True)


def _plugins(job: JobFile) -> Iterator[Trouble]:
    for index, plugin in enumerate(job.extras.runtime_plugins):
        path: Path = ("extras", PLUGINS, index)
        if plugin.plugin not in CARRIED_OUT:
            if is_storage(plugin.plugin):
                yield _unmounted(plugin.plugin, (*path, "plugin"))
                continue
            message = f"The plugin {named(plugin.plugin)} is not carried out here."
            hint = " Use extras.skep.workingFiles.git." if plugin.plugin == "git" else ""
            yield Trouble(CODE, message + hint, (*path, "plugin"))
        for place, role in enumerate(plugin.taskroles):
            if role not in job.task_roles:
                message = (
                    f"There is no task role {named(role)}.{did_you_mean(role, job.task_roles)}"
                )
                yield Trouble("unknown_task_role", message, (*path, "taskroles", place))


def _callbacks(job: JobFile, data: dict[str, Any]) -> Iterator[Trouble]:
    places = {item.get("name"): index for index, item in items(data, "prerequisites")}
    for item in job.prerequisites:
        if isinstance(item, DockerImage):
            continue
        path: Path = ("prerequisites", places[item.name])
        if item.plugin not in (None, CMD):
            if is_storage(item.plugin):
                yield _unmounted(item.plugin, (*path, "plugin"))
            else:
                message = f"The plugin {named(item.plugin)} is not carried out here."
                yield Trouble(CODE, message, (*path, "plugin"))
        for index, callback in enumerate(item.callbacks):
            if callback.event not in (STARTS, SUCCEEDS):
                message = f"An event is {STARTS} or {SUCCEEDS}: these commands do not run."
                yield Trouble(CODE, message, (*path, "callbacks", index, "event"))


def is_storage(plugin: str) -> bool:
    """Whether a plugin of this name mounts a storage."""
    return "storage" in plugin.lower()


def _unmounted(plugin: str, path: Path) -> Trouble:
    message = (
        f"The plugin {named(plugin)} is not carried out here: no storage is mounted, and what the "
        "job writes to its path is lost with the container."
    )
    return Trouble(STORAGE, message, path)


def _storages(data: dict[str, Any]) -> Iterator[Trouble]:
    # An empty list takes the user's default ones.
    if section(data, "extras").get("storages") is not None:
        message = "There are no team storages here; get data by commands, or by working files."
        yield Trouble(STORAGE, message, ("extras", "storages"))


def _roles(job: JobFile) -> Iterator[Trouble]:
    for name, role in job.task_roles.items():
        if role.task_retry_count and not job.incremental:
            message = "taskRetryCount has no effect while gangAllocation is true."
            yield Trouble(CODE, message, ("taskRoles", name, "taskRetryCount"), at_key=True)


def _own(job: JobFile) -> Iterator[Trouble]:
    if job.extras.skep.elastic is not None:
        message = "The range is kept; the job runs with all of its tasks for now."
        yield Trouble(CODE, message, (*SKEP, "elastic"), at_key=True)


def _masks(data: dict[str, Any]) -> Iterator[Trouble]:
    """Copied from a page, which shows no secrets."""
    for key, value in section(data, "secrets").items():
        if value == MASK:
            message = f"The value is {MASK}: put the secret itself in."
            yield Trouble("masked_secret", message, ("secrets", key))
