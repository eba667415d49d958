import type { QueuedJob, RunningJob, WaitingJob } from "@/api/virtualClusters";
import { toX, type TimeSpan } from "../timeAxis";

/** How sure a start is: the job runs; its cells are reserved; it is only expected; it is not known. */
export type Certainty = "running" | "reserved" | "expected" | "unknown";

/** One job on the time line. Times are milliseconds since the epoch. */
export interface Bar {
  job: QueuedJob;
  certainty: Certainty;
  opportunistic: boolean;
  start: number | null;
  /** Null: the end is not known. */
  end: number | null;
  nodes: string[];
  position: number | null;
}

const MINUTE = 60_000;
const LEAST_AHEAD = 30 * MINUTE;
const MOST_AHEAD = 7 * 24 * 60 * MINUTE;
/** A part of the line at its end is kept free, so that open ends are seen to go on. */
const SPACE_AHEAD = 1.12;
const LEAST_BEHIND = 0.12;
const MOST_BEHIND = 0.4;

export function barOfRunning({ job, expected_end, opportunistic }: RunningJob): Bar {
  return {
    job,
    certainty: "running",
    opportunistic,
    start: Date.parse(job.started_at ?? job.placed_at ?? job.submitted_at),
    end: expected_end ? Date.parse(expected_end) : null,
    nodes: [],
    position: null,
  };
}

export function barOfWaiting({ job, reserved, expected_start, position }: WaitingJob): Bar {
  const at = reserved?.start ?? expected_start;
  const start = at ? Date.parse(at) : null;
  return {
    job,
    certainty: reserved ? "reserved" : at ? "expected" : "unknown",
    opportunistic: job.priority < 0,
    start,
    end: start !== null && job.duration_s !== null ? start + job.duration_s * 1000 : null,
    nodes: reserved?.nodes ?? [],
    position,
  };
}

/** From a part of what is behind to a little after the last known moment. */
export function spanOf(bars: Bar[], now: number): TimeSpan {
  const known = bars.flatMap(({ start, end }) => [start ?? now, end ?? now]);
  const last = known.reduce((most, time) => Math.max(most, time), now);
  const first = known.reduce((least, time) => Math.min(least, time), now);
  const ahead = Math.min(MOST_AHEAD, Math.max(LEAST_AHEAD, (last - now) * SPACE_AHEAD));
  const behind = Math.min(ahead * MOST_BEHIND, Math.max(ahead * LEAST_BEHIND, now - first));
  return { from: now - behind, to: now + ahead };
}

/** Where a bar is drawn, in pixels. */
export interface DrawnBar {
  x: number;
  width: number;
  /** It goes on past what is drawn, to the left or to the right. */
  before: boolean;
  after: boolean;
}

const LEAST_WIDTH = 6;

/** Null when there is nothing to draw: the start is not known. A running job that is over its
 * expected end has no known end any more. */
export function layOutBar(bar: Bar, span: TimeSpan, width: number, now: number): DrawnBar | null {
  if (bar.start === null) return null;
  const end = isLate(bar, now) ? null : bar.end;
  const left = toX(bar.start, span, width);
  const right = end === null ? width : toX(end, span, width);
  const wide = Math.max(LEAST_WIDTH, right - left);
  return {
    x: Math.min(left, width - LEAST_WIDTH),
    width: wide,
    before: bar.start < span.from,
    after: end === null || end > span.to,
  };
}

/** It should have ended by now. */
export function isLate({ certainty, end }: Bar, now: number): boolean {
  return certainty === "running" && end !== null && end < now;
}
