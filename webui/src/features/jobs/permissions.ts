import type { JobState, JobSummary, Me } from "@/api/types";

const FINISHED_STATES: JobState[] = ["SUCCEEDED", "FAILED", "STOPPED"];

export function isFinished(state: JobState): boolean {
  return FINISHED_STATES.includes(state);
}

export function canStop(state: JobState): boolean {
  return state === "WAITING" || state === "RUNNING";
}

/** Whether a stop would be allowed and mean something: the owner, VC admins
 * and administrators, while the job is not over. The server decides; this only hides the button. */
export function mayStop(job: JobSummary, user: Me | null): boolean {
  if (!user || !canStop(job.state)) return false;
  const manages = user.virtual_clusters.some(
    (vc) => vc.name === job.virtual_cluster && vc.role === "admin",
  );
  return user.is_admin || manages || job.owner === user.username;
}
