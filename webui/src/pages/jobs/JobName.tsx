import { Link } from "@tanstack/react-router";
import type { JobSummary, Reason } from "@/api/types";
import { useNow } from "@/format/now";
import { about, inAbout } from "@/format/time";
import { numbersOf } from "@/ui/why/numbers";
import { JobBadges } from "./JobBadges";
import css from "./JobName.module.css";

/** The name, and below it what one would open the job for: why it waits or failed. */
export function JobName({ job }: { job: JobSummary }) {
  const reason = reasonShown(job);
  return (
    <span className={css.cell}>
      <span className={css.line}>
        <Link to="/jobs/$id" params={{ id: job.id }} className={css.name}>
          {job.name}
        </Link>
        {job.attempt > 1 ? <span className={css.attempt}>attempt {job.attempt}</span> : null}
        <JobBadges job={job} />
        {job.state === "WAITING" && job.wait_reason ? <Start reason={job.wait_reason} /> : null}
      </span>
      {reason ? (
        <span className={css.reason} title={reason}>
          {reason}
        </span>
      ) : null}
    </span>
  );
}

function Start({ reason }: { reason: Reason }) {
  const now = useNow();
  const start = numbersOf(reason).expected_start;
  if (start === null) return null;
  return (
    <time className={css.start} dateTime={new Date(start).toISOString()} title={about(start, now)}>
      starts {inAbout(start, now)}
    </time>
  );
}

function reasonShown(job: JobSummary): string | undefined {
  if (job.state === "WAITING") return job.wait_reason?.message ?? preparing(job);
  if (job.preempting) return job.wait_reason?.message;
  if (job.state === "FAILED") return job.exit_reason?.message;
  return undefined;
}

function preparing(job: JobSummary): string | undefined {
  return job.placed_at ? "Placed; its nodes prepare the containers." : undefined;
}
