import type { Job, Reason } from "@/api/types";
import { sentence } from "./words";
import css from "./Story.module.css";

/** Why it waits or how it ended, in one sentence with its numbers. */
export function Story({ job }: { job: Job }) {
  const reason = job.state === "SUCCEEDED" ? null : (job.wait_reason ?? job.exit_reason);
  return (
    <div className={css.story} data-state={job.state} role="status">
      <p>{sentence(job)}</p>
      {reason ? <Numbers reason={reason} /> : null}
    </div>
  );
}

function Numbers({ reason }: { reason: Reason }) {
  const numbers = Object.entries(reason.details).filter(
    (entry): entry is [string, number] => typeof entry[1] === "number",
  );
  if (numbers.length === 0) return null;
  return (
    <dl className={css.numbers}>
      {numbers.map(([name, value]) => (
        <div key={name}>
          <dt>{name.replaceAll("_", " ")}</dt>
          <dd className="num">{value.toLocaleString("en")}</dd>
        </div>
      ))}
    </dl>
  );
}
