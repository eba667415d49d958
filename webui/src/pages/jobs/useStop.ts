import { useMutation, useQueryClient } from "@tanstack/react-query";
import { stop } from "@/api/jobs";
import { tellDone, tellError } from "@/ui/notify";

export function useStop(id: string) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: () => stop(id),
    onSuccess: (job) => {
      queries.setQueryData(["job", id], job);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      void queries.invalidateQueries({ queryKey: ["job", id] });
      tellDone(`${job.name} is being stopped`);
    },
    onError: (error) => tellError(error, "The job was not stopped"),
  });
}
