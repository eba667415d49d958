"""What the server answers. Written from its OpenAPI schema by scripts/openapi."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from skep_client.model import MayFinish, Model


class Advice(Model):
    code: str
    message: str = ""
    details: dict[str, Any] = {}


class AffectedJob(Model):
    job_id: str = ""
    name: str
    virtual_cluster: str = ""
    reason: Reason | None = None


class Alert(Model):
    code: str
    severity: str = ""
    message: str = ""
    since: datetime | None = None
    details: dict[str, Any] = {}


class Archive(Model):
    sha256: str
    size: int = 0
    unpacked_size: int = 0
    files: int = 0


class Asked(Model):
    gpus: int = 0
    cpus: float = 0
    memory_mb: int = 0


class Assignment(Model):
    revision: int = 0
    virtual_clusters: dict[str, VcClaims] = {}
    pins: list[Pin] = []


class AssignmentError(Model):
    code: str
    message: str = ""
    path: str = ""
    details: dict[str, Any] = {}


class Attempt(Model):
    id: str
    index: int = 0
    retry: int = 0
    node: str = ""
    state: str = ""
    phase: str = ""
    pull_percent: int | None = None
    gpu_uuids: list[str] = []
    gpu_model: str = ""
    network: str = ""
    ports: dict[str, list[int]] = {}
    exit_code: int | None = None
    exit_signal: int | None = None
    oom_killed: bool = False
    error_code: str = ""
    error_message: str = ""
    memory_peak_mb: int | None = None
    xids: list[int] = []
    disk_full: bool = False
    diagnosis: Diagnosis | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class BadGpu(Model):
    node: str = ""
    index: int = 0
    uuid: str
    problem: str = ""
    task: str = ""


class BelowFloor(Model):
    component: str = ""
    version: str = ""
    floor: str = ""
    cve: str = ""
    message: str = ""


class CellJob(Model):
    id: str
    name: str


class CellLevel(Model):
    type: str
    level: int = 0
    gpus: int = 0
    kind: str = ""
    words: str = ""
    is_node: bool = False


class CellTotal(Model):
    type: str
    total: int = 0
    owned: int = 0
    left: int | None = None
    bad: int = 0


class Cells(Model):
    revision: int = 0
    source: str = ""
    chains: list[Chain] = []
    pins: list[PlacedPin] = []
    gpus: list[VcGpus] = []


class Chain(Model):
    chain: str = ""
    gpu_model: str = ""
    nodes: int = 0
    levels: list[CellLevel] = []
    totals: list[CellTotal] = []


class Check(Model):
    valid: bool
    errors: list[Problem] = []
    notes: list[Problem] = []
    summary: CheckSummary | None = None
    forecast: Reason | None = None


class CheckSummary(Model):
    name: str
    virtual_cluster: str = ""
    gpus: int = 0
    tasks: int = 0


class CheckedAssignment(Model):
    revision: int = 0
    fits: bool = False
    errors: list[AssignmentError] = []
    left: list[Left] = []
    downgraded: list[AffectedJob] = []
    restored: list[AffectedJob] = []
    shortfalls: list[Shortfall] = []
    problems: list[Oddity] = []


class Claim(Model):
    chain: str = ""
    cell_type: str = ""
    number: int = 0


class Cluster(Model):
    nodes: dict[str, int] = {}
    gpus: dict[str, GpuCount] = {}
    jobs: dict[str, int] = {}
    version: str = ""


class ConvertNote(Model):
    code: str
    message: str = ""
    line: int = 0


class Converted(Model):
    text: str = ""
    notes: list[ConvertNote] = []


class Csrf(Model):
    csrf_token: str = ""


class Diagnosis(Model):
    """Why an attempt failed: a row of the table of failures, and what pointed at it."""

    code: int
    name: str
    type: str
    title: str = ""
    category: str = ""
    axis: str = ""
    retry: str = ""
    reaction: str = ""
    blame: str = ""
    rule: str = ""
    evidence: Evidence
    remedy: str = ""
    task: str | None = None
    rank: int | None = None
    node: str | None = None
    exit_code: int | None = None


class Error(Model):
    """Every refusal has this shape. `code` is stable, `message` says what to do."""

    code: str
    message: str = ""
    details: dict[str, Any] = {}


class Event(Model):
    id: int
    at: datetime
    kind: str = ""
    message: str = ""
    data: dict[str, Any] = {}
    actor: str = ""


class Evidence(Model):
    source: str = ""
    text: str = ""
    log: str = ""
    line: int = 0


class Fault(Model):
    id: int
    at: datetime
    code: int
    name: str
    evidence: str = ""
    counts: bool = False
    attempt_id: str | None = None
    virtual_cluster: str | None = None
    job_id: str | None = None
    job_name: str | None = None


class ForecastJob(Model):
    id: str | None = None
    name: str | None = None
    owner: str | None = None
    virtual_cluster: str | None = None
    gpus: int = 0
    tasks: int = 0
    what: str = ""


class GitSource(Model):
    url: str = ""
    commit: str = ""
    path: str = ""


class Gpu(Model):
    uuid: str
    model: str = ""
    index: int = 0
    memory_mb: int = 0
    health: str = ""
    problem: str = ""
    used_by: UsedBy | None = None
    utilization: float | None = None
    memory_used_mb: int | None = None


class GpuCount(Model):
    total: int = 0
    used: int = 0
    bad: int = 0


class GpuSeries(Model):
    uuid: str
    model: str = ""
    node: str = ""
    attempt_id: str = ""
    role: str = ""
    index: int = 0
    points: list[list[float]] = []


class Health(Model):
    healthy: bool = False
    log_bytes_waiting: int = 0
    alerts: list[Alert] = []


class Image(Model):
    name: str
    reference: str = ""
    description: str = ""
    virtual_clusters: list[str] = []
    created_at: datetime


class Info(Model):
    name: str
    version: str = ""


class JobAttempt(Model):
    index: int = 0
    outcome: str = ""
    retry: str = ""
    placed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    diagnosis: Diagnosis | None = None


class JobLogs(Model):
    chunks: list[LogChunk] = []
    next: int = 0
    more: bool = False
    complete: bool = False


class JobMetrics(Model):
    step_s: int = 0
    gpus: list[GpuSeries] = []
    tasks: list[TaskSeries] = []


class JobSummary(MayFinish, Model):
    id: str
    name: str
    owner: str = ""
    virtual_cluster: str = ""
    state: str = ""
    priority_class: str = ""
    priority: int = 0
    gpus: int = 0
    tasks: int = 0
    attempt: int = 0
    retries_used: int = 0
    free_retries: int = 0
    tags: list[str] = []
    diagnosis_code: str | None = None
    diagnosis_title: str | None = None
    submitted_at: datetime
    placed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_s: int | None = None
    preemptions: int = 0
    preempting: bool = False
    downgraded: Reason | None = None
    incremental: bool = False
    unplaced: int = 0
    expected_start: datetime | None = None
    wait_reason: Reason | None = None
    exit_reason: Reason | None = None


class JobUse(Model):
    gpu_hours: float = 0
    gpu_utilization: float | None = None
    gpu_memory_peak_mb: int | None = None
    cpu_percent: float | None = None
    memory_peak_mb: int | None = None
    asked: Asked
    advice: list[Advice] = []


class JoinToken(Model):
    token: str
    expires_at: datetime
    command: str = ""


class JoinTokenRow(Model):
    id: str
    created_by: str | None = None
    created_at: datetime
    expires_at: datetime
    uses_left: int = 0
    node: str = ""


class Joined(Model):
    node_id: str = ""
    name: str
    credential: str = ""
    gateway_url: str = ""


class KeptScratch(Model):
    keep: list[str] = []


class Left(Model):
    chain: str = ""
    type: str
    total: int = 0
    left: int = 0


class Limit(Model):
    name: str
    value: int = 0
    default: int = 0
    minimum: int = 0
    maximum: int = 0
    unit: str = ""
    description: str = ""
    is_set: bool = False


class Limits(Model):
    limits: list[Limit] = []


class LogChunk(Model):
    """Whose output it is, and where in it."""

    cursor: int = 0
    attempt_id: str = ""
    role: str = ""
    index: int = 0
    rank: int = 0
    stream: str = ""
    offset: int = 0
    at: datetime
    text: str = ""


class LosingVc(Model):
    name: str
    loses: dict[str, int] = {}


class Match(Model):
    """A line; `cursor` is of the chunk where it ends, `offset` is where the match begins."""

    cursor: int = 0
    attempt_id: str = ""
    role: str = ""
    index: int = 0
    rank: int = 0
    stream: str = ""
    offset: int = 0
    at: datetime
    text: str = ""
    begin: int = 0
    end: int = 0
    before: list[str] = []
    after: list[str] = []


class Me(Model):
    id: int
    username: str
    email: str = ""
    is_admin: bool = False
    virtual_clusters: list[Membership] = []
    admins: list[str] = []


class Member(Model):
    username: str
    role: str = ""


class Membership(Model):
    name: str
    role: str = ""


class NewToken(Model):
    id: str
    name: str
    last4: str = ""
    scope: str = ""
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    token: str


class Node(Model):
    id: str
    name: str
    state: str = ""
    cordoned: bool = False
    cordon_reason: str = ""
    faults_24h: int = 0
    draining: bool = False
    empty: bool = False
    address: str = ""
    cpus: float = 0
    memory_mb: int = 0
    runtime: str = ""
    driver_version: str = ""
    engine_version: str = ""
    network_problem: str = ""
    below_floor: list[BelowFloor] = []
    agent_version: str = ""
    labels: dict[str, str] = {}
    last_heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None
    disk_free_mb: int | None = None
    disk_total_mb: int | None = None
    disk_low: bool = False
    log_bytes_waiting: int = 0
    gpus: list[Gpu] = []


class NodeForecast(Model):
    jobs: list[ForecastJob] = []
    virtual_clusters: list[LosingVc] = []


class Oddity(Model):
    path: str = ""
    message: str = ""


class OwnedCells(Model):
    chain: str = ""
    cell_type: str = ""
    number: int = 0


class OwnedType(Model):
    type: str
    kind: str = ""
    words: str = ""
    gpus: int = 0
    owned: int = 0
    used: int = 0
    free: int = 0
    bad: int = 0
    missing: int = 0
    borrowed_out: int = 0


class PhysicalCell(Model):
    address: str = ""
    type: str
    gpus: int = 0
    bad: int = 0
    used: int = 0
    lent: int = 0
    virtual_cluster: str | None = None
    pin: str | None = None
    node: str | None = None
    children: list[PhysicalCell] | None = None
    uuid: str = ""
    index: int | None = None
    state: str = ""
    job: CellJob | None = None


class PhysicalPlace(Model):
    address: str = ""
    node: str | None = None


class Pin(Model):
    name: str
    cell_type: str = ""
    node: str = ""
    device: str = ""


class PlacedPin(Model):
    name: str
    cell_type: str = ""
    node: str = ""
    device: str = ""
    virtual_cluster: str | None = None


class Problem(Model):
    code: str
    message: str = ""
    path: str = ""
    line: int = 0
    column: int = 0


class QueuedJob(Model):
    """A job in the queue of a virtual cluster. Of one that the reader may not see it tells how
    large it is and since when it is there, and not whose it is."""

    id: str | None = None
    name: str | None = None
    owner: str | None = None
    state: str = ""
    priority_class: str = ""
    priority: int = 0
    gpus: int = 0
    tasks: int = 0
    duration_s: int | None = None
    submitted_at: datetime
    placed_at: datetime | None = None
    started_at: datetime | None = None
    preempting: bool = False
    downgraded: Reason | None = None


class Reason(Model):
    code: str
    message: str = ""
    details: dict[str, Any] = {}


class Reserved(Model):
    start: datetime
    nodes: list[str] = []


class ResetLink(Model):
    url: str = ""
    expires_at: datetime


class Running(Model):
    job: QueuedJob
    expected_end: datetime | None = None
    opportunistic: bool = False
    preemptible: bool = False


class Search(Model):
    matches: list[Match] = []
    next: str | None = None


class Shortfall(Model):
    virtual_cluster: str = ""
    chain: str = ""
    cell_type: str = ""
    asked: int = 0
    got: int = 0


class StreamLog(Model):
    attempt_id: str = ""
    stream: str = ""
    offset: int = 0
    next_offset: int = 0
    size: int = 0
    complete: bool = False
    text: str = ""


class Task(Model):
    id: int
    role: str = ""
    index: int = 0
    rank: int = 0
    state: str = ""
    attempt: Attempt | None = None


class TaskRole(Model):
    name: str
    instances: int = 0
    gpus: int = 0
    gpu_model: str = ""
    cell_type: str = ""
    cells: int = 0
    within: str = ""
    affinity_group: str = ""
    cpus: float = 0
    memory_mb: int = 0
    image: str = ""
    command: str = ""
    ports: dict[str, int] = {}
    task_retries: int = 0
    states: dict[str, int] = {}


class TaskSeries(Model):
    attempt_id: str = ""
    role: str = ""
    index: int = 0
    points: list[list[float]] = []


class Token(Model):
    id: str
    name: str
    last4: str = ""
    scope: str = ""
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


class UseSeries(Model):
    points: list[list[float]] = []


class UsedBy(Model):
    virtual_cluster: str | None = None
    job_id: str = ""
    job_name: str = ""


class User(Model):
    id: int
    username: str
    email: str = ""
    is_admin: bool = False
    is_active: bool = False
    created_at: datetime
    last_login_at: datetime | None = None


class VcCells(Model):
    chains: list[VcChain] = []
    borrowed_in: int = 0
    shortfalls: list[Shortfall] = []


class VcChain(Model):
    chain: str = ""
    gpu_model: str = ""
    types: list[OwnedType] = []
    cells: list[VirtualCell] = []
    more: int = 0


class VcClaims(Model):
    cells: list[Claim] = []
    quotas: dict[str, int] = {}
    pins: list[str] = []


class VcGpus(Model):
    virtual_cluster: str = ""
    gpu_model: str = ""
    owned: int = 0
    used: int = 0
    free: int = 0
    borrowed: int = 0
    lent: int = 0
    bad: int = 0
    cordoned: int = 0
    offline: int = 0


class VcHistory(Model):
    step_s: int = 0
    models: dict[str, UseSeries] = {}


class VcQueue(Model):
    running: list[Running] = []
    waiting: list[Waiting] = []
    running_total: int = 0
    waiting_total: int = 0
    next: str | None = None


class VirtualCell(Model):
    address: str = ""
    type: str
    gpus: int = 0
    pin: str | None = None
    state: str = ""
    used: int = 0
    bad: int = 0
    lent: int = 0
    physical: PhysicalPlace | None = None
    children: list[VirtualCell] | None = None
    job: CellJob | None = None


class VirtualCluster(Model):
    name: str
    description: str = ""
    quotas: dict[str, int] = {}
    cells: list[OwnedCells] = []
    pins: list[str] = []
    used: dict[str, int] = {}
    role: str | None = None
    members: int = 0
    job_visibility: str = ""
    may_manage: bool = False


class Waiting(Model):
    position: int = 0
    job: QueuedJob
    needs_words: str = ""
    reserved: Reserved | None = None
    expected_start: datetime | None = None
    reason: Reason | None = None


class WorkingFiles(Model):
    sha256: str
    size: int = 0
    path: str = ""


class Job(JobSummary):
    spec_text: str = ""
    task_roles: list[TaskRole] = []
    lazy_preemption: bool = False
    preemptible: bool = False
    pinned_cell: str = ""
    within: str = ""
    stop_grace_s: int = 0
    checkpoint_signal: str = ""
    checkpoint_grace_s: int = 0
    max_duration_s: int | None = None
    ends_at: datetime | None = None
    deadline_at: datetime | None = None
    network_mode: str = ""
    environment: dict[str, str] = {}
    work_dir: str = ""
    working_files: WorkingFiles | None = None
    git: GitSource | None = None
    begun_at: datetime | None = None
    retry_at: datetime | None = None
    diagnosing: bool = False
    diagnosis: Diagnosis | None = None
    logs_deleted_at: datetime | None = None
    visibility: str | None = None
    seen_by: str = ""
    bad_gpus: list[BadGpu] = []
    may_exec: bool = False
    may_stop: bool = False
    may_prioritise: bool = False
    may_share: bool = False
