import { Link } from "@tanstack/react-router";
import type { QueuedJob } from "@/api/vc";
import { count } from "@/format/size";

/** A link to a job, or what everybody may know of one that its reader may not see. */
export function JobName({ job, className }: { job: QueuedJob; className?: string | undefined }) {
  if (job.id === null) return <span className={`${className ?? ""} dim`}>{nameOf(job)}</span>;
  return (
    <Link to="/jobs/$id" params={{ id: job.id }} className={`${className ?? ""} link`}>
      {job.name}
    </Link>
  );
}

export function nameOf(job: QueuedJob): string {
  return job.name ?? `another job, ${count(job.gpus, "GPU")}`;
}
