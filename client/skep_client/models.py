"""What the server answers. Fields of a newer server are ignored."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")
FINISHED = frozenset({"SUCCEEDED", "FAILED", "STOPPED"})


class Model(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Page(Model, Generic[T]):
    """`next` and `previous` are addresses of the neighbouring pages."""

    results: list[T]
    next: str | None = None
    previous: str | None = None


class Reason(Model):
    code: str
    message: str
    details: dict[str, Any] = {}


class Info(Model):
    name: str
    version: str


class Token(Model):
    token: str
    expires_at: datetime | None = None


class Membership(Model):
    name: str
    role: str


class Me(Model):
    id: int | str
    username: str
    email: str = ""
    is_admin: bool
    virtual_clusters: list[Membership] = []


class JobSummary(Model):
    id: str
    name: str
    owner: str
    virtual_cluster: str
    state: str
    priority_class: str = ""
    priority: int = 0
    gpus: int
    tasks: int
    attempt: int = 0
    retries_used: int = 0
    submitted_at: datetime
    placed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_s: int | None = None
    preemptions: int = 0
    preempting: bool = False  # it was asked to make room
    downgraded: Reason | None = None  # guaranteed, but runs as opportunistic now
    incremental: bool = False
    unplaced: int = 0  # tasks without a place, if it is incremental
    expected_start: datetime | None = None
    wait_reason: Reason | None = None
    exit_reason: Reason | None = None

    @property
    def is_finished(self) -> bool:
        return self.state in FINISHED


class Role(Model):
    name: str
    instances: int
    gpus: int
    gpu_model: str = ""
    cell_type: str = ""
    cells: int = 0
    within: str = ""
    affinity_group: str = ""
    cpus: float
    memory_mb: int
    image: str
    command: str
    states: dict[str, int] = {}


class Job(JobSummary):
    spec_text: str = ""
    task_roles: list[Role] = []
    lazy_preemption: bool = False
    preemptible: bool = True
    pinned_cell: str = ""
    within: str = ""
    stop_grace_s: int = 30
    checkpoint_signal: str = ""
    checkpoint_grace_s: int = 0
    may_stop: bool = False


class Attempt(Model):
    id: str
    index: int
    node: str | None = None
    state: str
    phase: str = ""
    pull_percent: int | None = None
    gpu_uuids: list[str] = []
    gpu_model: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    oom_killed: bool = False
    error_code: str = ""
    error_message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Task(Model):
    id: int | str
    role: str
    index: int
    rank: int
    state: str
    attempt: Attempt | None = None


class Event(Model):
    id: int | str
    at: datetime
    kind: str
    message: str
    data: dict[str, Any] = {}
    actor: str = ""


class LogChunk(Model):
    """A piece of one stream, in no way cut at line ends."""

    cursor: int | str
    attempt_id: str
    role: str
    index: int
    rank: int
    stream: str
    offset: int
    at: datetime
    text: str


class LogPage(Model):
    chunks: list[LogChunk]
    next: int | str
    complete: bool


class Problem(Model):
    code: str
    message: str
    path: str | list[str | int] | None = None
    line: int | None = None
    column: int | None = None


class CheckSummary(Model):
    name: str
    virtual_cluster: str
    gpus: int
    tasks: int


class Check(Model):
    valid: bool
    errors: list[Problem] = []
    notes: list[Problem] = []  # fields of a good file that have no effect
    summary: CheckSummary | None = None
    forecast: Reason | None = None


class UsedBy(Model):
    job_id: str | None = None
    job_name: str | None = None
    virtual_cluster: str | None = None


class Gpu(Model):
    uuid: str
    model: str
    index: int
    memory_mb: int
    health: str
    problem: str = ""
    used_by: UsedBy | None = None
    utilization: float | None = None
    memory_used_mb: int | None = None


class Node(Model):
    id: str
    name: str
    state: str
    cordoned: bool
    draining: bool = False
    address: str = ""
    cpus: float = 0
    memory_mb: int = 0
    runtime: str = ""
    agent_version: str = ""
    last_heartbeat_at: datetime | None = None
    gpus: list[Gpu] = []


class Claim(Model):
    chain: str
    cell_type: str
    number: int


class VirtualCluster(Model):
    """It owns the GPUs of its `quotas`, its `cells`, and the cells named in `pins`; `owned_gpus`
    of the module `cells` adds them up."""

    name: str
    description: str = ""
    quotas: dict[str, int] = {}
    cells: list[Claim] = []
    pins: list[str] = []
    used: dict[str, int] = {}
    role: str | None = None
    members: int = 0


class GpuCount(Model):
    total: int
    used: int = 0
    bad: int = 0


class Cluster(Model):
    nodes: dict[str, int] = {}
    gpus: dict[str, GpuCount] = {}
    jobs: dict[str, int] = {}
    version: str = ""


class JoinToken(Model):
    token: str
    expires_at: datetime
    command: str = ""
