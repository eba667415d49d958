"""What the server answers. Written from its OpenAPI schema by scripts/openapi."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from skep_client.model import JobModel, Model


class Address(Model):
    url: str = ""


class Advice(Model):
    code: str
    message: str = ""
    details: dict[str, Any] = Field(default_factory=dict)


class Alert(Model):
    code: str
    severity: str = ""
    message: str = ""
    since: datetime | None = None
    details: dict[str, Any] = Field(default_factory=dict)


class AlertRule(Model):
    id: str
    name: str
    kind: str = ""
    threshold: float = 0
    for_minutes: int = 0
    action: str = ""
    enabled: bool = False
    recipients: list[str] = Field(default_factory=list)


class Announcement(Model):
    id: str
    message: str = ""
    severity: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    dismissed: bool = False


class App(Model):
    id: str
    name: str
    type: str
    state: str = ""
    problem: str = ""
    url: str | None = None
    job_id: str = ""
    job_name: str = ""
    owner: str = ""
    virtual_cluster: str = ""
    gpus: int = 0
    task_role: str = ""
    attempt_id: str | None = None
    port: int | None = None
    shared: bool = False
    idle_stop: bool = False
    log_dir: str = ""
    may_share: bool = False
    may_stop: bool = False
    active_at: datetime | None = None
    warned_at: datetime | None = None
    created_at: datetime


class Archive(Model):
    sha256: str
    size: int = 0
    unpacked_size: int = 0
    files: int = 0


class ArchivedEvent(Model):
    at: datetime
    kind: str = ""
    message: str = ""
    actor: str = ""
    count: int = 0


class ArchivedJobSummary(Model):
    id: str
    name: str
    owner: str = ""
    virtual_cluster: str = ""
    state: str = ""
    priority_class: str = ""
    gpus: int = 0
    tasks: int = 0
    submitted_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    archived_at: datetime | None = None


class ArchivedReason(Model):
    code: str
    message: str = ""


class ArchivedRole(Model):
    name: str
    instances: int = 0
    gpus: int = 0
    gpu_model: str = ""
    cell_type: str = ""
    cpus: float = 0
    memory_mb: int = 0
    image: str = ""
    command: str = ""


class ArchivedUse(Model):
    gpu_hours: float = 0
    gpu_utilization: float | None = None
    gpu_memory_peak_mb: int | None = None
    cpu_percent: float | None = None
    memory_peak_mb: int | None = None


class Asked(Model):
    gpus: int = 0
    cpus: float = 0
    memory_mb: int = 0


class AssignmentError(Model):
    code: str
    message: str = ""
    path: str = ""
    details: dict[str, Any] = Field(default_factory=dict)


class AttemptEnd(Model):
    state: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    oom_killed: bool = False
    tasks: int = 0


class AttemptNode(Model):
    name: str
    tasks: int = 0


class AuditAction(Model):
    name: str
    target_type: str = ""
    description: str = ""


class AuditActions(Model):
    actions: list[AuditAction] = Field(default_factory=list)


class AuditActor(Model):
    kind: str = ""
    id: int | None = None
    name: str


class AuditTarget(Model):
    type: str
    id: str
    name: str


class AuditToken(Model):
    id: str
    name: str
    scope: str = ""


class Backup(Model):
    at: datetime
    place: str = ""
    version: str = ""
    bytes: int | None = None


class BadGpu(Model):
    node: str = ""
    index: int = 0
    uuid: str
    problem: str = ""
    task: str = ""


class BatchResult(Model):
    index: int = 0
    id: str | None = None
    name: str
    code: str
    message: str = ""
    details: dict[str, Any] | None = None


class BatchResults(Model):
    accepted: int = 0
    refused: int = 0
    results: list[BatchResult] = Field(default_factory=list)


class BelowFloor(Model):
    component: str = ""
    version: str = ""
    floor: str = ""
    cve: str = ""
    message: str = ""


class Budget(Model):
    gpu_hours: int | None = None
    month: str = ""
    until: str = ""
    used_s: int = 0
    percent: float | None = None
    state: str = ""
    message: str = ""


class BulkResult(Model):
    id: str
    done: bool = False
    code: str
    message: str = ""


class BulkResults(Model):
    results: list[BulkResult] = Field(default_factory=list)


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


class Chain(Model):
    chain: str = ""
    gpu_model: str = ""
    nodes: int = 0
    levels: list[CellLevel] = Field(default_factory=list)
    totals: list[CellTotal] = Field(default_factory=list)


class ChangedJob(Model):
    id: str
    name: str
    owner: str = ""
    state: str = ""
    by_s: float = 0
    old_end_at: float = 0
    new_end_at: float = 0


class CheckResult(Model):
    name: str
    passed: bool = False
    message: str = ""
    numbers: dict[str, float] = Field(default_factory=dict)


class CheckSummary(Model):
    name: str
    virtual_cluster: str = ""
    gpus: int = 0
    tasks: int = 0


class Claim(Model):
    chain: str = ""
    cell_type: str = ""
    number: int = 0


class ConvertNote(Model):
    code: str
    message: str = ""
    line: int = 0


class Converted(Model):
    text: str = ""
    notes: list[ConvertNote] = Field(default_factory=list)


class Csrf(Model):
    csrf_token: str = ""


class Database(Model):
    version: str = ""
    bytes: int = 0
    connections: int = 0
    max_connections: int = 0
    oldest_transaction_s: float = 0
    wraparound: float = 0
    archived_at: datetime | None = None


class Dataset(Model):
    id: str
    virtual_cluster: str = ""
    name: str
    version: str = ""
    description: str = ""
    storage: str = ""
    path: str = ""
    owner: str | None = None
    job_id: str | None = None
    job_name: str = ""
    size: int | None = None
    files: int | None = None
    may_change: bool = False
    created_at: datetime


class Dependency(Model):
    """
    A job that another one waits for.
    """

    job: str
    condition: str = ""


class DeviceCodes(Model):
    device_code: str = ""
    user_code: str = ""
    verification_uri: str = ""
    verification_uri_complete: str = ""
    expires_in: int = 0
    interval: int = 0


class DeviceLogin(Model):
    name: str
    scope: str = ""
    address: str = ""
    user_agent: str = ""
    created_at: datetime
    expires_at: datetime


class Dropped(Model):
    reason: str = ""
    count: int = 0
    message: str = ""


class Elastic(Model):
    min: int = 0
    max: int = 0
    asked: int = 0


class EndedJobs(Model):
    days: int = 0
    jobs: int = 0
    gpu_hours: float = 0


class Error(Model):
    """
    Every refusal has this shape. `code` is stable, `message` says what to do.
    """

    code: str
    message: str = ""
    details: dict[str, Any] = Field(default_factory=dict)


class Event(Model):
    id: int
    at: datetime
    kind: str = ""
    message: str = ""
    data: dict[str, Any] = Field(default_factory=dict)
    actor: str = ""
    count: int = 0
    first_at: datetime | None = None


class Evidence(Model):
    source: str = ""
    text: str = ""
    log: str = ""
    line: int = 0


class Failure(Model):
    code: int
    name: str
    title: str = ""
    category: str = ""


class FairnessFigures(Model):
    jobs: int = 0
    active: int = 0
    unknown: int = 0
    rho_mean: float | None = None
    rho_max: float | None = None
    unfair_share: float | None = None


class FairnessJob(Model):
    id: str
    name: str


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


class Figures(Model):
    policy: str = ""
    jobs: int = 0
    finished: int = 0
    avg_jct_s: float = 0
    p50_jct_s: float = 0
    p95_jct_s: float = 0
    p99_jct_s: float = 0
    avg_wait_s: float = 0
    p99_wait_s: float = 0
    wait_max_s: float = 0
    starved: int = 0
    starved_after_s: float = 0
    makespan_s: float = 0
    utilisation: float = 0
    rho_max: float = 0
    preemptions: int = 0
    deadlines: int = 0
    deadlines_met: int = 0


class Finding(Model):
    code: str
    severity: str = ""
    message: str = ""
    action: str = ""
    details: dict[str, Any] = Field(default_factory=dict)


class ForecastJob(Model):
    id: str | None = None
    name: str | None = None
    owner: str | None = None
    virtual_cluster: str | None = None
    gpus: int = 0
    tasks: int = 0
    what: str = ""


class ForecastSide(Model):
    policy: str = ""
    finished: int = 0
    avg_wait_s: float = 0
    p95_wait_s: float = 0
    last_end_at: float = 0


class GitSource(Model):
    url: str = ""
    commit: str = ""
    path: str = ""


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
    points: list[list[float | None]] = Field(default_factory=list)


class GridNode(Model):
    name: str
    state: str = ""
    cordoned: bool = False
    draining: bool = False
    place: int = 0
    models: list[int] = Field(default_factory=list)
    used_by: list[int] = Field(default_factory=list)
    bad: list[int] = Field(default_factory=list)


class Group(Model):
    name: str
    description: str = ""
    external_name: str = ""
    members: int = 0
    created_at: datetime


class GroupMember(Model):
    username: str
    external: bool = False


class GroupRole(Model):
    group: str = ""
    role: str = ""


class Health(Model):
    healthy: bool = False
    log_bytes_waiting: int = 0
    alerts: list[Alert] = Field(default_factory=list)


class HomeGpus(Model):
    gpu_model: str = ""
    owned: int = 0
    used: int = 0
    free: int = 0
    borrowed: int = 0


class HomeVc(Model):
    name: str
    role: str = ""
    gpus: list[HomeGpus] = Field(default_factory=list)


class Image(Model):
    name: str
    reference: str = ""
    description: str = ""
    framework: str = ""
    cuda_version: str = ""
    min_driver: str = ""
    digest: str = ""
    size: int | None = None
    problem: str = ""
    inspected_at: datetime | None = None
    managed_by: str = ""
    virtual_clusters: list[str] = Field(default_factory=list)
    nodes: int = 0
    newest_driver: str = ""
    created_at: datetime


class ImageNode(Model):
    node: str = ""
    size: int = 0


class ImageRules(Model):
    patterns: list[str] = Field(default_factory=list)


class ImageRulesCheck(Model):
    image: str = ""
    allowed: bool = False
    patterns: list[str] = Field(default_factory=list)
    reason: str = ""


class ImageSave(Model):
    id: str
    job: str | None = None
    job_name: str = ""
    virtual_cluster: str = ""
    task: str = ""
    reference: str = ""
    state: str = ""
    percent: int = 0
    code: str
    message: str = ""
    digest: str = ""
    size: int | None = None
    created_by: str = ""
    created_at: datetime
    ended_at: datetime | None = None


class ImportedUser(Model):
    username: str
    is_new: bool = False
    reset_url: str | None = None


class Info(Model):
    name: str
    version: str = ""
    sso_name: str = ""
    password_login: bool = False
    password_recovery: bool = False


class JobCount(Model):
    total: int = 0
    more: bool = False


class JobFilters(Model):
    state: str = ""
    virtual_cluster: str = ""
    owner: str = ""
    tag: str = ""
    search: str = ""
    shared: bool = False
    cause: str = ""
    since: str = ""
    until: str = ""
    ordering: str = ""


class JobShare(Model):
    kind: str = ""
    name: str
    created_at: datetime


class JobShares(Model):
    shares: list[JobShare] = Field(default_factory=list)


class JobUse(Model):
    gpu_hours: float = 0
    gpu_utilization: float | None = None
    gpu_memory_peak_mb: int | None = None
    cpu_percent: float | None = None
    memory_peak_mb: int | None = None
    asked: Asked | None = None
    advice: list[Advice] = Field(default_factory=list)


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
    keep: list[str] = Field(default_factory=list)


class KeyChallenge(Model):
    options: dict[str, Any] = Field(default_factory=dict)
    state: str = ""


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
    is_open: bool = False
    set_by: str = ""
    effect: str = ""
    may_set: bool = False
    used: int | None = None


class Limits(Model):
    limits: list[Limit] = Field(default_factory=list)


class LogChunk(Model):
    """
    Consecutive lines of one task. A chunk comes in several parts, each with its cursor, where
    lines of others were written in between.
    """

    cursor: int = 0
    attempt_id: str = ""
    role: str = ""
    index: int = 0
    rank: int = 0
    stream: str = ""
    offset: int = 0
    at: datetime
    text: str = ""
    line_times: list[int] = Field(default_factory=list)


class LosingVc(Model):
    name: str
    loses: dict[str, int] = Field(default_factory=dict)


class Maintenance(Model):
    id: str
    node: str = ""
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    reason: str = ""
    state: str = ""
    created_by: str | None = None
    created_at: datetime


class Match(Model):
    """
    A line; `cursor` is of the chunk where it ends, `offset` is where the match begins.
    """

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
    before: list[str] = Field(default_factory=list)
    after: list[str] = Field(default_factory=list)


class Member(Model):
    username: str
    role: str = ""
    own_role: str | None = None
    groups: list[str] = Field(default_factory=list)


class Membership(Model):
    name: str
    role: str = ""


class MfaKey(Model):
    key: str = ""
    url: str = ""
    qr_path: str = ""


class MoreMemory(Model):
    """
    What a job that ran out of memory is run again with.
    """

    role: str = ""
    memory_mb: int = 0
    suggested_mb: int = 0


class MovedJob(Model):
    id: str
    name: str
    owner: str = ""
    state: str = ""
    by_s: float | None = None
    old_start_at: float | None = None
    new_start_at: float | None = None
    old_end_at: float | None = None
    new_end_at: float | None = None


class NamedJob(Model):
    id: str
    name: str


class NamedNode(Model):
    name: str
    gpus: int = 0
    gpu_model: str = ""


class NewToken(Model):
    id: str
    name: str
    last4: str = ""
    scope: str = ""
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    token: str


class NewWebhook(Model):
    id: str
    name: str
    origin: str = ""
    format: str = ""
    enabled: bool = False
    disabled_reason: str = ""
    failures: int = 0
    created_at: datetime
    secret: str = ""


class NodeCheck(Model):
    id: str
    cause: str = ""
    state: str = ""
    due_at: datetime | None = None
    finished_at: datetime | None = None
    results: list[CheckResult] = Field(default_factory=list)


class NodeForecast(Model):
    jobs: list[ForecastJob] = Field(default_factory=list)
    virtual_clusters: list[LosingVc] = Field(default_factory=list)


class NodeGroup(Model):
    nodes: int = 0
    gpus: int = 0
    gpu_model: str = ""


class NodeImage(Model):
    reference: str = ""
    size: int = 0
    image: str = ""


class NodePrefetch(Model):
    node: str = ""
    state: str = ""
    percent: int = 0
    done_bytes: int = 0
    total_bytes: int | None = None
    message: str = ""
    updated_at: datetime | None = None


class NodeWarning(Model):
    code: str
    message: str = ""
    action: str = ""


class NotificationChannel(Model):
    name: str
    problem: str = ""


class NotificationDelivery(Model):
    id: str
    channel: str = ""
    webhook: str = ""
    event: str = ""
    title: str = ""
    state: str = ""
    attempts: int = 0
    error: str = ""
    due_at: datetime | None = None
    sent_at: datetime | None = None
    created_at: datetime


class NotificationEvent(Model):
    event: str = ""
    description: str = ""
    channels: list[str] = Field(default_factory=list)
    offered: list[str] = Field(default_factory=list)


class NotificationItem(Model):
    name: str
    message: str = ""
    log_line: str = ""
    url: str = ""
    at: datetime
    virtual_cluster: str = ""


class NotificationPreferences(Model):
    email: str = ""
    channels: list[NotificationChannel] = Field(default_factory=list)
    events: list[NotificationEvent] = Field(default_factory=list)


class Oddity(Model):
    path: str = ""
    message: str = ""


class OwnedCells(Model):
    chain: str = ""
    cell_type: str = ""
    number: int = 0


class OwnedToken(Model):
    id: str
    name: str
    last4: str = ""
    scope: str = ""
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    owner: str = ""
    kind: str = ""
    job_id: str | None = None


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


class Parent(Model):
    """
    The job with whose API token another one was submitted.
    """

    id: str
    name: str


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


class Place(Model):
    fabric: str = ""
    rack: str = ""


class PlacedPin(Model):
    name: str
    cell_type: str = ""
    node: str = ""
    device: str = ""
    virtual_cluster: str | None = None


class PlatformAlert(Model):
    id: str
    rule: str = ""
    kind: str = ""
    subject: str = ""
    message: str = ""
    details: dict[str, Any] = Field(default_factory=dict)
    since: datetime | None = None
    fired_at: datetime | None = None
    acted: str = ""
    ended_at: datetime | None = None


class PolicyChoice(Model):
    name: str
    parameters: dict[str, Any] = Field(default_factory=dict)


class PolicyForecast(Model):
    """
    The present queue of a virtual cluster under its policy and under another one.
    """

    at: float
    running: int = 0
    waiting: int = 0
    recent: int = 0
    unknown_durations: int = 0
    opportunistic: int = 0
    never_end: int = 0
    sides: list[ForecastSide] = Field(default_factory=list)
    gaining: int = 0
    losing: int = 0
    gains: list[ChangedJob] = Field(default_factory=list)
    losses: list[ChangedJob] = Field(default_factory=list)
    hidden: int = 0


class PolicyParameter(Model):
    name: str
    type: str
    default: Any = None
    description: str = ""
    minimum: float | None = None
    maximum: float | None = None
    choices: list[str] = Field(default_factory=list)


class Prediction(Model):
    median_s: int = 0
    low_s: int | None = None
    high_s: int | None = None
    source: str = ""
    jobs: int = 0
    leave_s: float | None = None
    warmup_s: float | None = None


class PredictionScore(Model):
    source: str = ""
    jobs: int = 0
    intervals: int = 0
    coverage: float | None = None
    median_error: float | None = None


class Prefetch(Model):
    id: str
    image: str = ""
    reference: str = ""
    virtual_cluster: str = ""
    created_by: str = ""
    created_at: datetime
    expires_at: datetime
    waiting: int = 0
    pulling: int = 0
    done: int = 0
    failed: int = 0


class Problem(Model):
    code: str
    message: str = ""
    path: str = ""
    line: int = 0
    column: int = 0


class Process(Model):
    kind: str = ""
    host: str = ""
    pid: int = 0
    version: str = ""
    started_at: datetime | None = None
    clock_ahead_s: float = 0


class Queue(Model):
    name: str
    messages: int = 0
    lag_s: float | None = None


class RankLog(Model):
    rank: int = 0
    role: str = ""
    index: int = 0
    attempt_id: str = ""
    node: str = ""
    state: str = ""
    lines: list[str] = Field(default_factory=list)


class RankLogs(Model):
    attempt: int = 0
    total: int = 0
    ranks: list[RankLog] = Field(default_factory=list)


class RankUse(Model):
    rank: int = 0
    role: str = ""
    index: int = 0
    attempt_id: str = ""
    node: str = ""
    state: str = ""
    gpus: int = 0
    gpu_utilization: float | None = None
    gpu_utilization_recent: float | None = None
    gpu_memory_peak_mb: int | None = None
    cpu_percent: float | None = None
    memory_peak_mb: int | None = None


class RankUses(Model):
    attempt: int = 0
    total: int = 0
    ranks: list[RankUse] = Field(default_factory=list)


class Reason(Model):
    """
    A reason of any kind: a stable code, one sentence, the numbers behind it.
    """

    code: str
    message: str = ""
    details: dict[str, Any] = Field(default_factory=dict)


class RecoveryCodes(Model):
    recovery_codes: list[str] = Field(default_factory=list)


class Redis(Model):
    version: str = ""
    bytes: int = 0
    max_bytes: int = 0
    clients: int = 0


class RegistryCredential(Model):
    registry: str = ""
    username: str
    created_at: datetime
    updated_at: datetime | None = None


class ReportUser(Model):
    allocated_s: int = 0
    guaranteed_s: int = 0
    borrowed_s: int = 0
    used_s: int = 0
    idle_s: int = 0
    unknown_s: int = 0
    utilization: float | None = None
    user: str = ""
    jobs: int = 0
    gpus: float | None = None


class Reserved(Model):
    start: datetime
    nodes: list[str] = Field(default_factory=list)


class ResetLink(Model):
    url: str = ""
    expires_at: datetime


class SavedView(Model):
    id: str
    name: str
    filters: JobFilters | None = None
    updated_at: datetime | None = None


class SavedViews(Model):
    views: list[SavedView] = Field(default_factory=list)


class Search(Model):
    matches: list[Match] = Field(default_factory=list)
    next: str | None = None


class SecurityKey(Model):
    id: int
    name: str
    passkey: bool = False
    created_at: datetime
    last_used_at: datetime | None = None


class ServiceAccount(Model):
    name: str
    username: str
    description: str = ""
    role: str = ""
    is_active: bool = False
    tokens: int = 0
    last_used_at: datetime | None = None
    created_at: datetime


class Session(Model):
    id: str
    address: str = ""
    user_agent: str = ""
    created_at: datetime
    last_seen_at: datetime | None = None
    current: bool = False


class Shares(Model):
    virtual_cluster: str = ""
    gpu_model: str = ""
    gpus: int = 0


class Shortfall(Model):
    virtual_cluster: str = ""
    chain: str = ""
    cell_type: str = ""
    asked: int = 0
    got: int = 0


class SimulatedCluster(Model):
    shape: str = ""
    groups: list[NodeGroup] = Field(default_factory=list)
    owned: list[Shares] = Field(default_factory=list)
    nodes: list[NamedNode] = Field(default_factory=list)


class SimulatedPolicy(Model):
    name: str
    family: str = ""
    placements: list[str] = Field(default_factory=list)


class SimulatedRun(Model):
    scenario: str = ""
    figures: Figures | None = None
    series: list[list[float]] = Field(default_factory=list)


class SimulationError(Model):
    code: str
    message: str = ""


class SimulationInputs(Model):
    since: datetime | None = None
    until: datetime | None = None
    jobs: int = 0
    load: float = 0
    seed: int = 0
    placement: str = ""
    restart_s: float = 0
    changes: list[Shares] = Field(default_factory=list)
    policy_of: str = ""
    node_events: bool = False


class SimulationOptions(Model):
    policies: list[SimulatedPolicy] = Field(default_factory=list)
    virtual_clusters: list[str] = Field(default_factory=list)
    whole_cluster: bool = False
    most_jobs: dict[str, int] = Field(default_factory=dict)
    most_policies: int = 0
    most_seconds: float = 0


class SimulationSummary(Model):
    id: str
    owner: str = ""
    virtual_cluster: str = ""
    state: str = ""
    source: str = ""
    policies: list[str] = Field(default_factory=list)
    jobs_total: int = 0
    jobs_ended: int = 0
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: SimulationError | None = None


class SshKey(Model):
    id: str
    name: str
    public_key: str = ""
    fingerprint: str = ""
    created_at: datetime


class SshKeys(Model):
    keys: list[SshKey] = Field(default_factory=list)


class SsoAddress(Model):
    url: str = ""


class SsoLink(Model):
    name: str
    linked: bool = False
    linked_at: datetime | None = None
    last_used_at: datetime | None = None
    can_unlink: bool = False


class StartInterval(Model):
    low: datetime | None = None
    high: datetime | None = None
    coverage: float = 0


class StartScore(Model):
    jobs: int = 0
    coverage: float | None = None


class StorageFile(Model):
    name: str
    type: str
    size: int = 0
    modified_at: datetime | None = None


class StorageFiles(Model):
    writable: bool = False
    results: list[StorageFile] = Field(default_factory=list)
    next: str | None = None


class StorageGrant(Model):
    virtual_cluster: str = ""
    read_only: bool = False


class StorageGroupGrant(Model):
    group: str = ""
    read_only: bool = False


class StorageRemoval(Model):
    complete: bool = False


class StorageUpload(Model):
    offset: int = 0
    source: str = ""


class StorageUsage(Model):
    size: int = 0
    files: int = 0
    folders: int = 0
    complete: bool = False
    modified_at: datetime | None = None
    etag: str | None = None


class Store(Model):
    place: str = ""
    free_bytes: int | None = None
    total_bytes: int | None = None


class StreamLog(Model):
    attempt_id: str = ""
    stream: str = ""
    offset: int = 0
    next_offset: int = 0
    size: int = 0
    complete: bool = False
    text: str = ""


class Sums(Model):
    allocated_s: int = 0
    guaranteed_s: int = 0
    borrowed_s: int = 0
    used_s: int = 0
    idle_s: int = 0
    unknown_s: int = 0
    utilization: float | None = None


class Table(Model):
    name: str
    bytes: int = 0
    rows: int = 0
    dead_rows: int = 0
    vacuumed_at: datetime | None = None


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
    ports: dict[str, int] = Field(default_factory=dict)
    task_retries: int = 0
    parallelism: int | None = None
    elastic: Elastic | None = None
    states: dict[str, int] = Field(default_factory=dict)


class TaskSeries(Model):
    attempt_id: str = ""
    role: str = ""
    index: int = 0
    points: list[list[float | None]] = Field(default_factory=list)


class Template(Model):
    name: str
    title: str = ""
    description: str = ""
    owner: str = ""
    virtual_cluster: str | None = None
    shipped: bool = False
    listed: bool = False
    gpus: int = 0
    tasks: int = 0
    stars: int = 0
    starred: bool = False
    updated_at: datetime | None = None
    text: str = ""
    parameters: dict[str, Any] = Field(default_factory=dict)
    may_change: bool = False


class TemplateSummary(Model):
    name: str
    title: str = ""
    description: str = ""
    owner: str = ""
    virtual_cluster: str | None = None
    shipped: bool = False
    listed: bool = False
    gpus: int = 0
    tasks: int = 0
    stars: int = 0
    starred: bool = False
    updated_at: datetime | None = None


class Token(Model):
    id: str
    name: str
    last4: str = ""
    scope: str = ""
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None


class UnreadNotifications(Model):
    unread: int = 0


class Unsubscribed(Model):
    event: str = ""
    description: str = ""


class Use(Model):
    use: dict[str, list[int | None]] = Field(default_factory=dict)


class UseSeries(Model):
    points: list[list[float]] = Field(default_factory=list)


class UsedBy(Model):
    virtual_cluster: str | None = None
    job_id: str = ""
    job_name: str = ""


class UsedJob(Model):
    id: str | None = None
    name: str


class User(Model):
    id: int
    username: str
    email: str = ""
    is_admin: bool = False
    is_active: bool = False
    mfa: bool = False
    created_at: datetime
    last_login_at: datetime | None = None


class UserFairness(Model):
    jobs: int = 0
    active: int = 0
    unknown: int = 0
    rho_mean: float | None = None
    rho_max: float | None = None
    unfair_share: float | None = None
    user: str = ""
    worst_job: FairnessJob | None = None


class UserMetric(Model):
    name: str
    count: int = 0
    kept_each: int = 0
    last: float | None = None
    low: float | None = None
    high: float | None = None
    not_finite: int = 0
    not_finite_step: float | None = None
    points: list[list[float]] = Field(default_factory=list)


class VcClaims(Model):
    cells: list[Claim] = Field(default_factory=list)
    quotas: dict[str, int] = Field(default_factory=dict)
    pins: list[str] = Field(default_factory=list)


class VcFairness(Model):
    days: int = 0
    gpus: int = 0
    jain_index: float | None = None
    total: FairnessFigures | None = None
    results: list[UserFairness] = Field(default_factory=list)
    next: str | None = None
    previous: str | None = None


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
    models: dict[str, UseSeries] = Field(default_factory=dict)


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
    quotas: dict[str, int] = Field(default_factory=dict)
    cells: list[OwnedCells] = Field(default_factory=list)
    pins: list[str] = Field(default_factory=list)
    used: dict[str, int] = Field(default_factory=dict)
    role: str | None = None
    members: int = 0
    job_visibility: str = ""
    default_image: str = ""
    policy: PolicyChoice | None = None
    may_manage: bool = False


class WaitingTimes(Model):
    jobs: int = 0
    p50_s: int | None = None
    p95_s: int | None = None


class Webhook(Model):
    id: str
    name: str
    origin: str = ""
    format: str = ""
    enabled: bool = False
    disabled_reason: str = ""
    failures: int = 0
    created_at: datetime


class WebhookSecret(Model):
    secret: str = ""


class WhatIfSide(Model):
    """
    A run from now on. Starts and ends are of the jobs that wait, in seconds from now on.
    """

    scenario: str = ""
    policy: str = ""
    starting: int = 0
    avg_start_s: float = 0
    p95_start_s: float = 0
    avg_end_s: float = 0
    p95_end_s: float = 0
    never_end: int = 0
    gaining: int = 0
    losing: int = 0
    gains: list[MovedJob] = Field(default_factory=list)
    losses: list[MovedJob] = Field(default_factory=list)
    hidden: int = 0


class WorkingFiles(Model):
    sha256: str
    size: int = 0
    path: str = ""


class AffectedJob(Model):
    job_id: str = ""
    name: str
    virtual_cluster: str = ""
    reason: Reason | None = None


class ArchivedAttempt(Model):
    index: int = 0
    outcome: str = ""
    retry: str = ""
    placed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    nodes: list[str] = Field(default_factory=list)
    nodes_total: int = 0
    reason: ArchivedReason | None = None
    diagnosis_code: int | None = None
    diagnosis_name: str = ""


class ArchivedJob(ArchivedJobSummary):
    spec_text: str = ""
    tags: list[str] = Field(default_factory=list)
    task_roles: list[ArchivedRole] = Field(default_factory=list)
    attempts: list[ArchivedAttempt] = Field(default_factory=list)
    exit_reason: ArchivedReason | None = None
    events: list[ArchivedEvent] = Field(default_factory=list)
    use: ArchivedUse | None = None
    shortened: list[str] = Field(default_factory=list)


class Assignment(Model):
    revision: int = 0
    virtual_clusters: dict[str, VcClaims] = Field(default_factory=dict)
    pins: list[Pin] = Field(default_factory=list)


class AssumedFact(Model):
    fact: str = ""
    jobs: int = 0
    examples: list[NamedJob] = Field(default_factory=list)
    ended_jobs: int = 0
    ended_share: float | None = None
    otherwise: str = ""


class AttemptMetrics(Model):
    attempt: int = 0
    started_at: datetime | None = None
    reading: bool = False
    dropped: list[Dropped] = Field(default_factory=list)
    metrics: list[UserMetric] = Field(default_factory=list)


class AuditEntry(Model):
    id: str
    at: datetime
    action: str = ""
    outcome: str = ""
    actor: AuditActor | None = None
    token: AuditToken | None = None
    address: str = ""
    user_agent: str = ""
    request_id: str = ""
    target: AuditTarget | None = None
    virtual_cluster: str = ""
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    facts: dict[str, Any] = Field(default_factory=dict)


class Causes(Model):
    categories: list[str] = Field(default_factory=list)
    failures: list[Failure] = Field(default_factory=list)


class Cells(Model):
    revision: int = 0
    source: str = ""
    chains: list[Chain] = Field(default_factory=list)
    pins: list[PlacedPin] = Field(default_factory=list)
    gpus: list[VcGpus] = Field(default_factory=list)


class Check(Model):
    valid: bool
    errors: list[Problem] = Field(default_factory=list)
    notes: list[Problem] = Field(default_factory=list)
    summary: CheckSummary | None = None
    forecast: Reason | None = None


class CheckedAssignment(Model):
    revision: int = 0
    fits: bool = False
    errors: list[AssignmentError] = Field(default_factory=list)
    left: list[Left] = Field(default_factory=list)
    downgraded: list[AffectedJob] = Field(default_factory=list)
    restored: list[AffectedJob] = Field(default_factory=list)
    shortfalls: list[Shortfall] = Field(default_factory=list)
    problems: list[Oddity] = Field(default_factory=list)


class Cluster(Model):
    nodes: dict[str, int] = Field(default_factory=dict)
    gpus: dict[str, GpuCount] = Field(default_factory=dict)
    jobs: dict[str, int] = Field(default_factory=dict)
    version: str = ""
    versions: dict[str, dict[str, int]] = Field(default_factory=dict)


class Diagnosis(Model):
    """
    Why an attempt failed: a row of the table of failures, and what pointed at it.
    """

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
    evidence: Evidence | None = None
    remedy: str = ""
    task: str | None = None
    rank: int | None = None
    node: str | None = None
    exit_code: int | None = None


class Examined(Model):
    check: str = ""
    findings: list[Finding] = Field(default_factory=list)


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


class Grid(Model):
    revision: str = ""
    whole: bool = False
    models: list[str] = Field(default_factory=list)
    virtual_clusters: list[str | None] = Field(default_factory=list)
    places: list[Place] = Field(default_factory=list)
    nodes: list[GridNode] = Field(default_factory=list)
    removed: list[str] = Field(default_factory=list)


class Import(Model):
    users: list[ImportedUser] = Field(default_factory=list)


class JobAttempt(Model):
    index: int = 0
    outcome: str = ""
    retry: str = ""
    placed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    diagnosis: Diagnosis | None = None


class JobAttemptDetail(Model):
    index: int = 0
    outcome: str = ""
    retry: str = ""
    placed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    reason: Reason | None = None
    diagnosis: Diagnosis | None = None
    nodes: list[AttemptNode] = Field(default_factory=list)
    nodes_total: int = 0
    ends: list[AttemptEnd] = Field(default_factory=list)
    gpu_hours: float = 0
    gpu_utilization: float | None = None
    gpu_memory_peak_mb: int | None = None
    cpu_percent: float | None = None
    memory_peak_mb: int | None = None


class JobLogs(Model):
    chunks: list[LogChunk] = Field(default_factory=list)
    next: int = 0
    more: bool = False
    complete: bool = False


class JobMetrics(Model):
    step_s: int = 0
    gpus: list[GpuSeries] = Field(default_factory=list)
    tasks: list[TaskSeries] = Field(default_factory=list)


class JobSummary(JobModel):
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
    tags: list[str] = Field(default_factory=list)
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


class LackingFact(Model):
    fact: str = ""
    jobs: int = 0
    examples: list[NamedJob] = Field(default_factory=list)
    ended_jobs: int = 0
    ended_share: float | None = None


class Me(Model):
    id: int
    username: str
    email: str = ""
    email_confirmed: bool = False
    is_admin: bool = False
    mfa_setup_required: bool = False
    virtual_clusters: list[Membership] = Field(default_factory=list)
    admins: list[str] = Field(default_factory=list)


class Mfa(Model):
    app: bool = False
    keys: list[SecurityKey] = Field(default_factory=list)
    keys_supported: bool = False
    by_policy: bool = False
    enabled: bool = False
    enabled_at: datetime | None = None
    last_used_at: datetime | None = None
    recovery_codes_left: int = 0


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
    warnings: list[NodeWarning] = Field(default_factory=list)
    below_floor: list[BelowFloor] = Field(default_factory=list)
    agent_version: str = ""
    components: dict[str, str] = Field(default_factory=dict)
    checks_needed: int = 0
    maintenance_from: datetime | None = None
    maintenance_until: datetime | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    last_heartbeat_at: datetime | None = None
    lease_expires_at: datetime | None = None
    disk_free_mb: int | None = None
    disk_total_mb: int | None = None
    disk_low: bool = False
    log_bytes_waiting: int = 0
    gpus: list[Gpu] = Field(default_factory=list)


class Notification(Model):
    id: str
    event: str = ""
    title: str = ""
    count: int = 0
    items: list[NotificationItem] = Field(default_factory=list)
    read: bool = False
    created_at: datetime
    updated_at: datetime | None = None


class Platform(Model):
    version: str = ""
    processes: list[Process] = Field(default_factory=list)
    queues: list[Queue] = Field(default_factory=list)
    planned_at: datetime | None = None
    database: Database | None = None
    tables: list[Table] = Field(default_factory=list)
    redis: Redis | None = None
    store: Store | None = None
    agents: dict[str, int] = Field(default_factory=dict)
    nodes: dict[str, int] = Field(default_factory=dict)
    last_backup: Backup | None = None


class Policy(Model):
    name: str
    family: str = ""
    description: str = ""
    is_default: bool = False
    parameters: list[PolicyParameter] = Field(default_factory=list)


class PolicyCheck(Model):
    jobs: int = 0
    lacking: list[LackingFact] = Field(default_factory=list)
    otherwise: str = ""
    assumed: list[AssumedFact] = Field(default_factory=list)
    ended: EndedJobs | None = None
    preempts: bool = False
    not_preemptible: int = 0
    resizes: bool = False
    elastic: int = 0


class PredictionScores(Model):
    days: int = 0
    promised_coverage: float = 0
    sources: list[PredictionScore] = Field(default_factory=list)
    starts: StartScore | None = None


class QueuedJob(Model):
    """
    A job in the queue of a virtual cluster. Of one that the reader may not see it shows how
    large it is and since when it is there, and not whose it is.
    """

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


class ReportJob(Model):
    allocated_s: int = 0
    guaranteed_s: int = 0
    borrowed_s: int = 0
    used_s: int = 0
    idle_s: int = 0
    unknown_s: int = 0
    utilization: float | None = None
    job: UsedJob
    user: str = ""
    gpus: int = 0


class Run(Model):
    id: str
    name: str
    owner: str = ""
    virtual_cluster: str = ""
    state: str = ""
    tags: list[str] = Field(default_factory=list)
    submitted_at: datetime
    parameters: dict[str, str] = Field(default_factory=dict)
    metrics: list[UserMetric] = Field(default_factory=list)


class Running(Model):
    job: QueuedJob
    expected_end: datetime | None = None
    opportunistic: bool = False
    preemptible: bool = False


class Storage(Model):
    name: str
    description: str = ""
    type: str
    data: dict[str, str] = Field(default_factory=dict)
    mount_options: list[str] = Field(default_factory=list)
    has_keys: bool = False
    read_only: bool = False
    per_user: bool = False
    home: bool = False
    default: bool = False
    managed_by: str = ""
    may_change: bool = False
    grants: list[StorageGrant] = Field(default_factory=list)
    group_grants: list[StorageGroupGrant] = Field(default_factory=list)
    created_at: datetime


class UsageRow(Model):
    allocated_s: int = 0
    guaranteed_s: int = 0
    borrowed_s: int = 0
    used_s: int = 0
    idle_s: int = 0
    unknown_s: int = 0
    utilization: float | None = None
    day: str = ""
    month: str = ""
    vc: str = ""
    user: str = ""
    group: str = ""
    job: UsedJob | None = None
    gpu_model: str = ""
    class_: str = Field("", alias="class")


class UserMetrics(Model):
    asked: bool = False
    attempts: list[AttemptMetrics] = Field(default_factory=list)


class VcChain(Model):
    chain: str = ""
    gpu_model: str = ""
    types: list[OwnedType] = Field(default_factory=list)
    cells: list[VirtualCell] = Field(default_factory=list)
    more: int = 0


class Waiting(Model):
    position: int = 0
    job: QueuedJob
    needs_words: str = ""
    reserved: Reserved | None = None
    expected_start: datetime | None = None
    reason: Reason | None = None


class WhatIf(Model):
    """
    The jobs of now, as the cluster is (the first side) and as it would be (the others).
    """

    at: float
    running: int = 0
    waiting: int = 0
    unknown_durations: int = 0
    opportunistic: int = 0
    sides: list[WhatIfSide] = Field(default_factory=list)


class Attempt(Model):
    id: str
    index: int = 0
    retry: int = 0
    node: str = ""
    state: str = ""
    phase: str = ""
    pull_percent: int | None = None
    pull_bytes: int | None = None
    pull_total_bytes: int | None = None
    gpu_uuids: list[str] = Field(default_factory=list)
    gpu_model: str = ""
    network: str = ""
    ports: dict[str, list[int]] = Field(default_factory=dict)
    exit_code: int | None = None
    exit_signal: int | None = None
    oom_killed: bool = False
    error_code: str = ""
    error_message: str = ""
    memory_peak_mb: int | None = None
    xids: list[int] = Field(default_factory=list)
    disk_full: bool = False
    diagnosis: Diagnosis | None = None
    ready_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class Compare(Model):
    runs: list[Run] = Field(default_factory=list)
    more: bool = False


class Doctor(Model):
    healthy: bool = False
    checks: list[Examined] = Field(default_factory=list)


class Home(Model):
    states: dict[str, int] = Field(default_factory=dict)
    running: list[JobSummary] = Field(default_factory=list)
    waiting: list[JobSummary] = Field(default_factory=list)
    failed: list[JobSummary] = Field(default_factory=list)
    submitted: bool = False
    virtual_clusters: list[HomeVc] = Field(default_factory=list)
    usage: Sums | None = None


class Job(JobSummary):
    expected_start_interval: StartInterval | None = None
    parent: Parent | None = None
    api_token: str | None = None
    depends_on: list[Dependency] = Field(default_factory=list)
    spec_text: str = ""
    task_roles: list[TaskRole] = Field(default_factory=list)
    lazy_preemption: bool = False
    preemptible: bool = False
    pinned_cell: str = ""
    within: str = ""
    stop_grace_s: int = 0
    checkpoint_signal: str = ""
    checkpoint_grace_s: int = 0
    prediction: Prediction | None = None
    max_duration_s: int | None = None
    ends_at: datetime | None = None
    deadline_at: datetime | None = None
    network_mode: str = ""
    environment: dict[str, str] = Field(default_factory=dict)
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
    bad_gpus: list[BadGpu] = Field(default_factory=list)
    may_exec: bool = False
    may_stop: bool = False
    may_prioritise: bool = False
    may_exempt: bool = False
    idle_exempt: bool = False
    may_share: bool = False
    may_clone: bool = False
    retries_ended: bool = False
    more_memory: MoreMemory | None = None


class Policies(Model):
    policies: list[Policy] = Field(default_factory=list)


class Report(Model):
    vc: str = ""
    month: str = ""
    since: str = ""
    until: str = ""
    total: Sums | None = None
    owned_s: int | None = None
    lent_s: int | None = None
    quota_share: float | None = None
    users: list[ReportUser] = Field(default_factory=list)
    idle_jobs: list[ReportJob] = Field(default_factory=list)
    waiting: WaitingTimes | None = None
    budget: Budget | None = None


class Simulation(Model):
    id: str
    owner: str = ""
    virtual_cluster: str = ""
    state: str = ""
    source: str = ""
    policies: list[str] = Field(default_factory=list)
    jobs_total: int = 0
    jobs_ended: int = 0
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: SimulationError | None = None
    request: SimulationInputs | None = None
    runs: list[SimulatedRun] = Field(default_factory=list)
    forecast: PolicyForecast | None = None
    now: WhatIf | None = None


class Task(Model):
    id: int
    role: str = ""
    index: int = 0
    rank: int = 0
    state: str = ""
    attempt: Attempt | None = None


class Usage(Model):
    since: str = ""
    until: str = ""
    by: list[str] = Field(default_factory=list)
    total: Sums | None = None
    results: list[UsageRow] = Field(default_factory=list)
    next: str | None = None
    previous: str | None = None


class VcCells(Model):
    chains: list[VcChain] = Field(default_factory=list)
    borrowed_in: int = 0
    shortfalls: list[Shortfall] = Field(default_factory=list)


class VcQueue(Model):
    running: list[Running] = Field(default_factory=list)
    waiting: list[Waiting] = Field(default_factory=list)
    running_total: int = 0
    waiting_total: int = 0
    next: str | None = None


PhysicalCell.model_rebuild()
VirtualCell.model_rebuild()
