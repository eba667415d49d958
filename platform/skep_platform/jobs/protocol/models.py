"""The fields of the job protocol that Skep honours, as pydantic models.

`NOT_YET` lists, per object, the fields of the protocol that are not honoured yet: they are refused
by name. To honour one, move it from there into the model.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from skep_platform.jobs.protocol.extras import (
    OPPORTUNISTIC,
    HivedRole,
    HivedScheduler,
    PriorityClass,
    SkepExtras,
)
from skep_platform.jobs.protocol.part import Part, RoleName

DEFAULT_VC = "default"
MAX_TASKS = 10_000
MAX_COMMAND_BYTES = 128_000  # of one script: a kernel takes 128 KiB in an argument


def _without_template(text: str) -> str:
    """OpenPAI fills `<% … %>` in; running such text as it stands would do something else."""
    if "<%" in text and "%>" in text:
        raise PydanticCustomError("not_supported_yet", "templates (<% … %>) are not supported yet")
    return text


def _or_none(value: Any) -> Any:
    """0 means "not given", as in OpenPAI."""
    return None if type(value) is int and value == 0 else value


# Patterns mean the same here and in JavaScript: `$` is the end of the text in both.
Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_-]+$", min_length=1, max_length=255)]
PortLabel = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=50)]
# registry:port/path/name:tag@digest, or the name of a known image.
REFERENCE = (
    r"^[0-9A-Za-z][0-9A-Za-z._-]*(:[0-9]+)?(/[0-9a-z]+([._-]+[0-9a-z]+)*)*"
    r"(:[0-9A-Za-z_][0-9A-Za-z_.-]{0,127})?(@sha256:[0-9a-f]{64})?$"
)
ImageUri = Annotated[str, Field(pattern=REFERENCE, max_length=512)]
Words = Annotated[str, Field(max_length=10_000)]
Version = Annotated[str, Field(max_length=255)] | int | float
ProtocolVersion = Literal[2, "2"]
Command = Annotated[str, Field(max_length=100_000), AfterValidator(_without_template)]
Count = Annotated[int, Field(ge=-1, le=MAX_TASKS)]


class DockerImage(Part):
    """A prerequisite of type dockerimage: `uri` is a reference, or the name of an image that the
    admins of Skep made known."""

    NOT_YET = frozenset({"auth", "plugin", "require", "callbacks", "failurePolicy"})

    type: Literal["dockerimage"]
    name: Annotated[str, Field(min_length=1, max_length=255)]
    uri: ImageUri
    protocol_version: ProtocolVersion | None = None
    version: Version | None = None
    contributor: Words | None = None
    description: Words | None = None


class Completion(Part):
    """When a role's tasks end the whole job. -1: never by this count."""

    min_failed_instances: Annotated[Count | None, BeforeValidator(_or_none)] = Field(
        default=None, description="So many failed tasks fail the job; default 1, -1: never."
    )
    min_succeeded_instances: Annotated[Count | None, BeforeValidator(_or_none)] = Field(
        default=None, description="So many succeeded tasks end the job well; default all."
    )


class Resources(Part):
    """What each task of a role needs."""

    cpu: Annotated[int | float, Field(ge=0.01, le=4096, description="Cores.")]
    memory_mb: Annotated[int, Field(ge=6, le=64 * 1024**2, alias="memoryMB", description="MiB.")]
    gpu: Annotated[int, Field(ge=0, le=1024)]
    ports: Annotated[
        dict[PortLabel, Annotated[int, Field(ge=0, le=100)]],
        Field(max_length=20, description="Label to number of ports; ssh and http are added."),
    ] = {}


class ContainerOptions(Part):
    NOT_YET = frozenset({"infiniband"})

    shm_mb: Annotated[int, Field(gt=0, le=16 * 1024**2, alias="shmMB")] = 512


class TaskRole(Part):
    """A group of equal tasks."""

    NOT_YET = frozenset({"taskRetryCount", "prerequisites", "data", "output", "script"})

    instances: Annotated[int, Field(ge=1, le=MAX_TASKS)] = 1
    completion: Completion = Completion()
    docker_image: Annotated[str, Field(description="Name of a dockerimage prerequisite.")]
    resource_per_instance: Resources
    commands: Annotated[list[Command], Field(min_length=1, max_length=1000)]
    extra_container_options: ContainerOptions = ContainerOptions()

    @property
    def command(self) -> str:
        """One shell script."""
        return "\n".join(self.commands)

    @property
    def min_failed(self) -> int:
        return self.completion.min_failed_instances or 1

    @property
    def min_succeeded(self) -> int:
        return self.completion.min_succeeded_instances or self.instances


class Defaults(Part):
    NOT_YET = frozenset({"deployment"})

    virtual_cluster: Annotated[str, Field(min_length=1, max_length=63)] = DEFAULT_VC


class Extras(Part):
    NOT_YET = frozenset(
        {
            "com.microsoft.pai.runtimeplugin",
            "storages",
            "jobStatusChangeNotification",
            "submitFrom",
            "tensorBoard",
        }
    )

    gang_allocation: bool | None = Field(
        default=None, description="All tasks start together; false: each when it finds a place."
    )
    hived_scheduler: HivedScheduler = HivedScheduler()
    skep: SkepExtras = SkepExtras()


class JobFile(Part):
    """A job of OpenPAI's job protocol v2."""

    NOT_YET = frozenset({"parameters", "secrets", "deployments"})

    protocol_version: ProtocolVersion
    name: Name
    type: Literal["job"]
    version: Version | None = None
    contributor: Words | None = None
    description: Words | None = None
    prerequisites: Annotated[list[DockerImage], Field(min_length=1, max_length=100)] = []
    job_retry_count: Annotated[int, Field(ge=0, le=1000)] = 0
    task_roles: Annotated[dict[RoleName, TaskRole], Field(min_length=1, max_length=100)]
    defaults: Defaults = Defaults()
    extras: Extras = Extras()

    @property
    def priority_class(self) -> PriorityClass:
        return self.extras.hived_scheduler.job_priority_class

    @property
    def priority(self) -> int:
        own = self.extras.skep.priority
        return self.priority_class.priority if own is None else own

    @property
    def opportunistic(self) -> bool:
        return self.priority == OPPORTUNISTIC

    @property
    def incremental(self) -> bool:
        return self.extras.gang_allocation is False

    @property
    def lazy_preemption(self) -> bool:
        own = self.extras.skep.lazy_preemption
        return bool(self.extras.hived_scheduler.lazy_preemption_enable if own is None else own)

    @property
    def pinned_cell(self) -> str:
        """Of the whole job: its roles name one."""
        roles = self.extras.hived_scheduler.task_roles.values()
        return next((r.pinned_cell_id for r in roles if r.pinned_cell_id), "")

    @property
    def gpus(self) -> int:
        return sum(r.instances * r.resource_per_instance.gpu for r in self.task_roles.values())

    @property
    def tasks(self) -> int:
        return sum(role.instances for role in self.task_roles.values())

    def demand_of(self, role: str) -> HivedRole:
        """Where the tasks of this role shall lie."""
        return self.extras.hived_scheduler.task_roles.get(role, HivedRole())

    def sku_of(self, role: str) -> str:
        """The role's own, or that of its affinity group."""
        demand = self.demand_of(role)
        if demand.sku_type or not demand.affinity_group_name:
            return demand.sku_type or ""
        peers = self.extras.hived_scheduler.task_roles.values()
        group = [p for p in peers if p.affinity_group_name == demand.affinity_group_name]
        return next((peer.sku_type for peer in group if peer.sku_type), "")

    def uri_of(self, role: TaskRole) -> str:
        return next(p.uri for p in self.prerequisites if p.name == role.docker_image)
