"""What a job file says beyond OpenPAI's core: where its tasks shall lie, who goes first, plugins.
`extras.skep` is ours, all else is OpenPAI's."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from skep_jobfile.part import CellType, OpenPart, RoleName
from skep_jobfile.skep_extras import SkepExtras, plain_folder

OPPORTUNISTIC = -1
TEAMWISE_STORAGE = "teamwise_storage"  # OpenPAI's plugin; its parameter: storageConfigNames


class PriorityClass(StrEnum):
    """`prod` goes first and `oppo` last, without guarantee or quota."""

    OPPO = "oppo"
    TEST = "test"
    PROD = "prod"

    @property
    def priority(self) -> int:
        """Return the number of the class. A negative one is opportunistic, without guarantee or
        quota."""
        return {"oppo": OPPORTUNISTIC, "test": 10, "prod": 100}[self]


class HivedRole(OpenPart):
    """Where the tasks of one role shall lie."""

    sku_type: str | None = Field(
        default=None, description="Model of its GPUs, or the SKU type that the cluster names."
    )
    sku_num: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Not used: `resourcePerInstance` says how many."
    )
    pinned_cell_id: str | None = Field(
        default=None, description="Name of a pinned cell of the virtual cluster."
    )
    affinity_group_name: str | None = Field(
        default=None, description="Roles of one group start together, in one chain of cells."
    )
    within: CellType | None = Field(
        default=None, description="Type of the one cell that shall hold all tasks of the role."
    )
    within_one_cell: CellType | None = Field(
        default=None, description="The same as `within`: give one of them."
    )
    cell_type: CellType | None = Field(
        default=None, description="Each task gets whole cells of this type."
    )
    cell_number: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="So many cells of `cellType` for each task; default 1."
    )

    @property
    def cell(self) -> str:
        return self.within or self.within_one_cell or ""

    @property
    def cells(self) -> int:
        return (self.cell_number or 1) if self.cell_type else 0


class HivedScheduler(OpenPart):
    """The job's priority, and the places of its roles."""

    job_priority_class: Annotated[PriorityClass, Field(strict=False)] = Field(
        default=PriorityClass.TEST,
        description="`prod` goes before `test`; `oppo` needs no quota and is preempted by both.",
    )
    lazy_preemption_enable: bool | None = Field(
        default=None, description="Continue as an opportunistic job instead of being stopped."
    )
    gang_release_enable: bool | None = Field(default=None, description="Accepted, not used.")
    ignore_k8s_suggested_nodes: bool | None = Field(
        default=None, alias="ignoreK8sSuggestedNodes", description="Accepted, not used."
    )
    task_roles: Annotated[dict[RoleName, HivedRole], Field(min_length=1)] = Field(
        default={}, description="Where the tasks of each role shall lie, by name of the role."
    )


class RuntimePlugin(OpenPart):
    """Something that runs around the commands of tasks."""

    plugin: str = Field(
        description="`cmd` runs callbacks, `ssh` starts the image's sshd; others are "
        "reported and ignored."
    )
    failure_policy: str = Field(
        default="fail", description="`ignore`: the task goes on when the plugin fails."
    )
    taskroles: list[str] = Field(default=[], description="Of these roles only; default all.")
    parameters: Any = Field(default=None, description="Parameters of the plugin.")


class Storage(OpenPart):
    """A storage that the tasks find as a folder."""

    name: str = Field(description="Name of a storage that was granted to the virtual cluster.")
    mount_path: str | None = Field(
        default=None, description="Folder in which the tasks find it; default /mnt/NAME."
    )

    @property
    def target(self) -> str:
        """Return the folder spelled plainly: without doubled slashes or one at its end."""
        return plain_folder(self.mount_path or f"/mnt/{self.name}")


class StatusChangeNotification(OpenPart):
    """The changes of which the owner is notified, in the page and by e-mail."""

    running: bool = Field(default=False, description="When it runs.")
    succeeded: bool = Field(default=False, description="When it ends well.")
    stopped: bool = Field(default=False, description="When it was stopped.")
    failed: bool = Field(default=False, description="When it fails.")
    retried: bool = Field(default=False, description="When it is tried again.")


class Extras(OpenPart):
    """Where the job runs, who goes first, plugins, and Skep's own fields."""

    gang_allocation: bool = Field(
        default=True, description="All tasks start together; false: each when it finds a place."
    )
    hived_scheduler: HivedScheduler = Field(
        default=HivedScheduler(), description="How the job is scheduled."
    )
    runtime_plugins: list[RuntimePlugin] = Field(
        default=[],
        alias="com.microsoft.pai.runtimeplugin",
        description="What runs around the commands of tasks.",
    )
    storages: list[Storage] | None = Field(
        default=None,
        description="Storages to mount; [] takes the default ones of the virtual cluster.",
    )
    job_status_change_notification: StatusChangeNotification = Field(
        default=StatusChangeNotification(),
        description="The changes of which the owner is notified.",
    )
    tags: list[str] = Field(
        default=[], description="Words to find the job by; they can be changed later."
    )
    skep: SkepExtras = Field(default=SkepExtras(), description="Skep's own fields.")

    @property
    def asked_storages(self) -> list[Storage] | None:
        """Return the storages to mount: [] for the default ones, None for none. Without
        `storages`, those of the plugin teamwise_storage, as OpenPAI's server converts them."""
        plugins = [p for p in self.runtime_plugins if p.plugin == TEAMWISE_STORAGE]
        if self.storages is not None or not plugins:
            return self.storages
        names: list[Any] = []
        for plugin in plugins:
            parameters = plugin.parameters if isinstance(plugin.parameters, Mapping) else {}
            asked = parameters.get("storageConfigNames")
            names += asked if isinstance(asked, list) else []
        return [Storage(name=str(name)) for name in dict.fromkeys(map(str, names))]
