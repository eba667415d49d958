import type { Diagnosis, Job, Reason } from "@/api/types";
import { pluralize } from "@/format/numbers";
import { formatDuration } from "@/format/time";

/** What a person calls the failure; the code's own name is for the small print. */
export function diagnosisTitle({ title, category, exit_code }: Diagnosis): string {
  if (category !== "No signature") return title || category;
  return exit_code === null ? "Failed, and no rule knows why" : `Exited with code ${exit_code}`;
}

/** Whether the newest failure is the first thing to know about the job: it ended so, or it is
 * about to be tried again. One that runs again or ended well has got over it. */
export function isLatestState(job: Job): boolean {
  return job.state === "FAILED" || (job.state === "WAITING" && job.placed_at === null);
}

/** Whether the panel says all that the sentence over the job would. */
export function isShownByFailurePanel(job: Job): boolean {
  if (!job.diagnosis || job.diagnosing || !isLatestState(job)) return false;
  return job.state === "FAILED" || job.wait_reason?.code === "retry";
}

/** What becomes of the job after this failure, in one sentence. `now` in ms. */
export function retryText(job: Job, diagnosis: Diagnosis, now: number): string {
  if (job.state === "FAILED") return noRetryText(job, diagnosis);
  if (job.state !== "WAITING") return `It was tried again: attempt ${job.attempt} is on its way.`;
  const where = diagnosis.blame === "node" ? ", elsewhere" : "";
  const when = retryTimeText(job.retry_at, now);
  return `It will be tried again${when}${where}. ${retryCountText(job, diagnosis)}`;
}

function retryTimeText(retry_at: string | null, now: number): string {
  const seconds = retry_at ? (Date.parse(retry_at) - now) / 1000 : 0;
  return seconds > 0
    ? ` in ${formatDuration(Math.ceil(seconds))}`
    : " as soon as its resources are free";
}

function retryCountText(job: Job, { reaction }: Diagnosis): string {
  const used = pluralize(job.retries_used, "retry", "retries");
  return reaction === "RETRY_TO_MAX"
    ? `${used} of its jobRetryCount used.`
    : "This is not counted against its jobRetryCount.";
}

function noRetryText(job: Job, { reaction }: Diagnosis): string {
  switch (reaction) {
    case "NEVER_RETRY":
      return "Not retried: it would fail in the same way.";
    case "RETRY_TO_MAX":
      return job.retries_used === 0
        ? "Not retried, because its job file allows no retries (jobRetryCount)."
        : `Not retried, because ${pluralize(job.retries_used, "retry", "retries")} used up its jobRetryCount.`;
    default:
      return `Not retried any more, after ${pluralize(job.free_retries, "retry", "retries")} for such failures.`;
  }
}

/** Whether a reason is this diagnosis in other words, as that of a job's end most often is. */
export function repeatsDiagnosis({ message }: Reason, diagnosis: Diagnosis): boolean {
  const shown = [diagnosisTitle(diagnosis), diagnosis.evidence.text, diagnosis.remedy];
  const said = message.toLowerCase();
  return shown.some((part) => part !== "" && said.includes(part.toLowerCase()));
}

const LONGEST_SEARCH = 200;

/** What to look for in the log to come to the evidence; undefined where no log line is it. */
export function evidenceSearch({ evidence }: Diagnosis): string | undefined {
  const text = evidence.source === "log" ? evidence.text.trim() : "";
  // A character that could not be decoded stands for bytes that no search would find.
  const [readable = ""] = text.split("\ufffd").sort((a, b) => b.length - a.length);
  return readable.slice(0, LONGEST_SEARCH).trim() || undefined;
}
