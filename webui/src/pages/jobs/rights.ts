import type { JobSummary, Me } from "@/api/types";
import { canStop } from "../job/words";

/** Whether a stop would be allowed and mean something: the owner, managers of the virtual cluster
 * and administrators, while the job is not over. The server decides; this only hides the button. */
export function mayStop(job: JobSummary, user: Me | null): boolean {
  if (!user || !canStop(job.state)) return false;
  const manages = user.virtual_clusters.some(
    (vc) => vc.name === job.virtual_cluster && vc.role === "manager",
  );
  return user.is_admin || manages || job.owner === user.username;
}
