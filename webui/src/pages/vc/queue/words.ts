import type { WaitingJob } from "@/api/vc";
import { count } from "@/format/size";
import { distance, moment } from "../time/words";
import { isLate, type Bar } from "./bars";

/** When a job of the time line begins and ends, in one phrase. */
export function barWords(bar: Bar, now: number): string {
  const { certainty, start, end } = bar;
  if (certainty === "running") return runningWords(bar, now);
  if (start === null) return "start not known yet";
  const until = end === null ? "" : ` until about ${moment(end, now)}`;
  return `${certainty} to start ${soon(start, now)}${until}`;
}

function runningWords(bar: Bar, now: number): string {
  const since = `${bar.job.started_at ? "running" : "placed, and prepared"} since ${moment(bar.start ?? now, now)}`;
  if (bar.end === null) return `${since}, end not known`;
  if (isLate(bar, now)) return `${since}, was expected to end at ${moment(bar.end, now)}`;
  return `${since}, until about ${moment(bar.end, now)}`;
}

/** "at 14:20 (in 12m)"; a start that is due is "now". */
function soon(start: number, now: number): string {
  return start <= now ? "now" : `at ${moment(start, now)} (${distance(start, now)})`;
}

/** The start column: the moment, how far off it is or why nobody knows, and where. */
export function startWords({ reserved, expected_start }: WaitingJob, now: number) {
  const at = reserved?.start ?? expected_start;
  const nodes = reserved?.nodes ?? [];
  const where = nodes.length > 3 ? count(nodes.length, "node") : nodes.join(", ");
  if (!at) return { at: "not known", far: "what it waits for tells no end", where };
  const time = Date.parse(at);
  if (time <= now) return { at: "now", far: "as soon as its cells are clear", where };
  return { at: moment(time, now), far: distance(time, now), where };
}
