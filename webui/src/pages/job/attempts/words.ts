import type { JobAttempt } from "@/api/types";

export function outcomeWord({ outcome }: JobAttempt): string {
  return outcome.charAt(0) + outcome.slice(1).toLowerCase();
}

const AFTER: Record<string, string> = {
  free: "Tried again; that is not counted against jobRetryCount.",
  counted: "Tried again; that counts against jobRetryCount.",
  preempted:
    "It made room for others and went back to its place in the queue; no retry is counted.",
};

/** Why another attempt followed; "" where none did. */
export function afterWords({ retry }: JobAttempt): string {
  return retry ? (AFTER[retry] ?? "Tried again.") : "";
}
