// Short names for the shapes of the REST API, which are generated from the server's own schema.
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Info = Schemas["Info"];
export type Me = Schemas["Me"];
export type User = Schemas["User"];
export type NewUser = Schemas["UserBodyRequest"];
export type Group = Schemas["Group"];
export type GroupRole = Schemas["GroupRole"];
export type GroupBody = Schemas["GroupBodyRequest"];
export type ImportedUser = Schemas["ImportedUser"];
export type ApiToken = Schemas["Token"];
export type TokenScope = ApiToken["scope"];
/** A token with the user, service account or job that it was made for. */
export type OwnedToken = Schemas["OwnedToken"];
export type ServiceAccount = Schemas["ServiceAccount"];
export type ServiceAccountBody = Schemas["ServiceAccountBodyRequest"];
export type ServiceAccountChange = Schemas["PatchedServiceAccountChangeRequest"];
export type ServiceAccountRole = NonNullable<ServiceAccountBody["role"]>;
export type ServiceTokenScope = NonNullable<Schemas["ServiceTokenBodyRequest"]["scope"]>;
export type SecurityKey = Schemas["SecurityKey"];
export type Policy = Schemas["Policy"];
export type PolicyCheck = Schemas["PolicyCheck"];
export type PolicyParameter = Schemas["PolicyParameter"];
export type Visibility = Schemas["VirtualCluster"]["job_visibility"];

/** Why something is as it is: a stable code, one sentence, the numbers behind it. */
export type Reason = Schemas["Reason"];
/** Why a job waits: what is in `details` follows from `code`. */
export type WaitReason = Schemas["WaitReason"];
/** What would happen to a job file that is submitted now: it starts, or why it would wait. */
export type ForecastReason = Schemas["ForecastReason"];
/** The numbers in every reason of the scheduler. */
export type SchedulingDetails = Schemas["SchedulingDetails"];
export type UsingJob = Schemas["UsingJob"];
export type JobSummary = Schemas["JobSummary"];
export type JobState = JobSummary["state"];
export type Job = Schemas["Job"];
export type TaskRole = Schemas["TaskRole"];
export type Task = Schemas["Task"];
export type TaskState = Task["state"];
export type Attempt = Schemas["Attempt"];
export type JobEvent = Schemas["Event"];
export type CheckResult = Schemas["Check"];
export type JobFileError = Schemas["Problem"];

export type LogChunk = Schemas["LogChunk"];
/** A line of a log that was searched, and where in it the match stands. */
export type LogMatch = Schemas["Match"];
export type LogPage = Schemas["JobLogs"];
export type Stream = LogChunk["stream"];
export type Metrics = Schemas["JobMetrics"];
/** Seconds since the epoch, and two values. */
/** [time, …]; null: not measured. */
export type Point = (number | null)[];

export type VirtualCluster = Schemas["VirtualCluster"];
export type Member = Schemas["Member"];
export type MemberRole = Member["role"];
export type Node = Schemas["Node"];
export type Gpu = Schemas["Gpu"];
export type JoinToken = Schemas["JoinToken"];
export type Cluster = Schemas["Cluster"];
export type Image = Schemas["Image"];
export type Prefetch = Schemas["Prefetch"];
export type PrefetchBody = Schemas["PrefetchBodyRequest"];
export type ImageBody = Schemas["ImageBodyRequest"];
/** A folder that jobs mount by name; only admins see where it lies. */
export type App = Schemas["App"];
export type NewAppBody = Schemas["NewAppBodyRequest"];
export type Storage = Schemas["Storage"];
export type StorageFile = Schemas["StorageFile"];
export type Dataset = Schemas["Dataset"];
export type ArchivedJobSummary = Schemas["ArchivedJobSummary"];
export type ArchivedJob = Schemas["ArchivedJob"];
export type ArchivedAttempt = Schemas["ArchivedAttempt"];
export type ArchivedEvent = Schemas["ArchivedEvent"];
export type DatasetBody = Schemas["DatasetBodyRequest"];
export type StorageBody = Schemas["StorageBodyRequest"];

/** Who did what to whom, from where; `before` and `after` hold what differs. */
export type AuditEntry = Schemas["AuditEntry"];

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
export type RegistryCredential = Schemas["RegistryCredential"];
export type JobUse = Schemas["JobUse"];
export type NodeFault = Schemas["Fault"];
export type Maintenance = Schemas["Maintenance"];
export type NodeCheck = Schemas["NodeCheck"];

/** A job file made of something foreign. */
export type Converted = Schemas["Converted"];

/** Working files that were uploaded. */
export type Archive = Schemas["Archive"];
export type Announcement = Schemas["Announcement"];
export type Notification = Schemas["Notification"];
export type NotificationPreferences = Schemas["NotificationPreferences"];
export type NotificationChannel = NotificationPreferences["channels"][number]["name"];
export type Webhook = Schemas["Webhook"];
export type Delivery = Schemas["NotificationDelivery"];

/** A program that waits to be logged in. */
export type DeviceLogin = Schemas["DeviceLogin"];
export type BrowserSession = Schemas["Session"];
