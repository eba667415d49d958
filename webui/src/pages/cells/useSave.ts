import { useMutation, useQueryClient } from "@tanstack/react-query";
import { assignment, cells, saveAssignment } from "@/api/cells";
import { isApiError } from "@/api/errors";
import { virtualClusters } from "@/api/tenancy";
import { tellDone, tellError } from "@/ui/notify";
import type { Assignment } from "@/api/types";
import { toAssignment, type Draft } from "./draft";

/** Saves a draft whole or not at all. */
export function useSave(onSaved: (saved: Assignment) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ draft, revision }: { draft: Draft; revision: number }) =>
      saveAssignment(toAssignment(draft, revision)),
    onSuccess: (answer, { draft }) => {
      const saved = toAssignment(draft, answer.revision);
      onSaved(saved);
      queries.setQueryData(assignment.queryKey, saved);
      tellDone("Saved. Nothing was moved or ended.");
      void queries.invalidateQueries({ queryKey: virtualClusters.queryKey });
      return queries.invalidateQueries({ queryKey: cells.queryKey });
    },
    onError: (error) => {
      // Somebody was faster: what they saved tells the rest.
      if (isApiError(error, 409)) {
        void queries.invalidateQueries({ queryKey: cells.queryKey });
      } else tellError(error, "Nothing was saved");
    },
  });
}
