"""What a job file says beyond OpenPAI's core: where its tasks shall lie, who goes first, and how
it makes room. `extras.hivedScheduler` is OpenPAI's, `extras.skep` is ours."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from skep_jobfile.part import OpenPart, Part, RoleName, Seconds

MAX_PRIORITY = 1000
MAX_DURATION_S = 366 * 86400
MAX_GRACE_S = 3600
OPPORTUNISTIC = -1


class PriorityClass(StrEnum):
    OPPO = "oppo"
    TEST = "test"
    PROD = "prod"

    @property
    def priority(self) -> int:
        """Negative: opportunistic, without guarantee or quota."""
        return {"oppo": OPPORTUNISTIC, "test": 10, "prod": 100}[self]


CellType = Annotated[str, Field(min_length=1, max_length=200)]


class HivedRole(OpenPart):
    """Where the tasks of one role shall lie."""

    sku_type: str | None = Field(default=None, description="Type of GPU, as the cluster names it.")
    sku_num: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Not used: resourcePerInstance says how many."
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
    within_one_cell: CellType | None = Field(default=None, description="The same as within.")
    cell_type: CellType | None = Field(
        default=None, description="Each task gets whole cells of this type."
    )
    cell_number: Annotated[int, Field(ge=1, le=1024)] | None = Field(
        default=None, description="So many of them; default 1."
    )


class HivedScheduler(OpenPart):
    job_priority_class: Annotated[PriorityClass, Field(strict=False)] = PriorityClass.TEST
    lazy_preemption_enable: bool | None = Field(
        default=None, description="Run on opportunistically instead of making room."
    )
    gang_release_enable: bool | None = None
    ignore_k8s_suggested_nodes: bool | None = Field(default=None, alias="ignoreK8sSuggestedNodes")
    task_roles: Annotated[dict[RoleName, HivedRole], Field(min_length=1)] = {}


class RuntimePlugin(OpenPart):
    """One entry of `com.microsoft.pai.runtimeplugin`: ssh, tensorboard, cmd, …"""

    plugin: str
    failure_policy: str = Field(default="fail", description="fail, or ignore its failures.")
    taskroles: list[str] = Field(default=[], description="Of these roles; default all.")
    parameters: Any = None


class Storage(OpenPart):
    name: str
    mount_path: str | None = Field(default=None, description="Default /mnt/NAME.")


class StatusChangeNotification(OpenPart):
    """At which changes the owner gets a message."""

    running: bool = False
    succeeded: bool = False
    stopped: bool = False
    failed: bool = False
    retried: bool = False


CheckpointSignal = Literal["SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP", "SIGTERM"]
Grace = Annotated[Seconds, Field(ge=0, le=MAX_GRACE_S)]


class Checkpoint(Part):
    """How a job that shall make room is told to save its work, before it is told to end."""

    signal: CheckpointSignal = "SIGUSR1"
    grace: Grace = Field(default=30, description="Until SIGTERM, or until it exits by itself.")


class SkepExtras(Part):
    priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)] | None = Field(
        default=None, description="Instead of the one of its class: test is 10, prod is 100."
    )
    duration: Annotated[Seconds, Field(ge=1, le=MAX_DURATION_S)] | None = Field(
        default=None, description="How long it will run: 2h30m, or seconds."
    )
    checkpoint: Checkpoint | None = None
    stop_grace: Grace | None = Field(
        default=None, description="Between SIGTERM and SIGKILL; default 30 s."
    )
    preemptible: bool = Field(
        default=True, description="False: it makes room only where it is opportunistic."
    )
    within_one_cell: CellType | None = Field(
        default=None, description="Type of the one cell that shall hold the whole job."
    )
    lazy_preemption: bool | None = Field(
        default=None, description="Run on opportunistically instead of making room."
    )


class Extras(OpenPart):
    gang_allocation: bool = Field(
        default=True, description="All tasks start together; false: each when it finds a place."
    )
    hived_scheduler: HivedScheduler = HivedScheduler()
    runtime_plugins: list[RuntimePlugin] = Field(
        default=[], alias="com.microsoft.pai.runtimeplugin"
    )
    storages: list[Storage] | None = Field(
        default=None, description="Team storages to mount; [] takes the user's default ones."
    )
    job_status_change_notification: StatusChangeNotification = StatusChangeNotification()
    tags: list[str] = []
    skep: SkepExtras = SkepExtras()
