import type { Metrics, Point } from "@/api/types";
import { shortUuid, taskName } from "@/format/names";

/** One line of a chart; `values` belong to `times`, in seconds since the epoch. */
export interface Series {
  label: string;
  times: number[];
  values: number[];
}

/** More lines than this are drawn as their mean between the lowest and the highest. */
export const MAX_LINES = 10;

type GpuMetric = "utilization" | "memory";
type TaskMetric = "cpu" | "memory";

/** Percent, or megabytes. */
export function gpuSeries(gpus: Metrics["gpus"], metric: GpuMetric): Series[] {
  const many = new Set(gpus.map((gpu) => taskName(gpu))).size > 1;
  return gpus.map((gpu) => {
    const label = many ? `${taskName(gpu)} ${shortUuid(gpu.uuid)}` : shortUuid(gpu.uuid);
    return line(label, gpu.points, ([, busy = 0, memory = 0]) =>
      metric === "utilization" ? busy : memory,
    );
  });
}

/** Cores, or megabytes. */
export function taskSeries(tasks: Metrics["tasks"], metric: TaskMetric): Series[] {
  return tasks.map((task) =>
    line(taskName(task), task.points, ([, percent = 0, memory = 0]) =>
      metric === "cpu" ? percent / 100 : memory,
    ),
  );
}

function line(label: string, points: Point[], value: (point: Point) => number): Series {
  return { label, times: points.map(([time = 0]) => time), values: points.map(value) };
}

/** Megabytes as gigabytes, unless all of them are less than one. */
export function inUnit(lines: Series[]): { lines: Series[]; unit: "MB" | "GB" } {
  if (lines.every((each) => each.values.every((value) => value < 1024))) {
    return { lines, unit: "MB" };
  }
  const scaled = lines.map((each) => ({
    ...each,
    values: each.values.map((value) => value / 1024),
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
