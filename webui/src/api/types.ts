// Short names for the shapes of the REST API, which are generated from the server's own schema.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Info = Schemas["Info"];
export type Me = Schemas["Me"];
export type User = Schemas["User"];
export type NewUser = Schemas["UserBodyRequest"];
export type ApiToken = Schemas["Token"];

/** Why something is as it is: a stable code, one sentence, the numbers behind it. */
export type Reason = Schemas["Reason"];
export type JobSummary = Schemas["JobSummary"];
export type JobState = JobSummary["state"];
export type Job = Schemas["Job"];
export type TaskRole = Schemas["TaskRole"];
export type Task = Schemas["Task"];
export type TaskState = Task["state"];
export type Attempt = Schemas["Attempt"];
export type JobEvent = Schemas["Event"];
export type CheckResult = Schemas["Check"];
export type SpecError = Schemas["Problem"];

export type LogChunk = Schemas["LogChunk"];
export type LogPage = Schemas["JobLogs"];
export type Stream = LogChunk["stream"];
export type Metrics = Schemas["JobMetrics"];
/** Seconds since the epoch, and two values. */
export type Point = number[];

export type VirtualCluster = Schemas["VirtualCluster"];
export type Member = Schemas["Member"];
export type MemberRole = Member["role"];
export type Node = Schemas["Node"];
export type Gpu = Schemas["Gpu"];
export type JoinToken = Schemas["JoinToken"];
export type Cluster = Schemas["Cluster"];
export type Image = Schemas["Image"];
export type ImageBody = Schemas["ImageBodyRequest"];

export interface Page<T> {
  results: T[];
  next: string | null;
  previous: string | null;
}

export interface CellLevel {
  type: string;
  level: number;
  gpus: number;
  kind: string;
  words: string;
  is_node: boolean;
}

export interface Chain {
  chain: string;
  gpu_model: string;
  nodes: number;
  levels: CellLevel[];
  totals: { type: string; total: number; owned: number; left: number | null; bad: number }[];
}

export interface PinnedCell {
  name: string;
  cell_type: string;
  node: string;
  device: string;
}

export interface Cells {
  revision: number;
  source: "inventory" | "file";
  chains: Chain[];
  pins: (PinnedCell & { virtual_cluster: string | null })[];
}

export interface CellClaim {
  chain: string;
  cell_type: string;
  number: number;
}

export interface Assignment {
  revision: number;
  virtual_clusters: Record<
    string,
    { cells: CellClaim[]; quotas: Record<string, number>; pins: string[] }
  >;
  pins: PinnedCell[];
}

export interface CellProblem {
  code: string;
  message: string;
  path: string;
  details: Record<string, unknown>;
}

export interface TouchedJob {
  job_id: string;
  name: string;
  virtual_cluster: string;
  reason: Reason | null;
}

export interface Shortfall {
  virtual_cluster: string;
  chain: string;
  cell_type: string;
  asked: number;
  got: number;
}

export interface AssignmentCheck {
  fits: boolean;
  errors: CellProblem[];
  left: { chain: string; type: string; total: number; left: number }[];
  downgraded: TouchedJob[];
  restored: TouchedJob[];
  shortfalls: Shortfall[];
}
