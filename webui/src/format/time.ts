const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

/** Seconds as people say them, two units at most: "4.2s", "3m 07s", "5h 12m", "2d 3h". */
export function formatDuration(seconds: number): string {
  if (seconds < 0) return "0s";
  if (seconds < 10) return `${Math.floor(seconds * 10) / 10}s`;
  if (seconds < MINUTE) return `${Math.floor(seconds)}s`;
  if (seconds < HOUR)
    return `${Math.floor(seconds / MINUTE)}m ${pad(Math.floor(seconds % MINUTE))}s`;
  if (seconds < DAY)
    return `${Math.floor(seconds / HOUR)}h ${pad(Math.floor((seconds % HOUR) / MINUTE))}m`;
  return `${Math.floor(seconds / DAY)}d ${Math.floor((seconds % DAY) / HOUR)}h`;
}

/** How long ago `iso` was at `now` (ms): "just now", "12s ago", "3h ago", then a date. */
export function formatRelativeTime(iso: string, now: number): string {
  const seconds = (now - Date.parse(iso)) / 1000;
  if (seconds < 5) return "just now";
  if (seconds < MINUTE) return `${Math.floor(seconds)}s ago`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)}m ago`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)}h ago`;
  if (seconds < 7 * DAY) return `${Math.floor(seconds / DAY)}d ago`;
  const then = new Date(iso);
  const format = then.getFullYear() === new Date(now).getFullYear() ? dayFormat : dayOfYearFormat;
  return format.format(then);
}

const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const dayOfYearFormat = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const fullFormat = new Intl.DateTimeFormat(undefined, {
  dateStyle: "medium",
  timeStyle: "medium",
  hourCycle: "h23",
});
const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const hourFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});
const weekdayFormat = new Intl.DateTimeFormat("en", { weekday: "short" });

/** Date and time in the reader's own zone. */
export function formatDateTime(iso: string): string {
  return fullFormat.format(new Date(iso));
}

/** The time of day of an ISO 8601 time, or of milliseconds since the epoch. */
export function formatClock(at: string | number): string {
  return clockFormat.format(new Date(at));
}

/** Seconds from `start` to `end`, or to `now` (ms) while it has not ended; null before the start. */
export function elapsedSeconds(
  start: string | null,
  end: string | null,
  now: number,
): number | null {
  if (!start) return null;
  return ((end ? Date.parse(end) : now) - Date.parse(start)) / 1000;
}

/** How far off a moment is (both in ms), as one says a guess: "in about 25 min". */
export function formatTimeUntil(at: number, now: number): string {
  const seconds = (at - now) / 1000;
  if (seconds < 5) return "any moment now";
  if (seconds < MINUTE) return "in less than a minute";
  const minutes = Math.round(seconds / MINUTE);
  if (minutes < 60) return `in about ${minutes} min`;
  if (minutes < 48 * 60) {
    const rest = minutes % 60;
    return `in about ${Math.floor(minutes / 60)} h${rest && minutes < 12 * 60 ? ` ${rest} min` : ""}`;
  }
  return `in about ${Math.round(minutes / (24 * 60))} days`;
}

/** When something will be: the time of today, and for other days their name. */
export function formatExpectedTime(at: number, now: number): string {
  const [then, today] = [new Date(at), new Date(now)];
  const time = hourFormat.format(then);
  if (then.toDateString() === today.toDateString()) return time;
  const near = Math.abs(at - now) < 6 * DAY * 1000;
  return `${(near ? weekdayFormat : dayFormat).format(then)} ${time}`;
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

/** The beginning of a day such as 2026-11-23 in the time zone of the browser, or of the one so many
 * days later, as the API reads times. */
export function midnight(day: string, later: number): string {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return new Date(year, month - 1, date + later).toISOString();
}
