import { useMutation, useQueryClient } from "@tanstack/react-query";
import { retryNow } from "@/api/jobs";
import type { Job } from "@/api/types";
import { Button } from "@mantine/core";
import { tellDone, tellError } from "@/ui/notify";

/** Ends the pause before the next attempt. Shown while there is one, to who may stop the job. */
export function RetryNow({ job }: { job: Job }) {
  const queries = useQueryClient();
  const retry = useMutation({
    mutationFn: () => retryNow(job.id),
    onSuccess: (changed) => {
      queries.setQueryData(["job", job.id], changed);
      tellDone(`${changed.name} starts again as soon as it has room`);
    },
    onError: (error) => tellError(error, "The job was not retried"),
  });
  if (job.state !== "WAITING" || job.retry_at === null || !job.may_stop) return null;
  return (
    <Button
      size="compact-xs"
      variant="default"
      loading={retry.isPending}
      onClick={() => retry.mutate()}
    >
      Retry now
    </Button>
  );
}
