import { duration } from "@/format/time";

const time = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const weekday = new Intl.DateTimeFormat("en-GB", { weekday: "short" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const WEEK_MS = 6 * 86_400_000;

/** The moment as people say it: "14:20", "Tue 09:10", "3 Dec 14:20". */
export function moment(at: number, now: number): string {
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
export function distance(at: number, now: number): string {
  const seconds = Math.round((at - now) / 1000);
  if (Math.abs(seconds) < 5) return "now";
  return seconds > 0 ? `in ${duration(seconds)}` : `${duration(-seconds)} ago`;
}
