import type { Job } from "@/api/types";
import { Why } from "@/ui/why/Why";
import { sentence } from "./words";
import css from "./Story.module.css";

/** Why it waits or how it ended, in one sentence with its numbers. */
export function Story({ job }: { job: Job }) {
  return (
    <div className={css.story} data-state={toneOf(job)} role="status">
      {job.wait_reason ? (
        <>
          {job.state === "WAITING" || job.preempting ? null : <p>{sentence(job)}</p>}
          <Why reason={job.wait_reason} vc={job.virtual_cluster} />
        </>
      ) : (
        <p>{sentence(job)}</p>
      )}
      {job.downgraded ? (
        <p className={css.more}>
          <b>Runs as opportunistic now.</b> {job.downgraded.message}
        </p>
      ) : null}
    </div>
  );
}

/** A running job that makes room, lost its guarantee or waits for tasks has something to tell. */
function toneOf({ state, wait_reason, downgraded, preempting }: Job): string {
  if (state !== "RUNNING") return state;
  if (preempting || downgraded) return "STOPPING";
  return wait_reason ? "WAITING" : state;
}
