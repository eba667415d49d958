"""The fields of OpenPAI's job protocol v2, as its server takes them, as pydantic models.

Where the protocol allows fields that it does not know, so do we; where it takes negative amounts,
we do not (docs/from-openpai-jobs.md lists such differences).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from skep_jobfile.extras import OPPORTUNISTIC, Extras, HivedRole, PriorityClass
from skep_jobfile.part import Identifier, Name, NotNull, OpenPart, Part, RoleName
from skep_jobfile.skep_extras import Elastic

DEFAULT_VC = "default"
DEFAULT_SHM_MB = 512
DOCKER_HUB = "https://index.docker.io/v1/"
ALWAYS = {"ssh": 1, "http": 1}  # ports that every task has

MAX_AMOUNT = 10**12
Amount = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]
Commands = Annotated[list[str], Field(min_length=1)]

ProtocolVersion = Annotated[
    Literal[2, "2"], Field(description="Version of the job protocol: always 2.")
]
Version = Annotated[str | int | float, Field(description="Version of what is described; free.")]
Contributor = Annotated[str, Field(description="Who wrote it; free text.")]
Description = Annotated[str, Field(description="What it is for; free text.")]


def _or_none(value: Any) -> Any:
    """0 means "not given"."""
    return None if type(value) is int and value == 0 else value


Count = Annotated[Annotated[int, Field(ge=-1, le=MAX_AMOUNT)] | None, BeforeValidator(_or_none)]


class RegistryAuth(OpenPart):
    """How to log in at the registry of an image."""

    username: str = Field(default="", description="Who pulls; templates with `$secrets` work.")
    password: str = Field(
        default="",
        repr=False,
        description="The password or token; keep it in `secrets` and write `<% $secrets.x %>`.",
    )
    registryuri: str = Field(
        default=DOCKER_HUB,
        description="Address of the registry; Docker Hub where it is left out.",
    )


class DockerImage(Part):
    """A prerequisite of type dockerimage: an image that task roles run in."""

    type: Literal["dockerimage"] = Field(description="What kind of prerequisite it is.")
    name: Name = Field(description="What `dockerImage` of a task role refers to.")
    uri: str = Field(
        description="Reference of the image, or the name that an admin gave to one.",
        examples=["pytorch/pytorch:2.9.0-cuda12.8-cudnn9-runtime"],
    )
    auth: Annotated[RegistryAuth | None, NotNull] = Field(
        default=None, description="How to log in at its registry, where that is needed."
    )
    protocol_version: ProtocolVersion = 2
    version: Version = ""
    contributor: Contributor = ""
    description: Description = ""


class Callback(OpenPart):
    """Commands of the `cmd` plugin around those of a task."""

    event: str = Field(
        description="When: `taskStarts`, or `taskSucceeds` (after exit code 0, last one first)."
    )
    commands: list[str] = Field(description="Lines of one shell script; templates work.")


class Files(OpenPart):
    """What prerequisites of the other types have in common; they may have fields of their own."""

    name: Name = Field(description="What task roles refer to.")
    plugin: Annotated[str | None, NotNull] = Field(
        default=None,
        description="`com.microsoft.pai.runtimeplugin.cmd` runs the callbacks.",
    )
    require: list[str] = Field(
        default=[], description="Names of prerequisites whose callbacks come before."
    )
    callbacks: list[Callback] = Field(
        default=[], description="Commands around those of the tasks that use it."
    )
    failure_policy: Annotated[str | None, NotNull] = Field(
        default=None,
        description="`ignore`: the task goes on when a callback fails; otherwise it fails.",
    )
    protocol_version: ProtocolVersion = 2
    version: Version = ""
    contributor: Contributor = ""
    description: Description = ""


class ScriptOrOutput(Files):
    """A prerequisite of type script or output: where code lies, or results go."""

    type: Literal["script", "output"] = Field(description="What kind of prerequisite it is.")
    uri: str = Field(default="", description="Where; commands print it by `<% $script.uri %>`.")


class Data(Files):
    """A prerequisite of type data: what a job learns from."""

    type: Literal["data"] = Field(description="What kind of prerequisite it is.")
    uri: list[str] = Field(
        default=[], description="Where; commands print them by `<% $data.uri[0] %>`."
    )


Prerequisite = Annotated[DockerImage | ScriptOrOutput | Data, Field(discriminator="type")]


class Completion(Part):
    """When a role's tasks end the whole job."""

    min_failed_instances: Count = Field(
        default=None, description="So many failed tasks fail the job; default 1, -1: never."
    )
    min_succeeded_instances: Count = Field(
        default=None,
        description="So many succeeded tasks end the job well; default all, -1: only when all end.",
    )


class Resources(Part):
    """What each task of a role needs."""

    cpu: Annotated[int | float, Field(ge=0, le=MAX_AMOUNT)] = Field(
        description="CPU cores; Skep also takes fractions, OpenPAI does not.", examples=[4]
    )
    memory_mb: Amount = Field(alias="memoryMB", description="Memory in MiB.", examples=[8192])
    gpu: Amount = Field(description="Number of GPUs, all on one node.", examples=[1])
    ports: Annotated[dict[Identifier, Amount], Field(min_length=1)] = Field(
        default=ALWAYS,
        description="Label to number of ports; `ssh` and `http` are always there.",
        examples=[{"tensorboard": 1}],
    )


class ContainerOptions(OpenPart):
    """How the container of a task is set up."""

    shm_mb: Amount = Field(
        default=DEFAULT_SHM_MB,
        alias="shmMB",
        description="Size of /dev/shm in MiB; 0 means the default, 512.",
    )
    infiniband: bool = Field(default=False, description="Give the node's InfiniBand devices.")


class TaskRole(Part):
    """A group of equal tasks."""

    instances: Annotated[int, Field(ge=1, le=MAX_AMOUNT)] = Field(
        default=1, description="Number of tasks."
    )
    completion: Completion = Field(
        default=Completion(), description="When its tasks end the whole job."
    )
    task_retry_count: Annotated[int, Field(ge=-MAX_AMOUNT, le=MAX_AMOUNT)] = Field(
        default=0,
        description="How often a failed task starts again by itself, where `gangAllocation` is "
        "false.",
    )
    prerequisites: list[str] = Field(
        default=[], description="Names of prerequisites whose callbacks run around its commands."
    )
    docker_image: str = Field(description="Name of the dockerimage prerequisite it runs in.")
    data: Annotated[str | None, NotNull] = Field(
        default=None, description="Name of the prerequisite that `$data` means in its commands."
    )
    output: Annotated[str | None, NotNull] = Field(
        default=None, description="Name of the prerequisite that `$output` means in its commands."
    )
    script: Annotated[str | None, NotNull] = Field(
        default=None, description="Name of the prerequisite that `$script` means in its commands."
    )
    resource_per_instance: Resources = Field(description="What each of its tasks needs.")
    commands: Commands = Field(
        description="Lines of one shell script; templates such as `<% $parameters.x %>` work."
    )
    extra_container_options: Annotated[ContainerOptions | None, NotNull] = Field(
        default=None, description="How the containers of its tasks are set up."
    )
    protocol_version: ProtocolVersion = 2

    @property
    def min_failed(self) -> int:
        return self.completion.min_failed_instances or 1

    @property
    def min_succeeded(self) -> int:
        return self.completion.min_succeeded_instances or self.instances

    @property
    def ports(self) -> dict[str, int]:
        """Return the number of ports by label. Those asked for come first."""
        asked = self.resource_per_instance.ports
        return {**asked, **{label: n for label, n in ALWAYS.items() if label not in asked}}

    @property
    def shm_mb(self) -> int:
        options = self.extra_container_options
        return (options.shm_mb if options else 0) or DEFAULT_SHM_MB

    @property
    def infiniband(self) -> bool:
        """Return whether its tasks ask for the InfiniBand devices of their nodes."""
        options = self.extra_container_options
        return options is not None and options.infiniband


class DeploymentRole(Part):
    """Commands around those of one role."""

    pre_commands: Commands = Field(default=[], description="Before the role's own commands.")
    post_commands: Commands = Field(default=[], description="After the role's own commands.")


class Deployment(OpenPart):
    """Commands around those of the roles, for one environment such as a test or a large run."""

    name: Name = Field(description="What `defaults.deployment` refers to.")
    task_roles: Annotated[dict[RoleName, DeploymentRole], Field(min_length=1)] = Field(
        description="By name of the role."
    )


class Defaults(OpenPart):
    """What a job takes where its roles say nothing else."""

    virtual_cluster: str = Field(
        default=DEFAULT_VC, description="Where the job runs, and whose quota it uses."
    )
    deployment: Annotated[str | None, NotNull] = Field(
        default=None, description="Name of the deployment whose commands are used."
    )


class JobFile(Part):
    """A job of OpenPAI's job protocol v2, with Skep's own fields below `extras.skep`."""

    protocol_version: ProtocolVersion
    name: Name = Field(description="Name of the job, unique among those of its owner.")
    type: Literal["job"] = Field(description="Always `job`.")
    version: Version = ""
    contributor: Contributor = ""
    description: Description = ""
    prerequisites: Annotated[list[Prerequisite], Field(min_length=1)] = Field(
        default=[], description="Images, scripts, data and outputs that task roles refer to."
    )
    parameters: dict[str, Any] = Field(
        default={}, description="Values that commands print by `<% $parameters.x %>`."
    )
    secrets: dict[str, Any] = Field(
        default={},
        repr=False,
        description="Values that only containers see, by `<% $secrets.x %>`; kept encrypted, and "
        "masked in logs.",
    )
    job_retry_count: Amount = Field(
        default=0,
        description="How often a failed job starts again; faults of the platform do not count.",
    )
    task_roles: Annotated[dict[RoleName, TaskRole], Field(min_length=1)] = Field(
        description="The groups of equal tasks that make the job, by name."
    )
    deployments: Annotated[list[Deployment], Field(min_length=1)] = Field(
        default=[], description="Commands around those of the roles; one of them may be chosen."
    )
    defaults: Defaults = Field(default=Defaults(), description="What holds for the whole job.")
    extras: Extras = Field(
        default=Extras(), description="Where it runs, who goes first, plugins, and Skep's fields."
    )

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
        return not self.extras.gang_allocation

    @property
    def lazy_preemption(self) -> bool:
        own = self.extras.skep.lazy_preemption
        return bool(self.extras.hived_scheduler.lazy_preemption_enable if own is None else own)

    @property
    def pinned_cell(self) -> str:
        """Return the first pinned cell that a role names."""
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

    def parallelism_of(self, role: str) -> int | None:
        """Return how many tasks of the role may run at the same time; None means all of them."""
        own = self.extras.skep.task_roles.get(role)
        return own.parallelism if own else None

    def elastic_of(self, role: str) -> Elastic | None:
        """Return with how many tasks of the role it may run; None: with those that it has."""
        return self.extras.skep.elastic if role == next(reversed(self.task_roles)) else None

    @property
    def metrics_rank(self) -> int | None:
        """The rank of the task whose log is read for metrics; None: it asks for none."""
        skep, rank = self.extras.skep, 0
        if not skep.metrics:
            return None
        for name, role in self.task_roles.items():
            if skep.metrics_role in (None, name):
                break
            rank += role.instances
        return rank

    def sku_of(self, role: str) -> str:
        """Return the role's own SKU type, or that of its affinity group."""
        demand = self.demand_of(role)
        if demand.sku_type or not demand.affinity_group_name:
            return demand.sku_type or ""
        peers = self.extras.hived_scheduler.task_roles.values()
        group = [p for p in peers if p.affinity_group_name == demand.affinity_group_name]
        return next((peer.sku_type for peer in group if peer.sku_type), "")

    def prerequisite(self, kind: str, name: str | None) -> Prerequisite | None:
        found = (p for p in self.prerequisites if (p.type, p.name) == (kind, name))
        return next(found, None)

    def image_of(self, role: TaskRole) -> DockerImage:
        found = self.prerequisite("dockerimage", role.docker_image)
        assert isinstance(found, DockerImage), "checked in references"
        return found

    def commands_of(self, name: str) -> list[str]:
        """Return the commands of the role, and those of the chosen deployment around them."""
        chosen = [d for d in self.deployments if d.name == self.defaults.deployment]
        around = chosen[0].task_roles.get(name) if chosen else None
        own = self.task_roles[name].commands
        return own if around is None else [*around.pre_commands, *own, *around.post_commands]
