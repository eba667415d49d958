import { formatDuration } from "@/format/time";

/** Pure arithmetic of time axes. All times are milliseconds since the epoch. */
export interface TimeSpan {
  from: number;
  to: number;
}

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [
  MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  7 * DAY,
];

/** Maps a time to a length from the left edge; outside of the span it stays at the edge. */
export function toX(time: number, { from, to }: TimeSpan, width: number): number {
  const part = (time - from) / (to - from);
  return Math.min(1, Math.max(0, part)) * width;
}

/** Full hours, quarters or days inside the span in the reader's own zone, at most `most`. */
export function ticks(span: TimeSpan, most: number): number[] {
  const slot = (span.to - span.from) / Math.max(1, most);
  const step = STEPS.find((each) => each >= slot) ?? 7 * DAY;
  const shift = new Date(span.from).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((span.from - shift) / step) * step + shift;
  const found: number[] = [];
  for (let time = first; time <= span.to; time += step) found.push(time);
  return found;
}

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const WEEK_MS = 6 * 86_400_000;

/** The moment as people say it: "14:20", "Tue 09:10", "3 Dec 14:20". */
export function formatMoment(at: number, now: number): string {
  const date = new Date(at);
  const clock = time.format(date);
  if (date.toDateString() === new Date(now).toDateString()) return clock;
  const away = Math.abs(at - now);
  return `${(away < WEEK_MS ? weekday : day).format(date)} ${clock}`;
}

/** On an axis: the hour, or the day where one begins. */
export function tickLabel(at: number): string {
  const date = new Date(at);
  const midnight = date.getHours() === 0 && date.getMinutes() === 0;
  return midnight ? day.format(date) : time.format(date);
}

/** How far a moment is off: "in 12m 05s", "3h 10m ago", "now". */
export function formatDistance(at: number, now: number): string {
  const seconds = Math.round((at - now) / 1000);
  if (Math.abs(seconds) < 5) return "now";
  return seconds > 0 ? `in ${formatDuration(seconds)}` : `${formatDuration(-seconds)} ago`;
}
