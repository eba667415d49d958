import type { JobAttempt } from "@/api/types";
import type { Mark } from "@/features/metrics/marks";

const MOST = 50;
const seconds = (moment: string) => Date.parse(moment) / 1000;

/** When attempts of the job ended and further ones began, oldest first; of many the newest. */
export function attemptMarks(attempts: JobAttempt[]): Mark[] {
  const found = attempts.flatMap(({ index, outcome, started_at, finished_at }) => {
    const began = index > 1 && started_at ? [{ at: seconds(started_at), label: `#${index}` }] : [];
    const last = index === attempts.length;
    const ended =
      finished_at && !last
        ? [{ at: seconds(finished_at), label: (outcome ?? "ended").toLowerCase() }]
        : [];
    return [...began, ...ended];
  });
  return found.sort((a, b) => a.at - b.at).slice(-MOST);
}
