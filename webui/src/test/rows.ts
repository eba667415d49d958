import type {
  Attempt,
  Diagnosis,
  Job,
  JobSummary,
  LogChunk,
  Me,
  Node,
  SchedulingDetails,
  Task,
  TaskRole,
} from "@/api/types";
import type { GridNode } from "@/api/grid";

/** Why a job waits for GPUs of its virtual cluster; name what matters to the test. */
export function aWaitReason(message: string, part: Partial<SchedulingDetails> = {}) {
  const details: SchedulingDetails = {
    vc: "vision",
    needs: { gpus: 8, gpu_model: "A100", tasks: 1, shape: "1 node of 8 A100", whole_nodes: true },
    owns: 32,
    used: 32,
    free: 0,
    bad: 0,
    cordoned: 0,
    offline: 0,
    nodes: { owns: 4, used: 4, bad: 0, cordoned: 0, offline: 0 },
    model: "A100",
    used_by: [],
    more: 0,
    ahead: 0,
    expected_start: null,
    opportunistic_now: null,
    told_at: 1_767_261_600,
    ...part,
  };
  return { code: "vc_busy" as const, message, details };
}

/** A job as the server sends it; give what matters to the test. */
export function aJob(part: Partial<JobSummary> = {}): JobSummary {
  return {
    id: "01900000-0000-7000-8000-000000000001",
    name: "train",
    owner: "mei",
    virtual_cluster: "vision",
    state: "RUNNING",
    priority_class: "test",
    priority: 10,
    gpus: 8,
    tasks: 2,
    attempt: 1,
    retries_used: 0,
    submitted_at: "2026-01-01T10:00:00Z",
    placed_at: "2026-01-01T10:00:02Z",
    started_at: "2026-01-01T10:00:05Z",
    finished_at: null,
    duration_s: null,
    preemptions: 0,
    preempting: false,
    downgraded: null,
    incremental: false,
    unplaced: 0,
    expected_start: null,
    wait_reason: null,
    exit_reason: null,
    tags: [],
    free_retries: 0,
    diagnosis_code: null,
    diagnosis_title: null,
    ...part,
  };
}

/** The same with all that its own page shows. */
export function aWholeJob(part: Partial<Job> = {}): Job {
  return {
    ...aJob(),
    parent: null,
    api_token: null,
    depends_on: [],
    spec_text: "",
    task_roles: [],
    bad_gpus: [],
    may_stop: true,
    may_prioritise: false,
    idle_exempt: false,
    may_exempt: false,
    may_share: true,
    visibility: null,
    seen_by: "owner",
    lazy_preemption: false,
    preemptible: true,
    pinned_cell: "",
    within: "",
    stop_grace_s: 10,
    checkpoint_signal: "",
    checkpoint_grace_s: 0,
    max_duration_s: null,
    ends_at: null,
    deadline_at: null,
    network_mode: "",
    environment: {},
    work_dir: "",
    working_files: null,
    git: null,
    retry_at: null,
    diagnosis: null,
    begun_at: null,
    diagnosing: false,
    logs_deleted_at: null,
    may_exec: true,
    may_clone: true,
    retries_ended: false,
    more_memory: null,
    prediction: null,
    expected_start_interval: null,
    ...part,
  };
}

export function aRole(part: Partial<TaskRole> = {}): TaskRole {
  return {
    name: "w",
    instances: 4,
    gpus: 0,
    gpu_model: "",
    cell_type: "",
    cells: 0,
    within: "",
    affinity_group: "",
    cpus: 1,
    memory_mb: 1,
    image: "",
    command: "",
    task_retries: 0,
    parallelism: null,
    elastic: null,
    ports: {},
    states: {},
    ...part,
  };
}

export function aUser(part: Partial<Me> = {}): Me {
  return {
    id: 1,
    username: "mei",
    email: "",
    is_admin: false,
    mfa_setup_required: false,
    virtual_clusters: [{ name: "vision", role: "member" }],
    admins: [],
    ...part,
  };
}

export function aTask(part: Partial<Task> = {}): Task {
  return { id: 1, role: "worker", index: 0, rank: 0, state: "WAITING", attempt: null, ...part };
}

export function anAttempt(part: Partial<Attempt> = {}): Attempt {
  return {
    id: "a0",
    index: 1,
    retry: 0,
    node: "hive-01",
    state: "RUNNING",
    phase: "running",
    pull_percent: null,
    pull_bytes: null,
    pull_total_bytes: null,
    gpu_uuids: [],
    gpu_model: "",
    network: "job",
    ports: {},
    exit_code: null,
    exit_signal: null,
    oom_killed: false,
    error_code: "",
    error_message: "",
    memory_peak_mb: null,
    xids: [],
    disk_full: false,
    diagnosis: null,
    ready_at: null,
    started_at: null,
    finished_at: null,
    ...part,
  };
}

export function aDiagnosis(part: Partial<Diagnosis> = {}): Diagnosis {
  return {
    code: 226,
    name: "ContainerCudaOOMKilled",
    type: "USER_FAILURE",
    title: "GPU out of memory",
    category: "GPU out of memory",
    axis: "DL-specific",
    retry: "permanent",
    reaction: "NEVER_RETRY",
    blame: "job",
    rule: "cuda_oom",
    evidence: { source: "log", text: "CUDA out of memory", log: "worker-1", line: 42 },
    remedy: "Make the batch or the model smaller.",
    task: "worker-1",
    rank: 1,
    node: "hive-02",
    exit_code: 1,
    ...part,
  };
}

export function aNode(part: Partial<Node> = {}): Node {
  return {
    id: "n1",
    name: "hive-01",
    state: "ONLINE",
    cordoned: false,
    cordon_reason: "",
    faults_24h: 0,
    draining: false,
    empty: true,
    address: "10.0.0.1",
    cpus: 64,
    memory_mb: 512_000,
    runtime: "docker",
    driver_version: "",
    engine_version: "",
    network_problem: "",
    warnings: [],
    below_floor: [],
    agent_version: "",
    labels: {},
    last_heartbeat_at: null,
    lease_expires_at: null,
    disk_free_mb: null,
    disk_total_mb: null,
    disk_low: false,
    log_bytes_waiting: 0,
    components: {},
    checks_needed: 0,
    maintenance_from: null,
    maintenance_until: null,
    gpus: [],
    ...part,
  };
}

/** The node in short, as the grid has it. */
export function aGridNode(part: Partial<GridNode> = {}): GridNode {
  return {
    name: "hive-01",
    state: "ONLINE",
    cordoned: false,
    draining: false,
    labels: {},
    gpus: [],
    ...part,
  };
}

export function aChunk(cursor: number, text: string, part: Partial<LogChunk> = {}): LogChunk {
  return {
    cursor,
    attempt_id: "a0",
    role: "worker",
    index: 0,
    rank: 0,
    stream: "stdout",
    offset: 0,
    at: "2026-01-01T10:00:00Z",
    text,
    line_times: [],
    ...part,
  };
}
