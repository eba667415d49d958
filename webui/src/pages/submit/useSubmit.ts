import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { isApiError } from "@/api/errors";
import { check, submit } from "@/api/jobs";
import type { CheckResult, SpecError } from "@/api/types";
import { freshToken } from "@/format/token";
import { tellDone } from "@/ui/notify";

export interface Verdict {
  /** The text it is about. */
  text: string;
  result: CheckResult;
}

/** Check and submit, with what the server said of the text. */
export function useSubmit(text: string, onSubmitted: () => void) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [verdict, setVerdict] = useState<Verdict | null>(null);
  // One token per text: a submit that is repeated after a lost answer is the same job.
  const [token, setToken] = useState({ text, value: freshToken() });
  if (token.text !== text) setToken({ text, value: freshToken() });

  const checking = useMutation({
    mutationFn: check,
    onSuccess: (result, about) => setVerdict({ text: about, result }),
  });
  const submitting = useMutation({
    mutationFn: (about: string) => submit(about, token.value),
    onSuccess: async (job) => {
      onSubmitted();
      queries.setQueryData(["job", job.id], job);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      tellDone(`${job.name} is submitted`);
      await navigate({ to: "/jobs/$id", params: { id: job.id } });
    },
    onError: (error, about) => {
      const errors = specErrors(error);
      if (errors) {
        setVerdict({
          text: about,
          result: { valid: false, errors, summary: null, forecast: null },
        });
      }
    },
  });
  const refused = submitting.error && !specErrors(submitting.error) ? submitting.error : null;
  return {
    verdict,
    failure: checking.error ?? refused,
    check: () => checking.mutate(text),
    checking: checking.isPending,
    submit: () => submitting.mutate(text),
    submitting: submitting.isPending,
  };
}

/** The errors of a refused job file; undefined for any other refusal. */
function specErrors(error: unknown): SpecError[] | undefined {
  if (!isApiError(error)) return undefined;
  const { errors } = error.details;
  return Array.isArray(errors) ? (errors as SpecError[]) : undefined;
}
