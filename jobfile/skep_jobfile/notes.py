"""What the author of a good file should know: fields that are accepted and change nothing here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from pydantic import BaseModel

from skep_jobfile.demands import PLACES
from skep_jobfile.extras import TEAMWISE_STORAGE
from skep_jobfile.masking import MASK
from skep_jobfile.models import DockerImage, JobFile
from skep_jobfile.problems import Issue, Path, named
from skep_jobfile.raw import did_you_mean, items, section, suggestions
from skep_jobfile.scripts import CMD, PLUGINS, STARTS, SUCCEEDS
from skep_jobfile.templates import OPEN, TemplateError, lookup, names

CODE = "not_used"
UNKNOWN_NAME = "unknown_name"
STORAGE = "storage_not_mounted"  # what the job writes there is lost with its containers
HIVED: Path = ("extras", "hivedScheduler")
CARRIED_OUT = ("cmd", "ssh", TEAMWISE_STORAGE)
# Read by the pages of OpenPAI alone, or by storages that this cluster does not have.
SILENT = {"submitFrom", "tensorBoard"}
ROOTS = ("parameters", "secrets")
TEMPLATES = ("taskRoles", "deployments", "prerequisites", "extras")
MOST = 20  # finding what is meant is slow


def notes(job: JobFile, data: dict[str, Any]) -> list[Issue]:
    with suggestions():
        return _notes(job, data)


def _notes(job: JobFile, data: dict[str, Any]) -> list[Issue]:
    return [
        *_unused(data),
        *_strange(job, data),
        *_plugins(job),
        *_callbacks(job, data),
        *_roles(job),
        *_masks(data),
        *_unknown_names(data),
    ]


def _unused(data: dict[str, Any]) -> Iterator[Issue]:
    hived = section(data, *map(str, HIVED))
    for key in ("gangReleaseEnable", "ignoreK8sSuggestedNodes"):
        if hived.get(key) is not None:
            yield Issue(CODE, f"{key} has no effect here.", (*HIVED, key), at_key=True)
    for role in section(hived, "taskRoles"):
        if section(hived, "taskRoles", role).get("skuNum"):
            message = "skuNum has no effect here: resourcePerInstance says how many."
            yield Issue(CODE, message, (*PLACES, role, "skuNum"), at_key=True)


def _strange(job: JobFile, data: dict[str, Any]) -> Iterator[Issue]:
    """Yield the fields that the protocol allows and no code reads: most likely misspelt."""
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
            yield Issue(CODE, message, (*path, key), at_key=True)


def _plugins(job: JobFile) -> Iterator[Issue]:
    for index, plugin in enumerate(job.extras.runtime_plugins):
        path: Path = ("extras", PLUGINS, index)
        if plugin.plugin not in CARRIED_OUT:
            if is_storage(plugin.plugin):
                yield _unmounted(plugin.plugin, (*path, "plugin"))
                continue
            message = f"The plugin {named(plugin.plugin)} is not carried out here."
            hint = " Use extras.skep.workingFiles.git." if plugin.plugin == "git" else ""
            yield Issue(CODE, message + hint, (*path, "plugin"))
        for place, role in enumerate(plugin.taskroles):
            if role not in job.task_roles:
                message = (
                    f"There is no task role {named(role)}.{did_you_mean(role, job.task_roles)}"
                )
                yield Issue("unknown_task_role", message, (*path, "taskroles", place))


def _callbacks(job: JobFile, data: dict[str, Any]) -> Iterator[Issue]:
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
                yield Issue(CODE, message, (*path, "plugin"))
        for index, callback in enumerate(item.callbacks):
            if callback.event not in (STARTS, SUCCEEDS):
                message = f"An event is {STARTS} or {SUCCEEDS}: these commands do not run."
                yield Issue(CODE, message, (*path, "callbacks", index, "event"))


def is_storage(plugin: str) -> bool:
    """Whether a plugin of this name mounts a storage in a way that is not carried out."""
    return "storage" in plugin.lower() and plugin != TEAMWISE_STORAGE


def _unmounted(plugin: str, path: Path) -> Issue:
    message = (
        f"The plugin {named(plugin)} is not carried out here: no storage is mounted, and what the "
        "job writes to its path is lost with the container."
    )
    return Issue(STORAGE, message, path)


def _roles(job: JobFile) -> Iterator[Issue]:
    for name, role in job.task_roles.items():
        if role.task_retry_count and not job.incremental:
            message = "taskRetryCount has no effect while gangAllocation is true."
            yield Issue(CODE, message, ("taskRoles", name, "taskRetryCount"), at_key=True)


def _masks(data: dict[str, Any]) -> Iterator[Issue]:
    """Yield an issue for each secret that was copied from a page, which shows no secrets."""
    for key, value in section(data, "secrets").items():
        if value == MASK:
            message = f"The value is {MASK}: put the secret itself in."
            yield Issue("masked_secret", message, ("secrets", key))


def _unknown_names(data: dict[str, Any]) -> Iterator[Issue]:
    """Parameters and secrets that templates name and that do not exist. OpenPAI accepts such a
    file, and the tag stays in the script as it is written."""
    values = {f"${root}": data.get(root) for root in ROOTS}
    return islice(_unknown(data, values), MOST)


def _unknown(data: dict[str, Any], values: Mapping[str, Any]) -> Iterator[Issue]:
    for key in TEMPLATES:
        for path, text in _templates(data.get(key), (key,)):
            for name in dict.fromkeys(_names(text)):
                root, _, rest = name.partition(".")
                if root in values and lookup(name, values) is None:
                    near = did_you_mean(rest, _known(section(data, root[1:])))
                    message = f"{named(name)} has no value: the tag stays as it is written.{near}"
                    yield Issue(UNKNOWN_NAME, message, path)


def _templates(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        if OPEN in value:
            yield path, value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _templates(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _templates(child, (*path, index))


def _names(text: str) -> Iterator[str]:
    """None of a text that is a template only together with its neighbours."""
    try:
        yield from names(text)
    except TemplateError:
        return


def _known(values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in values.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from _known(value, f"{prefix}{key}.")
