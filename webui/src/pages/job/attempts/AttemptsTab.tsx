import { useQuery } from "@tanstack/react-query";
import { jobAttempts } from "@/api/jobs";
import type { Job, JobAttempt } from "@/api/types";
import { fullTime } from "@/format/time";
import { usePoll } from "@/live/live";
import { Blank, Failure } from "@/ui/Blank";
import { Prose } from "@/ui/Prose";
import { SkeletonRows } from "@/ui/Skeleton";
import { StateBadge } from "@/ui/StateBadge";
import { Ago, Elapsed } from "@/ui/Time";
import { Evidence } from "../failure/Evidence";
import { SmallPrint } from "../failure/FailurePanel";
import { repeats, titleOf } from "../failure/words";
import { isOver } from "../words";
import { afterWords, outcomeWord } from "./words";
import css from "./AttemptsTab.module.css";

/** Every placement of the whole gang, newest first: how each ended, and why another followed. */
export function AttemptsTab({ job }: { job: Job }) {
  const poll = usePoll();
  const list = useQuery({
    ...jobAttempts(job.id),
    refetchInterval: isOver(job.state) ? false : poll,
  });
  if (list.isPending) return <SkeletonRows rows={4} />;
  if (!list.data)
    return <Failure error={list.error} what="attempts" retry={() => void list.refetch()} />;
  if (list.data.length === 0) {
    return <Blank title="No attempt yet">The job waits for its first place.</Blank>;
  }
  return (
    <ol className={css.attempts}>
      {list.data.map((attempt) =>
        attempt.finished_at ? (
          <Ended
            key={attempt.index}
            job={job}
            attempt={attempt}
            finished_at={attempt.finished_at}
          />
        ) : (
          <Present key={attempt.index} job={job} />
        ),
      )}
    </ol>
  );
}

function Present({ job }: { job: Job }) {
  const start = job.begun_at ?? job.started_at;
  return (
    <li className={css.attempt}>
      <header className={css.head}>
        <h3>Attempt {job.attempt}</h3>
        <StateBadge state={job.state} />
        <span className={css.times}>
          {start ? (
            <>
              runs for <Elapsed start={start} end={null} />,{" "}
            </>
          ) : null}
          {job.placed_at ? (
            <>
              placed <Ago at={job.placed_at} />
            </>
          ) : null}
        </span>
      </header>
    </li>
  );
}

interface EndedProps {
  job: Job;
  attempt: JobAttempt;
  finished_at: string;
}

function Ended({ job, attempt, finished_at }: EndedProps) {
  const { diagnosis, reason } = attempt;
  const after = afterWords(attempt);
  return (
    <li className={css.attempt}>
      <header className={css.head}>
        <h3>Attempt {attempt.index}</h3>
        <span className={css.outcome} data-outcome={attempt.outcome}>
          {outcomeWord(attempt)}
        </span>
        <span className={css.times} title={`Placed ${fullTime(attempt.placed_at)}`}>
          {attempt.started_at ? (
            <>
              ran for <Elapsed start={attempt.started_at} end={finished_at} />
            </>
          ) : (
            "never ran"
          )}
          , ended <Ago at={finished_at} />
        </span>
      </header>
      {diagnosis ? (
        <>
          <p>
            <b>{titleOf(diagnosis)}</b>
            {diagnosis.task ? <> on {diagnosis.task}</> : null}. <Prose text={diagnosis.remedy} />
          </p>
          <Evidence job={job} attempt={attempt.index} diagnosis={diagnosis} />
        </>
      ) : null}
      {reason && !(diagnosis && repeats(reason, diagnosis)) ? (
        <p className={css.reason}>{reason.message}</p>
      ) : null}
      {after ? <p className={css.reason}>{after}</p> : null}
      {diagnosis ? <SmallPrint diagnosis={diagnosis} /> : null}
    </li>
  );
}
