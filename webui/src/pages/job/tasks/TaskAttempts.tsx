import { useQuery } from "@tanstack/react-query";
import { taskAttempts } from "@/api/jobs";
import { rawLog } from "@/api/logs";
import type { Attempt, Job, Stream, Task } from "@/api/types";
import { exitWords, taskName } from "@/format/names";
import { StateBadge } from "@/ui/StateBadge";
import { Elapsed } from "@/ui/Time";
import { titleOf } from "../failure/words";
import css from "./TaskAttempts.module.css";

const STREAMS: Stream[] = ["stdout", "stderr"];

/** Every attempt of one task with its end and its own log files; nothing where there was one. */
export function TaskAttempts({ job, task }: { job: Job; task: Task }) {
  const more = task.attempt !== null && (task.attempt.index > 1 || task.attempt.retry > 0);
  const { data } = useQuery({ ...taskAttempts(job.id, task.rank), enabled: more });
  if (!more || !data) return null;
  return (
    <section aria-label="All attempts">
      <h3 className={css.title}>All attempts</h3>
      <ol className={css.attempts}>
        {data.map((attempt) => (
          <Row
            key={attempt.id}
            name={taskName(task)}
            attempt={attempt}
            kept={!job.logs_deleted_at}
          />
        ))}
      </ol>
    </section>
  );
}

function Row({ name, attempt, kept }: { name: string; attempt: Attempt; kept: boolean }) {
  const number = attempt.retry > 0 ? `${attempt.index}.${attempt.retry}` : `${attempt.index}`;
  const ended = attempt.error_code || exitWords(attempt);
  return (
    <li className={css.attempt}>
      <span className="num">{number}</span>
      <StateBadge state={attempt.state} />
      <span className={css.node}>{attempt.node}</span>
      <span className={css.time}>
        <Elapsed start={attempt.started_at} end={attempt.finished_at} />
      </span>
      <span className={css.end}>
        {attempt.diagnosis ? titleOf(attempt.diagnosis) : ended}
        {kept
          ? STREAMS.map((stream) => (
              <a
                key={stream}
                className={css.log}
                href={rawLog(attempt.id, stream)}
                download={`${name}.${number}.${stream}.log`}
              >
                {stream}
              </a>
            ))
          : null}
      </span>
    </li>
  );
}
