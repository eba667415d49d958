import { Button } from "@mantine/core";
import { endRetries, retryNow } from "@/api/jobs";
import type { Job } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { ConfirmButton } from "@/ui/ConfirmButton";
import { useJobChange } from "./useJobChange";

/** Ends the pause before the next attempt. Shown while there is one, to who may stop the job. */
export function RetryNowButton({ job }: { job: Job }) {
  const retry = useJobChange(
    () => retryNow(job.id),
    ({ name }) => `${name} starts again as soon as its resources are free`,
  );
  if (job.state !== "WAITING" || job.retry_at === null || !job.may_stop) return null;
  return (
    <Button
      size="compact-sm"
      variant="default"
      loading={retry.isPending}
      onClick={() => retry.mutate()}
    >
      Retry now
    </Button>
  );
}

/** Shown for a job that failed before and is, or may be, tried again. */
export function EndRetriesButton({ job }: { job: Job }) {
  const end = useJobChange(
    () => endRetries(job.id),
    ({ name, state }) =>
      state === "FAILED" ? `${name} is not tried again` : `This attempt of ${name} is its last`,
  );
  const failed = job.retries_used + job.free_retries > 0;
  if (!failed || job.retries_ended || !job.may_stop || isFinished(job.state)) return null;
  const inPause = job.state === "WAITING" && job.placed_at === null;
  return (
    <ConfirmButton
      size="compact-sm"
      question={`End the retries of ${job.name}?`}
      explanation={
        inPause
          ? "It fails now, with the reason of its last attempt. Its logs are kept."
          : "The present attempt goes on; if it fails, the job fails. After a preemption it is still started again."
      }
      verb="End the retries"
      busy={end.isPending}
      onConfirm={() => end.mutate()}
    >
      End the retries
    </ConfirmButton>
  );
}
