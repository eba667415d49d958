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
  const room = (span.to - span.from) / Math.max(1, most);
  const step = STEPS.find((each) => each >= room) ?? 7 * DAY;
  const shift = new Date(span.from).getTimezoneOffset() * MINUTE;
  const first = Math.ceil((span.from - shift) / step) * step + shift;
  const found: number[] = [];
  for (let time = first; time <= span.to; time += step) found.push(time);
  return found;
}
