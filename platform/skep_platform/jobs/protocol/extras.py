"""What a job file says beyond OpenPAI's core: where its tasks shall lie, who goes first, and how
it makes room. `extras.hivedScheduler` is OpenPAI's, `extras.skep` is ours."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from skep_agent.protocol import MAX_GRACE_S
from skep_platform.jobs.protocol.part import Part, RoleName, Seconds

MAX_PRIORITY = 1000
MAX_DURATION_S = 366 * 86400
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
CellName = Annotated[str, Field(min_length=1, max_length=63)]
GroupName = Annotated[str, Field(min_length=1, max_length=255)]


class HivedRole(Part):
    """Where the tasks of one role shall lie."""

    sku_type: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(
        default=None, description="GPU model, or leaf type of an imported HiveD file."
    )
    sku_num: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="Not used: resourcePerInstance says how many."
    )
    pinned_cell_id: CellName | None = Field(
        default=None, description="Name of a pinned cell of the virtual cluster, for the whole job."
    )
    affinity_group_name: GroupName | None = Field(
        default=None, description="Roles of one group lie in one chain of cells."
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

    @property
    def cell(self) -> str:
        return self.within or self.within_one_cell or ""

    @property
    def cells(self) -> int:
        return (self.cell_number or 1) if self.cell_type else 0


class HivedScheduler(Part):
    job_priority_class: Annotated[PriorityClass, Field(strict=False)] = PriorityClass.TEST
    lazy_preemption_enable: bool | None = Field(
        default=None, description="Run on opportunistically instead of making room."
    )
    gang_release_enable: bool | None = Field(default=None, description="Not used.")
    ignore_k8s_suggested_nodes: bool | None = Field(
        default=None, alias="ignoreK8sSuggestedNodes", description="Not used."
    )
    task_roles: Annotated[dict[RoleName, HivedRole], Field(max_length=100)] = {}


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
