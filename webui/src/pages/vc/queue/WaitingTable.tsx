import type { WaitingJob } from "@/api/vc";
import { useNow } from "@/format/now";
import { JobName } from "./JobName";
import { startWords } from "./words";
import css from "./WaitingTable.module.css";

/** The queue in its order: who needs what, why it waits, and when it will start. */
export function WaitingTable({ waiting }: { waiting: WaitingJob[] }) {
  const now = useNow();
  return (
    <table className={css.table}>
      <thead>
        <tr>
          <th scope="col">
            <span className="sr-only">Position</span>#
          </th>
          <th scope="col">Job</th>
          <th scope="col">Why it waits</th>
          <th scope="col">Start</th>
        </tr>
      </thead>
      <tbody>
        {waiting.map((each) => (
          <Row key={each.position} waiting={each} now={now} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ waiting, now }: { waiting: WaitingJob; now: number }) {
  const { job, position, needs_words, reason, reserved } = waiting;
  const start = startWords(waiting, now);
  return (
    <tr>
      <td className={css.position}>{position}</td>
      <td>
        <JobName job={job} className={css.name} />
        <span className={css.sub}>{needs_words}</span>
        <span className={css.sub}>
          {job.owner ? `${job.owner} · ` : ""}
          {job.priority_class} {job.priority}
        </span>
      </td>
      <td className={css.why}>
        {reason?.message ?? (job.id ? "The scheduler looks at it in its next round." : "–")}
      </td>
      <td>
        <span className={css.start}>
          {start.at}
          {reserved ? <span className={css.reserved}>reserved</span> : null}
        </span>
        <span className={css.sub}>{start.far}</span>
        {start.where ? <span className={css.sub}>on {start.where}</span> : null}
      </td>
    </tr>
  );
}
