/** The shapes of the REST API, as docs/ and the OpenAPI schema tell them. Times are ISO 8601 UTC. */

export type JobState = "WAITING" | "RUNNING" | "STOPPING" | "SUCCEEDED" | "FAILED" | "STOPPED";
export type AttemptState =
  "ASSIGNED" | "PREPARING" | "RUNNING" | "STOPPING" | "SUCCEEDED" | "FAILED" | "STOPPED" | "LOST";
export type TaskState = AttemptState | "WAITING";
export type NodeState = "JOINED" | "ONLINE" | "UNREACHABLE" | "LOST" | "REMOVED";
export type Stream = "stdout" | "stderr";
export type MemberRole = "member" | "manager";

export interface Page<T> {
  results: T[];
  next: string | null;
  previous: string | null;
}

export interface Info {
  name: string;
  version: string;
}

export interface Me {
  id: string | number;
  username: string;
  email: string;
  is_admin: boolean;
  virtual_clusters: { name: string; role: MemberRole }[];
}

/** Why something is as it is: a stable code, one sentence, the numbers behind it. */
export interface Reason {
  code: string;
  message: string;
  details: Record<string, unknown>;
}

export interface JobSummary {
  id: string;
  name: string;
  owner: string;
  virtual_cluster: string;
  state: JobState;
  priority_class: string;
  priority: number;
  gpus: number;
  tasks: number;
  attempt: number;
  retries_used: number;
  submitted_at: string;
  placed_at: string | null;
  started_at: string | null;
  finished_at: string | null;
  wait_reason: Reason | null;
  exit_reason: Reason | null;
}

export interface TaskRole {
  name: string;
  instances: number;
  gpus: number;
  cpus: number;
  memory_mb: number;
  image: string;
  command: string;
  states: Partial<Record<TaskState, number>>;
}

export interface Job extends JobSummary {
  spec_text: string;
  task_roles: TaskRole[];
  may_stop: boolean;
}

export interface Attempt {
  id: string;
  index: number;
  node: string;
  state: AttemptState;
  phase: string;
  pull_percent: number | null;
  gpu_uuids: string[];
  gpu_model: string;
  network: string;
  ports: Record<string, number[]>;
  exit_code: number | null;
  exit_signal: number | null;
  oom_killed: boolean;
  error_code: string;
  error_message: string;
  memory_peak_mb: number | null;
  started_at: string | null;
  finished_at: string | null;
}

export interface Task {
  id: string | number;
  role: string;
  index: number;
  rank: number;
  state: TaskState;
  attempt: Attempt | null;
}

export interface JobEvent {
  id: string | number;
  at: string;
  kind: string;
  message: string;
  data: Record<string, unknown>;
  actor: string;
}

export interface SpecError {
  code: string;
  message: string;
  path: string;
  line: number | null;
  column: number | null;
}

export interface CheckResult {
  valid: boolean;
  errors: SpecError[];
  summary: { name: string; virtual_cluster: string; gpus: number; tasks: number } | null;
  forecast: Reason | null;
}

export interface LogChunk {
  cursor: number;
  attempt_id: string;
  role: string;
  index: number;
  rank: number;
  stream: Stream;
  offset: number;
  at: string;
  text: string;
}

export interface LogPage {
  chunks: LogChunk[];
  next: number;
  complete: boolean;
}

/** [seconds since the epoch, value, value] */
export type Point = [number, number, number];

export interface Metrics {
  step_s: number;
  gpus: {
    uuid: string;
    model: string;
    node: string;
    role: string;
    index: number;
    points: Point[];
  }[];
  tasks: { role: string; index: number; points: Point[] }[];
}

export interface VirtualCluster {
  name: string;
  description: string;
  quotas: Record<string, number>;
  used: Record<string, number>;
  role: MemberRole | null;
  members: number;
}

export interface Member {
  username: string;
  role: MemberRole;
}

export interface GpuUse {
  job_id?: string;
  job_name?: string;
  virtual_cluster: string;
}

export interface Gpu {
  uuid: string;
  model: string;
  index: number;
  memory_mb: number;
  health: "HEALTHY" | "BAD" | "ABSENT";
  problem: string;
  used_by: GpuUse | null;
  utilization: number | null;
  memory_used_mb: number | null;
}

export interface Node {
  id: string;
  name: string;
  state: NodeState;
  cordoned: boolean;
  address: string;
  cpus: number;
  memory_mb: number;
  runtime: string;
  driver_version: string;
  engine_version: string;
  agent_version: string;
  last_heartbeat_at: string | null;
  gpus: Gpu[];
}

export interface JoinToken {
  token: string;
  expires_at: string;
  command: string;
}

export interface Image {
  name: string;
  reference: string;
  description: string;
  virtual_clusters: string[];
}

export interface User {
  username: string;
  email: string;
  is_admin: boolean;
  is_active: boolean;
}

export interface ApiToken {
  id: string;
  name: string;
  created_at: string;
  expires_at: string | null;
}

export interface Cluster {
  nodes: Partial<Record<NodeState, number>>;
  gpus: Record<string, { total: number; used: number; bad: number }>;
  jobs: Partial<Record<JobState, number>>;
  version: string;
}
