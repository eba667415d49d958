import type { Metrics, Point } from "@/api/types";
import { shortUuid, taskName } from "@/format/names";

/** One line of a chart; `values` belong to `times`, in seconds since the epoch. */
export interface Series {
  label: string;
  times: number[];
  values: (number | null)[];
}

/** More lines than this are drawn as their mean between the lowest and the highest. */
export const MAX_LINES = 10;

/** Where a metric stands in a point. */
const OF_GPU = { utilization: 1, memory: 2, power: 3 };
const OF_TASK = { cpu: 1, memory: 2, received: 3, sent: 4, read: 5, written: 6 };

/** Percent, megabytes or watts. */
export function gpuSeries(gpus: Metrics["gpus"], metric: keyof typeof OF_GPU): Series[] {
  const many = new Set(gpus.map((gpu) => taskName(gpu))).size > 1;
  return gpus.map((gpu) => {
    const label = many ? `${taskName(gpu)} ${shortUuid(gpu.uuid)}` : shortUuid(gpu.uuid);
    return line(label, gpu.points, OF_GPU[metric]);
  });
}

/** Cores, megabytes, or megabytes per second. */
export function taskSeries(tasks: Metrics["tasks"], metric: keyof typeof OF_TASK): Series[] {
  const divisor = { cpu: 100, memory: 1 }[metric as string] ?? 1_000_000;
  return tasks.map((task) => line(taskName(task), task.points, OF_TASK[metric], divisor));
}

function line(label: string, points: Point[], place: number, divisor = 1): Series {
  return {
    label,
    times: points.map(([time]) => time ?? 0),
    values: points.map((point) => {
      const value = point[place];
      return value == null ? null : value / divisor;
    }),
  };
}

/** Whether anything of it was measured. */
export function isMeasured(lines: Series[]): boolean {
  return lines.some((each) => each.values.some((value) => value !== null));
}

/** Megabytes as gigabytes, unless all of them are less than one. */
export function inUnit(lines: Series[]): { lines: Series[]; unit: "MB" | "GB" } {
  if (lines.every((each) => each.values.every((value) => (value ?? 0) < 1024))) {
    return { lines, unit: "MB" };
  }
  const scaled = lines.map((each) => ({
    ...each,
    values: each.values.map((value) => (value === null ? null : value / 1024)),
  }));
  return { lines: scaled, unit: "GB" };
}

export interface Aligned {
  times: number[];
  /** One row per line; null where that line has no sample. */
  rows: (number | null)[][];
}

/** Brings lines to common times. Samples of different tasks lie within the same step but seldom at
 * the same moment, so times are rounded down to the step. */
export function align(lines: Series[], step: number): Aligned {
  const slot = (time: number) => Math.floor(time / step) * step;
  const times = [...new Set(lines.flatMap((each) => each.times.map(slot)))].sort((a, b) => a - b);
  const place = new Map(times.map((time, index) => [time, index]));
  const rows = lines.map((each) => {
    const row = new Array<number | null>(times.length).fill(null);
    each.times.forEach((time, index) => {
      row[place.get(slot(time)) ?? -1] = each.values[index] ?? null;
    });
    return row;
  });
  return { times, rows };
}

/** Lowest, mean and highest of all lines at each time. */
export function summarize({ times, rows }: Aligned): Aligned {
  const at = (index: number) =>
    rows.map((row) => row[index]).filter((value): value is number => value != null);
  const columns = times.map((_, index) => at(index));
  const each = (reduce: (values: number[]) => number) =>
    columns.map((values) => (values.length > 0 ? reduce(values) : null));
  return {
    times,
    rows: [
      each((values) => Math.min(...values)),
      each((values) => values.reduce((sum, value) => sum + value, 0) / values.length),
      each((values) => Math.max(...values)),
    ],
  };
}
