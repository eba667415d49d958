"""How large a job can be here, and what it cannot be: bounds of the platform alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from skep_jobfile import Issue, JobFile, Path, TaskRole
from skep_jobfile.demands import PLACES
from skep_limits import MAX_TAG, TAG, is_image_reference
from skep_platform.jobs.containers.gang import host_of

MAX_TASKS = 10_000
MAX_ROLES = 100
MAX_ROLE_NAME = 50
MAX_COMMAND_BYTES = 128_000  # of one script: a kernel takes 128 KiB in an argument
MAX_VALUE_BYTES = 100_000  # of one variable
MAX_ENVIRONMENT_BYTES = 256_000  # of all of them, beside the platform's own
# Of a job, so that its secrets fit into a frame to a node, and its logs can be searched for them.
MAX_SECRETS, MAX_SECRET_BYTES = 64, 32 * 1024
MAX_MASKS, MAX_MASK_BYTES = 1_800, 240 * 1024  # the agent takes some more: those of ssh keys
MAX_RETRIES = 1_000_000
MIN_CPU, MAX_CPU = 0.01, 4096
MIN_MEMORY_MB, MAX_MEMORY_MB = 6, 64 * 1024**2  # no engine starts a container with less
MAX_SHM_MB = 16 * 1024**2
MAX_GPUS = 1024
MAX_LABELS, MAX_LABEL, MAX_PORTS = 20, 50, 100
MAX_NAMES = {"sku_type": 100, "pinned_cell_id": 63, "affinity_group_name": 255}


def check(job: JobFile, commands: Mapping[str, str], environment: Mapping[str, str]) -> list[Issue]:
    """Check the size of a job. `commands` by role and `environment` by name are rendered, but for
    secrets."""
    return [
        *_roles(job),
        *_images(job),
        *_lengths(job),
        *_pins(job),
        *of_texts(commands, environment),
        *check_tags(job.extras.tags, ("extras", "tags")),
    ]


def of_texts(
    commands: Mapping[str, str], environment: Mapping[str, str], *, with_secrets: bool = False
) -> Iterator[Issue]:
    """Yield what is too long to be started in a container."""
    more = " with secrets filled in" if with_secrets else ""
    yield from _scripts(commands, more)
    yield from _variables(environment, more)


def of_counts(job: JobFile) -> Iterator[Issue]:
    """Check the counts, before anything is rendered."""
    if job.tasks > MAX_TASKS:
        message = f"{job.tasks} tasks; a job has at most {MAX_TASKS}."
        yield Issue("too_many_tasks", message, ("taskRoles",))
    if len(job.task_roles) > MAX_ROLES:
        message = f"{len(job.task_roles)} task roles; a job has at most {MAX_ROLES}."
        yield Issue("too_many_task_roles", message, ("taskRoles",))
    if job.job_retry_count > MAX_RETRIES:
        message = f"At most {MAX_RETRIES} retries."
        yield Issue("invalid_value", message, ("jobRetryCount",))


def _roles(job: JobFile) -> Iterator[Issue]:
    hosts: dict[str, str] = {}
    for name, role in job.task_roles.items():
        path: Path = ("taskRoles", name)
        if len(name) > MAX_ROLE_NAME:
            message = f"A name of a task role has at most {MAX_ROLE_NAME} characters."
            yield Issue("invalid_name", message, path, at_key=True)
        other = hosts.setdefault(host_of(name), name)
        if other != name:
            message = f"Its tasks would have the same host names as those of {other[:100]}."
            yield Issue("same_host_names", message, path, at_key=True)
        yield from _amounts(role, (*path, "resourcePerInstance"))
        if role.shm_mb > MAX_SHM_MB:
            place = (*path, "extraContainerOptions", "shmMB")
            yield Issue("invalid_value", f"At most {MAX_SHM_MB} MiB.", place)


def _amounts(role: TaskRole, path: Path) -> Iterator[Issue]:
    asked = role.resource_per_instance
    for key, amount, least, most in (
        ("cpu", asked.cpu, MIN_CPU, MAX_CPU),
        ("memoryMB", asked.memory_mb, MIN_MEMORY_MB, MAX_MEMORY_MB),
        ("gpu", asked.gpu, 0, MAX_GPUS),
    ):
        if not least <= amount <= most:
            message = f"Between {least} and {most} for each task."
            yield Issue("invalid_value", message, (*path, key))
    if len(asked.ports) > MAX_LABELS:
        yield Issue("invalid_value", f"At most {MAX_LABELS} labels.", (*path, "ports"))
    for label, count in asked.ports.items():
        if count > MAX_PORTS or len(label) > MAX_LABEL:
            message = f"At most {MAX_PORTS} ports, and {MAX_LABEL} characters of their label."
            yield Issue("invalid_value", message, (*path, "ports", label))


def _images(job: JobFile) -> Iterator[Issue]:
    used = {role.docker_image for role in job.task_roles.values()}
    for index, item in enumerate(job.prerequisites):
        if item.type != "dockerimage" or item.name not in used:
            continue
        if not is_image_reference(item.uri):
            message = "This is no reference of an image, such as pytorch/pytorch:2.9.0."
            yield Issue("invalid_value", message, ("prerequisites", index, "uri"))


def _lengths(job: JobFile) -> Iterator[Issue]:
    for role, demand in job.extras.hived_scheduler.task_roles.items():
        for field, most in MAX_NAMES.items():
            value = getattr(demand, field) or ""
            key = type(demand).model_fields[field].alias or field
            if not value.isprintable():
                message = "Control characters are not taken."
                yield Issue("invalid_character", message, (*PLACES, role, key))
            if len(value) > most:
                yield Issue("invalid_value", f"At most {most} characters.", (*PLACES, role, key))


def _pins(job: JobFile) -> Iterator[Issue]:
    """Check that a job lies in one pinned cell as a whole, but for tasks without GPUs."""
    first, pin = "", ""
    for name, role in job.task_roles.items():
        own, path = job.demand_of(name).pinned_cell_id or "", (*PLACES, name, "pinnedCellId")
        if own and job.opportunistic:
            message = "A pinned cell is for guaranteed jobs; take another jobPriorityClass."
            yield Issue("opportunistic_pinned_cell", message, path)
        elif own and own != (pin or own):
            message = f"A job lies in one pinned cell; {first[:100]} names {pin[:100]}."
            yield Issue("several_pinned_cells", message, path)
        elif own and not pin:
            first, pin = name, own
        elif not own and job.pinned_cell and role.resource_per_instance.gpu:
            message = (
                f"A job lies in its pinned cell as a whole: give this role the pinnedCellId "
                f"{job.pinned_cell[:100]}, too."
            )
            yield Issue("several_pinned_cells", message, ("taskRoles", name), at_key=True)


def _scripts(commands: Mapping[str, str], more: str) -> Iterator[Issue]:
    for name, script in commands.items():
        size = len(script.encode())
        if size > MAX_COMMAND_BYTES:
            message = f"The commands have {size} bytes together{more}, at most {MAX_COMMAND_BYTES}."
            yield Issue("command_too_long", message, ("taskRoles", name, "commands"))


def _variables(environment: Mapping[str, str], more: str) -> Iterator[Issue]:
    path: Path = ("extras", "skep", "environment")
    total = 0
    for name, value in environment.items():
        size = len(name) + len(value.encode())
        total += size
        if size > MAX_VALUE_BYTES:
            message = f"The value has {size} bytes{more}, at most {MAX_VALUE_BYTES}."
            yield Issue("variable_too_long", message, (*path, name))
    if total > MAX_ENVIRONMENT_BYTES:
        message = (
            f"The variables have {total} bytes together{more}, at most {MAX_ENVIRONMENT_BYTES}."
        )
        yield Issue("environment_too_long", message, path)


MAX_TAGS = 20


def check_tags(tags: Sequence[str], path: Path) -> Iterator[Issue]:
    """Yield what is wrong with the tags."""
    if len(tags) > MAX_TAGS:
        yield Issue("too_many_tags", f"A job has at most {MAX_TAGS} tags.", path)
    for index, tag in enumerate(tags):
        if not TAG.fullmatch(tag):
            message = (
                f"A tag has up to {MAX_TAG} letters, digits and . _ : / -, and begins with a "
                "letter or digit."
            )
            yield Issue("invalid_tag", message, (*path, index))


def tidy(tags: Sequence[str]) -> list[str]:
    """Return each tag once, in their order."""
    return list(dict.fromkeys(tags))
