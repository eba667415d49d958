import { Link } from "@tanstack/react-router";
import type { JobSummary } from "@/api/types";
import { useNow } from "@/format/now";
import { about, inAbout } from "@/format/time";
import { JobBadges } from "./JobBadges";
import { Tags } from "./Tags";
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
        <Tags tags={job.tags} most={3} />
        {job.expected_start ? <Start at={Date.parse(job.expected_start)} /> : null}
      </span>
      {reason ? (
        <span className={css.reason} title={reason}>
          {reason}
        </span>
      ) : null}
    </span>
  );
}

function Start({ at }: { at: number }) {
  const now = useNow();
  return (
    <time className={css.start} dateTime={new Date(at).toISOString()} title={about(at, now)}>
      starts {inAbout(at, now)}
    </time>
  );
}

function reasonShown(job: JobSummary): string | undefined {
  if (job.state === "WAITING") return job.wait_reason?.message ?? preparing(job);
  if (job.preempting) return job.wait_reason?.message;
  if (job.state === "FAILED") return failure(job);
  return undefined;
}

/** The diagnosis first: the line is cut where it is long. */
function failure({ diagnosis_title, exit_reason }: JobSummary): string | undefined {
  const told = exit_reason?.message;
  if (!diagnosis_title || told?.includes(diagnosis_title)) return diagnosis_title ?? told;
  return told ? `${diagnosis_title}. ${told}` : diagnosis_title;
}

function preparing(job: JobSummary): string | undefined {
  return job.placed_at ? "Placed; its nodes prepare the containers." : undefined;
}
