import { useMutation, useQueryClient } from "@tanstack/react-query";
import { stop } from "@/api/jobs";
import { notifySuccess, notifyError } from "@/ui/notify";

export function useStopJob(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => stop(id),
    onSuccess: (job) => {
      queries.setQueryData(["job", id], job);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["job", id] });
      notifySuccess(`${job.name} is being stopped`);
    },
    onError: (error) => notifyError(error, "The job was not stopped"),
  });
}
