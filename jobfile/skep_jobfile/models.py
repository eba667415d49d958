"""The fields of OpenPAI's job protocol v2, as its server takes them, as pydantic models.

Where the protocol allows fields that it does not know, so do we; where it takes negative amounts,
we do not (docs/from-openpai-jobs.md lists such differences).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from skep_jobfile.extras import Extras
from skep_jobfile.part import Identifier, Name, NotNull, OpenPart, Part, RoleName

DEFAULT_VC = "default"
DEFAULT_SHM_MB = 512
ALWAYS = {"ssh": 1, "http": 1}  # ports that every task has

ProtocolVersion = Literal[2, "2"]
Version = str | int | float
MAX_AMOUNT = 10**12
Amount = Annotated[int, Field(ge=0, le=MAX_AMOUNT)]
Commands = Annotated[list[str], Field(min_length=1)]


def _or_none(value: Any) -> Any:
    """0 means "not given"."""
    return None if type(value) is int and value == 0 else value


Count = Annotated[Annotated[int, Field(ge=-1, le=MAX_AMOUNT)] | None, BeforeValidator(_or_none)]


class RegistryAuth(OpenPart):
    """Who may pull the image; the password stands in `secrets`."""

    username: str = ""
    password: str = ""
    registryuri: str = "https://index.docker.io/v1/"


class DockerImage(Part):
    """A prerequisite of type dockerimage."""

    type: Literal["dockerimage"]
    name: Name
    uri: str
    auth: Annotated[RegistryAuth | None, NotNull] = None
    protocol_version: ProtocolVersion = 2
    version: Version = ""
    contributor: str = ""
    description: str = ""


class Callback(OpenPart):
    """Commands that the cmd plugin runs: taskStarts in the order of the role's prerequisites,
    taskSucceeds in the reverse one."""

    event: str
    commands: list[str]


class Files(OpenPart):
    """What the prerequisites of other types have in common; they may have fields of their own."""

    name: Name
    plugin: Annotated[str | None, NotNull] = None
    require: list[str] = []
    callbacks: list[Callback] = []
    failure_policy: Annotated[str | None, NotNull] = None
    protocol_version: ProtocolVersion = 2
    version: Version = ""
    contributor: str = ""
    description: str = ""


class ScriptOrOutput(Files):
    type: Literal["script", "output"]
    uri: str = ""


class Data(Files):
    type: Literal["data"]
    uri: list[str] = []


Prerequisite = Annotated[DockerImage | ScriptOrOutput | Data, Field(discriminator="type")]


class Completion(Part):
    """When a role's tasks end the whole job. -1: never by this count."""

    min_failed_instances: Count = Field(
        default=None, description="So many failed tasks fail the job; default 1, -1: never."
    )
    min_succeeded_instances: Count = Field(
        default=None, description="So many succeeded tasks end the job well; default all."
    )


class Resources(Part):
    """What each task of a role needs."""

    cpu: Amount
    memory_mb: Annotated[Amount, Field(alias="memoryMB", description="MiB.")]
    gpu: Amount
    ports: Annotated[
        dict[Identifier, Amount],
        Field(min_length=1, description="Label to number of ports; ssh and http are added."),
    ] = ALWAYS


class ContainerOptions(OpenPart):
    shm_mb: Annotated[Amount, Field(alias="shmMB", description="0 means the default.")] = (
        DEFAULT_SHM_MB
    )
    infiniband: bool = False


class TaskRole(Part):
    """A group of equal tasks."""

    instances: Annotated[int, Field(ge=1, le=MAX_AMOUNT)] = 1
    completion: Completion = Completion()
    task_retry_count: Annotated[
        int,
        Field(ge=-MAX_AMOUNT, le=MAX_AMOUNT, description="Used where gangAllocation is false."),
    ] = 0
    prerequisites: list[str] = []
    docker_image: str = Field(description="Name of a dockerimage prerequisite.")
    data: Annotated[str | None, NotNull] = None
    output: Annotated[str | None, NotNull] = None
    script: Annotated[str | None, NotNull] = None
    resource_per_instance: Resources
    commands: Commands
    extra_container_options: Annotated[ContainerOptions | None, NotNull] = None
    protocol_version: ProtocolVersion = 2

    @property
    def min_failed(self) -> int:
        return self.completion.min_failed_instances or 1

    @property
    def min_succeeded(self) -> int:
        return self.completion.min_succeeded_instances or self.instances

    @property
    def ports(self) -> dict[str, int]:
        """Those asked for come first."""
        asked = self.resource_per_instance.ports
        return {**asked, **{label: n for label, n in ALWAYS.items() if label not in asked}}

    @property
    def shm_mb(self) -> int:
        options = self.extra_container_options
        return (options.shm_mb if options else 0) or DEFAULT_SHM_MB


class DeploymentRole(Part):
    pre_commands: Commands = []
    post_commands: Commands = []


class Deployment(OpenPart):
    """Commands around those of the roles; `defaults.deployment` names the one that is used."""

    name: Name
    task_roles: Annotated[dict[RoleName, DeploymentRole], Field(min_length=1)]


class Defaults(OpenPart):
    virtual_cluster: str = DEFAULT_VC
    deployment: Annotated[str | None, NotNull] = None


class JobFile(Part):
    """A job of OpenPAI's job protocol v2."""

    protocol_version: ProtocolVersion
    name: Name
    type: Literal["job"]
    version: Version = ""
    contributor: str = ""
    description: str = ""
    prerequisites: Annotated[list[Prerequisite], Field(min_length=1)] = []
    parameters: dict[str, Any] = Field(default={}, description="Values of <% $parameters.x %>.")
    secrets: dict[str, Any] = Field(default={}, description="Values that nobody else sees.")
    job_retry_count: Amount = 0
    task_roles: Annotated[dict[RoleName, TaskRole], Field(min_length=1)]
    deployments: Annotated[list[Deployment], Field(min_length=1)] = []
    defaults: Defaults = Defaults()
    extras: Extras = Extras()

    def prerequisite(self, kind: str, name: str | None) -> Prerequisite | None:
        found = (p for p in self.prerequisites if (p.type, p.name) == (kind, name))
        return next(found, None)

    def image_of(self, role: TaskRole) -> DockerImage:
        found = self.prerequisite("dockerimage", role.docker_image)
        assert isinstance(found, DockerImage), "checked in references"
        return found

    def commands_of(self, name: str) -> list[str]:
        """Those of the role, and those of the chosen deployment around them."""
        chosen = [d for d in self.deployments if d.name == self.defaults.deployment]
        around = chosen[0].task_roles.get(name) if chosen else None
        own = self.task_roles[name].commands
        return own if around is None else [*around.pre_commands, *own, *around.post_commands]
