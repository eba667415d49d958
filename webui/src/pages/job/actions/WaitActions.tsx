import { runOpportunistically } from "@/api/jobs";
import type { Job } from "@/api/types";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { PriorityButton } from "./PriorityEditor";
import { EndRetriesButton, RetryNowButton } from "./Retries";
import { useJobChange } from "./useJobChange";
import css from "./actions.module.css";

/** What can be done about a wait, as buttons below the sentence that explains it. */
export function WaitActions({ job }: { job: Job }) {
  return (
    <div className={css.actions}>
      <OpportunisticButton job={job} />
      <PriorityButton job={job} />
      <RetryNowButton job={job} />
      {job.retry_at === null ? null : <EndRetriesButton job={job} />}
    </div>
  );
}

function OpportunisticButton({ job }: { job: Job }) {
  const run = useJobChange(
    () => runOpportunistically(job.id),
    ({ name }) => `${name} starts as opportunistic`,
  );
  const details = job.wait_reason?.details;
  const possible = details && "opportunistic_now" in details && details.opportunistic_now;
  if (!possible || !job.may_stop || job.state !== "WAITING" || job.pinned_cell) return null;
  return (
    <ConfirmButton
      size="compact-sm"
      question={`Run ${job.name} as opportunistic?`}
      explanation="It starts now on GPUs that no job uses. When their owners need them it is preempted: it saves its work if it handles its checkpoint signal, and waits again. While it waits, you can give it its guarantee back by setting a priority."
      verb="Run now"
      busy={run.isPending}
      onConfirm={() => run.mutate()}
    >
      Run now as opportunistic
    </ConfirmButton>
  );
}
