import type uPlot from "uplot";

export type Scheme = "light" | "dark";

/** Colours that a canvas understands; it knows no CSS variables. */
export function lineColor(index: number, scheme: Scheme): string {
  const hue = Math.round((70 + index * 137.508) % 360);
  return scheme === "dark" ? `oklch(0.78 0.13 ${hue})` : `oklch(0.58 0.15 ${hue})`;
}

export function cssToken(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Lines that the words name; more of them are no help to a listener. */
const MOST_NAMED = 10;

/** A chart in words, as a picture has no others: the last value and the range of each line. */
export function chartText(
  title: string,
  labels: readonly string[],
  rows: readonly (readonly (number | null)[])[],
  format: (value: number) => string,
): string {
  const lines = labels.slice(0, MOST_NAMED).map((label, at) => lineText(label, rows[at], format));
  const more = labels.length - lines.length;
  return `${title}. ${lines.join(" ")}${more > 0 ? ` And ${more} more.` : ""}`;
}

function lineText(
  label: string,
  row: readonly (number | null)[] | undefined,
  format: (value: number) => string,
): string {
  const values = row?.filter((value) => value !== null) ?? [];
  const last = values.at(-1);
  if (last === undefined) return `${label}: nothing measured.`;
  // Not Math.min(...values): a row may have more values than a call takes arguments.
  const low = values.reduce((least, value) => Math.min(least, value));
  const high = values.reduce((most, value) => Math.max(most, value));
  const range = low === high ? "" : `, from ${format(low)} to ${format(high)}`;
  return `${label}: ${format(last)} at the end${range}.`;
}

/** All charts over time of a page point at the same moment. */
export const TIME_CURSOR = "job-metrics";

const DAY = 86_400;

/** "14:05", with the day where one begins and with seconds where labels would be equal without. */
export function timeLabels(
  _plot: uPlot,
  times: number[],
  _axis: number,
  _space: number,
  step: number,
) {
  const seconds = new Intl.DateTimeFormat("en-GB", { timeStyle: step < 60 ? "medium" : "short" });
  const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
  return times.map((time) => (step >= DAY ? day : seconds).format(new Date(time * 1000)));
}
