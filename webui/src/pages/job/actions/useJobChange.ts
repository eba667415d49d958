import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { Job } from "@/api/types";
import { notifyError, notifySuccess } from "@/ui/notify";

/** A change of a job by one request: its page shows the answer at once. */
export function useJobChange<Input = void>(
  change: (input: Input) => Promise<Job>,
  success: (job: Job) => string,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: (job) => {
      queries.setQueryData(["job", job.id], job);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      notifySuccess(success(job));
    },
    onError: (error) => notifyError(error),
  });
}
