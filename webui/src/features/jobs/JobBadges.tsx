import { Tooltip } from "@mantine/core";
import type { JobSummary } from "@/api/types";
import { pluralize } from "@/format/numbers";
import css from "./JobBadges.module.css";

/** A word for each thing that is out of the ordinary about a job; why, on hover. */
export function JobBadges({ job }: { job: JobSummary }) {
  return badgesOf(job).map(({ label: word, description: about, tone }) => (
    <Tooltip key={word} label={about} multiline maw={320}>
      <span className={css.badge} data-tone={tone}>
        {word}
        <span className="sr-only">: {about}</span>
      </span>
    </Tooltip>
  ));
}

interface Badge {
  label: string;
  /** The sentence behind the word. */
  description: string;
  tone: "calm" | "mind";
}

/** What is out of the ordinary about how a job runs or waits. */
export function badgesOf(job: JobSummary): Badge[] {
  return [...priorityBadges(job), ...waitingBadges(job), ...preemptionBadges(job)];
}

function priorityBadges({ priority, downgraded, preempting }: JobSummary): Badge[] {
  if (preempting) {
    const about = "It is being preempted, and restarts from its old place in the queue.";
    return [{ label: "being preempted", description: about, tone: "mind" }];
  }
  if (downgraded)
    return [{ label: "runs as opportunistic", description: downgraded.message, tone: "mind" }];
  if (priority >= 0) return [];
  const about = "It uses cells that their owners do not need now, and is preempted when they do.";
  return [{ label: "opportunistic", description: about, tone: "calm" }];
}

function waitingBadges({ incremental, unplaced, placed_at }: JobSummary): Badge[] {
  if (!incremental || !unplaced || placed_at === null) return [];
  const about = "Its tasks start one by one, as each finds a place.";
  return [
    { label: `waiting for ${pluralize(unplaced, "task")}`, description: about, tone: "mind" },
  ];
}

function preemptionBadges({ preemptions }: JobSummary): Badge[] {
  if (!preemptions) return [];
  const word = preemptions === 1 ? "preempted once" : `preempted ${preemptions} times`;
  const about =
    "It was preempted by another job. That does not count as a retry, and it kept its place in the queue.";
  return [{ label: word, description: about, tone: "calm" }];
}
