import type { WaitingJob } from "@/api/virtualClusters";
import { pluralize } from "@/format/numbers";
import { formatDistance, formatMoment } from "../timeAxis";
import { isLate, type Bar } from "./bars";

/** When a job of the time line begins and ends, in one phrase. */
export function barText(bar: Bar, now: number): string {
  const { certainty, start, end } = bar;
  if (certainty === "running") return runningText(bar, now);
  if (start === null) return "start unknown";
  const until = end === null ? "" : ` until about ${formatMoment(end, now)}`;
  return `${certainty} to start ${startText(start, now)}${until}`;
}

function runningText(bar: Bar, now: number): string {
  const since = `${bar.job.started_at ? "running" : "placed, and prepared"} since ${formatMoment(bar.start ?? now, now)}`;
  if (bar.end === null) return `${since}, end unknown`;
  if (isLate(bar, now)) return `${since}, was expected to end at ${formatMoment(bar.end, now)}`;
  return `${since}, until about ${formatMoment(bar.end, now)}`;
}

/** "at 14:20 (in 12m)"; a start that is due is "now". */
function startText(start: number, now: number): string {
  return start <= now ? "now" : `at ${formatMoment(start, now)} (${formatDistance(start, now)})`;
}

/** Why no start is known: a limit or a dependency is no matter of the GPUs that others hold. */
function unknownStart(code: string | undefined): string {
  return code === undefined || BUSY.has(code)
    ? "no job before it has a known end"
    : "see why it waits";
}

const BUSY = new Set([
  "no_size",
  "vc_busy",
  "cluster_busy",
  "cpu_busy",
  "memory_busy",
  "held_back",
]);

/** The start column: the moment, how far off it is or why it is not known, and where. */
export function startColumn({ reserved, expected_start, reason }: WaitingJob, now: number) {
  const at = reserved?.start ?? expected_start;
  const nodes = reserved?.nodes ?? [];
  const where = nodes.length > 3 ? pluralize(nodes.length, "node") : nodes.join(", ");
  if (!at) return { at: "unknown", far: unknownStart(reason?.code), where };
  const time = Date.parse(at);
  if (time <= now) return { at: "now", far: "as soon as its cells are clear", where };
  return { at: formatMoment(time, now), far: formatDistance(time, now), where };
}
