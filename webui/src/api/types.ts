// Short names for the shapes of the REST API, which are generated from the server's own schema.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Info = Schemas["Info"];
export type Me = Schemas["Me"];
export type User = Schemas["User"];
export type NewUser = Schemas["UserBodyRequest"];
export type ApiToken = Schemas["Token"];
export type TokenScope = ApiToken["scope"];
export type Visibility = Schemas["VirtualCluster"]["job_visibility"];

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
/** A line of a log that was searched, and where in it the match stands. */
export type LogMatch = Schemas["Match"];
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

export type Cells = Schemas["Cells"];
export type VcGpus = Schemas["VcGpus"];
export type Chain = Schemas["Chain"];
export type CellLevel = Schemas["CellLevel"];
export type PinnedCell = Schemas["Pin"];
export type Assignment = Schemas["Assignment"];
export type CheckedAssignment = Schemas["CheckedAssignment"];
export type CellProblem = Schemas["AssignmentError"];
export type AffectedJob = Schemas["AffectedJob"];
export type Shortfall = Schemas["Shortfall"];
export type NodeForecast = Schemas["NodeForecast"];
export type ForecastJob = Schemas["ForecastJob"];

/** Why an attempt failed: one row of the table of failures, and what pointed at it. */
export type Diagnosis = Schemas["Diagnosis"];

/** A placement of the whole gang. */
export type JobAttempt = Schemas["JobAttempt"];
export type JobUse = Schemas["JobUse"];
export type NodeFault = Schemas["Fault"];

/** A job file made of something foreign. */
export type Converted = Schemas["Converted"];

/** Working files that were uploaded. */
export type Archive = Schemas["Archive"];
