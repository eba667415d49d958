import type { Job } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { formatDuration, formatExpectedTime } from "@/format/time";

export type Prediction = NonNullable<Job["prediction"]>;

/** What is expected of a job that started at `start` (ms; null: it did not), as one says a guess. */
export function expectation(
  { median_s, low_s, high_s }: Prediction,
  start: number | null,
  now: number,
): { text: string; note: string } {
  const latest = high_s ?? median_s;
  if (start !== null && now > start + latest * 1000) {
    return { text: "longer than expected", note: `it took ${formatDuration(median_s)} before` };
  }
  const said = (seconds: number) =>
    start === null
      ? formatDuration(seconds)
      : formatExpectedTime(Math.max(start + seconds * 1000, now), now);
  if (low_s === null || high_s === null) return { text: `about ${said(median_s)}`, note: "" };
  const [from, to] = [said(low_s), said(high_s)];
  return from === to
    ? { text: `about ${to}`, note: "in 80 % of cases" }
    : { text: `${from} to ${to}`, note: "in 80 % of cases" };
}

/** What a preemption probably costs, as it did jobs of the same name; null: not measured. */
export function restartCost({ leave_s, warmup_s }: Prediction): string | null {
  const parts = [
    leave_s === null ? "" : `${formatDuration(leave_s)} to save and leave`,
    warmup_s === null ? "" : `${formatDuration(warmup_s)} until it writes again`,
  ].filter(Boolean);
  return parts.length ? parts.join(", ") : null;
}

const LIKE = {
  name: "with this name",
  command: "with the same command",
  gpus: "on as many GPUs",
} as const;

/** What the prediction rests on. */
export function predictionSource({ source, jobs }: Prediction): string {
  return `By ${pluralize(jobs, "earlier job")} of its owner ${LIKE[source]}.`;
}
