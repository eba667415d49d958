import { Link } from "@tanstack/react-router";
import type { QueuedJob } from "@/api/virtualClusters";
import { pluralize } from "@/format/numbers";

/** A link to a job, or what everybody may know of one that its reader may not see. */
export function QueuedJobName({
  job,
  className,
}: {
  job: QueuedJob;
  className?: string | undefined;
}) {
  if (job.id === null)
    return <span className={`${className ?? ""} dim`}>{queuedJobName(job)}</span>;
  return (
    <Link to="/jobs/$id" params={{ id: job.id }} className={`${className ?? ""} link`}>
      {job.name}
    </Link>
  );
}

export function queuedJobName(job: QueuedJob): string {
  return job.name ?? `another job, ${pluralize(job.gpus, "GPU")}`;
}
