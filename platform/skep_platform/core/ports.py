"""What lower apps need of higher ones, as typed protocols that are bound at start-up.

Lower apps never import higher ones. Where a lower one needs what only a higher one knows, it calls
a port, and `AppConfig.ready` of the higher app binds its implementation, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from django.core.exceptions import ImproperlyConfigured

F = TypeVar("F", bound=Callable[..., Any])


class Port(Generic[F]):
    """One function of a higher app, which a lower app calls by `call`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bound: F | None = None

    def bind(self, implementation: F) -> None:
        """Set the implementation. Raises ImproperlyConfigured when there is another one."""
        if self._bound not in (None, implementation):
            raise ImproperlyConfigured(f"The port {self._name} is bound already.")
        self._bound = implementation

    @property
    def call(self) -> F:
        """Return the implementation. Raises ImproperlyConfigured when no app has bound one."""
        if self._bound is None:
            raise ImproperlyConfigured(f"No app has bound the port {self._name}.")
        return self._bound


class StopJobsOf(Protocol):
    def __call__(self, user_id: int, actor: str = "") -> int:
        """Stop the jobs of a user that the user has no right to any more, within the transaction
        in which the user left or was deactivated. Returns how many."""


class GroupsChanged(Protocol):
    def __call__(self, users: Sequence[int], actor: str = "") -> object:
        """Bring up to date what these users may do, within the transaction that put them into a
        group, took them out of one or deleted it. `groups.lock` was called before."""


class GpusByModel(Protocol):
    def __call__(self) -> Mapping[str, int]:
        """Return the number of GPUs that the nodes have, by model, bad ones included."""


class ClaimsChanged(Protocol):
    def __call__(self) -> object:
        """Count a change of what virtual clusters own, within its transaction."""


class CheckRaisedClaims(Protocol):
    def __call__(self, before: Any) -> object:
        """Check, within the transaction that raised a claim, that all claims still fit the cells.
        `before` is what `tenancy.claims.owned` was. Raises SkepError."""


@dataclass(frozen=True, slots=True)
class CellSize:
    """`leaf_type`: the name of its GPUs in the cells. `gpu_models`: as nodes report them, several
    where an imported file gives them one name."""

    gpu_models: tuple[str, ...]
    gpus: int
    leaf_type: str


class CellSizes(Protocol):
    def __call__(self) -> Mapping[str, CellSize]:
        """Return the size of every cell type, leaf types included."""


class NodesOfVc(Protocol):
    def __call__(self, vc: str) -> set[str]:
        """Return the names of the nodes on which a virtual cluster, by name, has its cells, or may
        be given them."""


class ForecastStart(Protocol):
    def __call__(self, job: Any, roles: Sequence[Any]) -> dict[str, Any]:
        """Return when a job would start if it were submitted now, as a reason {code, message,
        details}, from rows of the job and its roles that are not stored; code "starts_now" when it
        fits."""


class StartInterval(Protocol):
    def __call__(self, job: Any) -> tuple[float, float] | None:
        """Return between which moments (seconds since the epoch) a waiting job starts with a
        probability of 80 %; None: not known."""


class ArchivesInUse(Protocol):
    def __call__(self) -> Any:
        """Return a queryset of the ids of the archives that jobs which have not ended need."""


class ForgetArchives(Protocol):
    def __call__(self, archives: Any) -> object:
        """Delete what jobs that have ended refer to of these archives, a queryset."""


class JobSeen(NamedTuple):
    """The job of a GPU or of a task attempt, and whether a user may see it."""

    of: Any  # UUID of the GPU, or id of the attempt
    seen: bool
    job_id: UUID
    job_name: str
    virtual_cluster: str


class JobsOnGpus(Protocol):
    def __call__(self, user: Any, nodes: Sequence[UUID]) -> Iterable[JobSeen]:
        """Return the job of each GPU of these nodes that is leased now. One query."""


class JobsOfAttempts(Protocol):
    def __call__(self, user: Any, attempts: Sequence[UUID]) -> Iterable[JobSeen]:
        """Return the job of each of these task attempts. One query."""


class GpuTask(NamedTuple):
    """The task that holds a GPU now."""

    gpu: str
    job_id: UUID
    task: str  # its role and its index, as in "worker-0"


class TasksOnGpus(Protocol):
    def __call__(self, gpus: Sequence[str]) -> Iterable[GpuTask]:
        """Return the task of each of these GPUs that is leased now. One query."""


class LeasedGpus(Protocol):
    def __call__(self) -> Any:
        """Return a queryset of the UUIDs of the GPUs that are leased now."""


class AttemptsOn(Protocol):
    def __call__(self, node: Any) -> Any:
        """Return a queryset of the task attempts that are not released on a node: its id, or an
        expression for it."""


class GpusInUse(Protocol):
    def __call__(self, virtual_clusters: Sequence[UUID]) -> Iterable[tuple[UUID, str, int]]:
        """Return how many GPUs of which model each virtual cluster uses: its id, the model, the
        number. One query."""


class JobsIn(Protocol):
    def __call__(self, virtual_cluster: UUID) -> int:
        """Return how many jobs were ever submitted to a virtual cluster."""


class UseOfLimits(Protocol):
    def __call__(self, virtual_cluster: UUID) -> Mapping[str, int]:
        """Return what is used of the limits of a virtual cluster now, by the name of the limit; of
        limits per user or job, by the one with the most. A constant number of queries."""


class ImagesOnlyOf(Protocol):
    def __call__(self, virtual_cluster: UUID) -> list[str]:
        """Return the names of the images that no other virtual cluster may use."""


class ManagedVcs(Protocol):
    def __call__(self, user: Any) -> Iterable[UUID]:
        """Return the ids of the virtual clusters that a user is a VC admin of. One query."""


class FindJob(Protocol):
    def __call__(self, user: Any, job_id: UUID) -> Any:
        """Return a job that the user may see; its `name` is used. Raises NotFound."""


class JobGoesOn(Protocol):
    def __call__(self, job_id: UUID) -> bool:
        """Return whether a job exists and has not ended. One query."""


class VcIds(Protocol):
    def __call__(self, names: Sequence[str]) -> Mapping[str, UUID]:
        """Return the ids of the virtual clusters of these names. One query."""


class VcCapacity(Protocol):
    def __call__(
        self, virtual_cluster: UUID, since: datetime, until: datetime
    ) -> tuple[int, int] | None:
        """Return the GPU-seconds that a virtual cluster owned, and those of them that it lent to
        others, in a span of time, from samples; None where there are none. One query."""


class StoreApps(Protocol):
    def __call__(self, job: Any) -> object:
        """Store the apps that the file of a new job declares, within the transaction of its
        submit."""


stop_jobs_of: Port[StopJobsOf] = Port("stop_jobs_of")
groups_changed: Port[GroupsChanged] = Port("groups_changed")
gpus_by_model: Port[GpusByModel] = Port("gpus_by_model")
claims_changed: Port[ClaimsChanged] = Port("claims_changed")
check_raised_claims: Port[CheckRaisedClaims] = Port("check_raised_claims")
cell_sizes: Port[CellSizes] = Port("cell_sizes")
nodes_of_vc: Port[NodesOfVc] = Port("nodes_of_vc")
forecast_start: Port[ForecastStart] = Port("forecast_start")
start_interval: Port[StartInterval] = Port("start_interval")
archives_in_use: Port[ArchivesInUse] = Port("archives_in_use")
forget_archives: Port[ForgetArchives] = Port("forget_archives")
jobs_on_gpus: Port[JobsOnGpus] = Port("jobs_on_gpus")
jobs_of_attempts: Port[JobsOfAttempts] = Port("jobs_of_attempts")
tasks_on_gpus: Port[TasksOnGpus] = Port("tasks_on_gpus")
leased_gpus: Port[LeasedGpus] = Port("leased_gpus")
attempts_on: Port[AttemptsOn] = Port("attempts_on")
gpus_in_use: Port[GpusInUse] = Port("gpus_in_use")
vc_capacity: Port[VcCapacity] = Port("vc_capacity")
jobs_in: Port[JobsIn] = Port("jobs_in")
use_of_limits: Port[UseOfLimits] = Port("use_of_limits")
images_only_of: Port[ImagesOnlyOf] = Port("images_only_of")
managed_vcs: Port[ManagedVcs] = Port("managed_vcs")
find_job: Port[FindJob] = Port("find_job")
job_goes_on: Port[JobGoesOn] = Port("job_goes_on")
vc_ids: Port[VcIds] = Port("vc_ids")
store_apps: Port[StoreApps] = Port("store_apps")
