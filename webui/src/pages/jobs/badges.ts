import type { JobSummary } from "@/api/types";
import { count } from "@/format/size";

export interface Badge {
  word: string;
  /** The sentence behind the word. */
  about: string;
  tone: "calm" | "mind";
}

/** What is out of the ordinary about how a job runs or waits. */
export function badgesOf(job: JobSummary): Badge[] {
  return [...standing(job), ...tasksWaiting(job), ...history(job)];
}

function standing({ priority, downgraded, preempting }: JobSummary): Badge[] {
  if (preempting) {
    const about = "It was asked to make room, and restarts from its old place in the queue.";
    return [{ word: "being preempted", about, tone: "mind" }];
  }
  if (downgraded)
    return [{ word: "runs as opportunistic", about: downgraded.message, tone: "mind" }];
  if (priority >= 0) return [];
  const about = "It uses cells that nobody needs now, and makes room when their owners come.";
  return [{ word: "opportunistic", about, tone: "calm" }];
}

function tasksWaiting({ incremental, unplaced, placed_at }: JobSummary): Badge[] {
  if (!incremental || !unplaced || placed_at === null) return [];
  const about = "Its tasks start one by one, as each finds a place.";
  return [{ word: `waiting for ${count(unplaced, "task")}`, about, tone: "mind" }];
}

function history({ preemptions }: JobSummary): Badge[] {
  if (!preemptions) return [];
  const word = preemptions === 1 ? "preempted once" : `preempted ${preemptions} times`;
  const about = "It made room for others. That counts as no retry, and it kept its place.";
  return [{ word, about, tone: "calm" }];
}
