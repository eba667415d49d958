import { useQuery } from "@tanstack/react-query";
import { jobAttempts } from "@/api/jobs";
import type { Job, JobAttempt } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { formatDateTime } from "@/format/time";
import { usePoll } from "@/live/live";
import { EmptyState } from "@/ui/EmptyState";
import { FormattedMessage } from "@/ui/FormattedMessage";
import { LinkButton } from "@/ui/LinkButton";
import { QueryState } from "@/ui/QueryState";
import { StateBadge } from "@/ui/StateBadge";
import { ElapsedTime, RelativeTime } from "@/ui/Time";
import { ListExport } from "@/ui/table/TableExport";
import { Evidence } from "../failure/Evidence";
import { DiagnosisDetails } from "../failure/FailurePanel";
import { diagnosisTitle, repeatsDiagnosis } from "../failure/labels";
import { CompareAttempts } from "./CompareAttempts";
import css from "./AttemptsTab.module.css";

/** Every placement of the whole gang, newest first: how each ended, and why another followed. */
export function AttemptsTab({ job, compare }: { job: Job; compare?: string | undefined }) {
  const poll = usePoll();
  const list = useQuery({
    ...jobAttempts(job.id),
    refetchInterval: isFinished(job.state) ? false : poll,
  });
  return (
    <QueryState query={list} what="attempts" rows={4}>
      {(data) => {
        if (data.length === 0) {
          return <EmptyState title="No attempt yet">The job waits for its first place.</EmptyState>;
        }
        const pair = compare?.split("-").map(Number);
        return (
          <div className={css.attempts} tabIndex={0} role="group" aria-label="Attempts">
            {pair ? (
              <CompareAttempts job={job} pair={[pair[0] ?? 1, pair[1] ?? 1]} />
            ) : job.attempt > 1 ? (
              <CompareButton job={job} />
            ) : null}
            <ol className={css.list}>
              {data.map((attempt) =>
                attempt.finished_at ? (
                  <EndedAttempt
                    key={attempt.index}
                    job={job}
                    attempt={attempt}
                    finished_at={attempt.finished_at}
                  />
                ) : (
                  <CurrentAttempt key={attempt.index} job={job} />
                ),
              )}
            </ol>
            <ListExport list={`jobs/${job.id}/attempts`} label="Attempts" />
          </div>
        );
      }}
    </QueryState>
  );
}

/** Puts the newest two attempts side by side. */
function CompareButton({ job }: { job: Job }) {
  return (
    <LinkButton
      to="/jobs/$id"
      params={{ id: job.id }}
      search={{ tab: "attempts", compare: `${job.attempt - 1}-${job.attempt}` }}
      variant="default"
      className={css.button}
    >
      Compare two attempts
    </LinkButton>
  );
}

function CurrentAttempt({ job }: { job: Job }) {
  const start = job.begun_at ?? job.started_at;
  return (
    <li className={css.attempt}>
      <header className={css.head}>
        <h2>Attempt {job.attempt}</h2>
        <StateBadge state={job.state} />
        <span className={css.times}>
          {start ? (
            <>
              running for <ElapsedTime start={start} end={null} />,{" "}
            </>
          ) : null}
          {job.placed_at ? (
            <>
              placed <RelativeTime at={job.placed_at} />
            </>
          ) : null}
        </span>
      </header>
    </li>
  );
}

interface EndedAttemptProps {
  job: Job;
  attempt: JobAttempt;
  finished_at: string;
}

function EndedAttempt({ job, attempt, finished_at }: EndedAttemptProps) {
  const { diagnosis, reason } = attempt;
  const after = retryNote(attempt);
  return (
    <li className={css.attempt}>
      <header className={css.head}>
        <h2>Attempt {attempt.index}</h2>
        <span className={css.outcome} data-outcome={attempt.outcome}>
          {outcomeLabel(attempt)}
        </span>
        <span className={css.times} title={`Placed ${formatDateTime(attempt.placed_at)}`}>
          {attempt.started_at ? (
            <>
              ran for <ElapsedTime start={attempt.started_at} end={finished_at} />
            </>
          ) : (
            "never ran"
          )}
          , ended <RelativeTime at={finished_at} />
        </span>
      </header>
      {diagnosis ? (
        <>
          <p>
            <b>{diagnosisTitle(diagnosis)}</b>
            {diagnosis.task ? <> on {diagnosis.task}</> : null}.{" "}
            <FormattedMessage text={diagnosis.remedy} />
          </p>
          <Evidence job={job} attempt={attempt.index} diagnosis={diagnosis} />
        </>
      ) : null}
      {reason && !(diagnosis && repeatsDiagnosis(reason, diagnosis)) ? (
        <p className={css.reason}>{reason.message}</p>
      ) : null}
      {after ? <p className={css.reason}>{after}</p> : null}
      {diagnosis ? <DiagnosisDetails diagnosis={diagnosis} /> : null}
    </li>
  );
}

function outcomeLabel({ outcome }: JobAttempt): string {
  return outcome.charAt(0) + outcome.slice(1).toLowerCase();
}

const RETRY_NOTES: Record<string, string> = {
  free: "Tried again; that is not counted against jobRetryCount.",
  counted: "Tried again; that counts against jobRetryCount.",
  preempted: "It was preempted and went back to its place in the queue; no retry is counted.",
};

/** Why another attempt followed; "" where none did. */
function retryNote({ retry }: JobAttempt): string {
  return retry ? (RETRY_NOTES[retry] ?? "Tried again.") : "";
}
