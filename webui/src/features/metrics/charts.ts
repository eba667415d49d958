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
