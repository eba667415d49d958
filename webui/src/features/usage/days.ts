// Days are those of UTC, as the server counts them.

const DAY_MS = 86_400_000;

export const toHours = (seconds: number) => seconds / 3600;

/** "2026-11-05" */
export function isoDay(moment: Date): string {
  return moment.toISOString().slice(0, 10);
}

/** All days of a span, the first and the last included. */
export function daysOf(since: string, until: string): string[] {
  const last = Date.parse(until);
  const days: string[] = [];
  for (let at = Date.parse(since); at <= last; at += DAY_MS) days.push(isoDay(new Date(at)));
  return days;
}

export function daysAgo(days: number, now = Date.now()): string {
  return isoDay(new Date(now - days * DAY_MS));
}

/** The newest `count` months, as "2026-11", the present one first. */
export function lastMonths(count: number, now = new Date()): string[] {
  return Array.from({ length: count }, (_, back) =>
    isoDay(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1))).slice(0, 7),
  );
}

const monthFormat = new Intl.DateTimeFormat("en", {
  month: "long",
  year: "numeric",
  timeZone: "UTC",
});
const dayFormat = new Intl.DateTimeFormat("en-GB", {
  day: "numeric",
  month: "short",
  timeZone: "UTC",
});

/** "November 2026" */
export function monthName(month: string): string {
  return monthFormat.format(Date.parse(`${month}-01`));
}

/** "5 Nov" */
export function dayName(day: string): string {
  return dayFormat.format(Date.parse(day));
}
