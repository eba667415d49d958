import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { isApiError } from "@/api/errors";
import { check, submit } from "@/api/jobs";
import { randomToken } from "@/api/repeating";
import type { CheckResult, JobFileError } from "@/api/types";
import { notifySuccess } from "@/ui/notify";

export interface CheckOutcome {
  /** The text it is about. */
  text: string;
  result: CheckResult;
}

/** The check's note on a storage that is not mounted. */
export const STORAGE_WARNING_CODE = "storage_not_mounted";

export const losesStorage = ({ notes }: CheckResult) =>
  notes.some(({ code }) => code === STORAGE_WARNING_CODE);

/** Check and submit, with what the server said of the text. */
export function useSubmit(text: string, onSubmitted: () => void) {
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [verdict, setVerdict] = useState<CheckOutcome | null>(null);
  const [refusal, setRefusal] = useState<unknown>(null);
  // One token per text: a submit that is repeated after a lost answer is the same job.
  const [token, setToken] = useState({ text, value: randomToken() });
  if (token.text !== text) setToken({ text, value: randomToken() });

  const checking = useMutation({
    mutationFn: check,
    onSuccess: (result, about) => setVerdict({ text: about, result }),
  });
  // For this text alone: another one may lose another storage.
  const [accepted, setAccepted] = useState<string | null>(null);
  const submitting = useMutation({
    mutationFn: async (about: string) => {
      if (accepted !== about && /storage/i.test(about)) {
        const result = await check(about);
        if (losesStorage(result)) return setVerdict({ text: about, result }) ?? null;
      }
      return submit(about, token.value, accepted === about);
    },
    onSuccess: async (job) => {
      if (!job) return;
      onSubmitted();
      queries.setQueryData(["job", job.id], job);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      notifySuccess(`${job.name} is submitted`);
      await navigate({ to: "/jobs/$id", params: { id: job.id } });
    },
    onError: async (error, about) => {
      const result = await errorsOf(error, about);
      if (result) setVerdict({ text: about, result });
      else setRefusal(error);
    },
  });
  return {
    verdict,
    failure: checking.error ?? refusal,
    check: () => {
      setRefusal(null);
      checking.mutate(text);
    },
    checking: checking.isPending,
    submit: () => {
      setRefusal(null);
      submitting.mutate(text);
    },
    acceptLoss: (yes: boolean) => setAccepted(yes ? text : null),
    lossAccepted: accepted === text,
    submitting: submitting.isPending,
  };
}

/** The mistakes in the text that made the server refuse it, with their places: a refusal reports
 * those of the file's form, a check also those of its sense. null: the text is not to blame. */
async function errorsOf(error: unknown, text: string): Promise<CheckResult | null> {
  if (!isApiError(error) || error.status >= 500) return null;
  const { errors } = error.details;
  if (Array.isArray(errors)) {
    const none = { notes: [], summary: null, forecast: null };
    return { valid: false, errors: errors as JobFileError[], ...none };
  }
  const result = await check(text).catch(() => null);
  return result?.valid === false ? result : null;
}
