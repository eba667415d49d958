import type uPlot from "uplot";
import {
  cssToken,
  lineColor,
  type Scheme,
  TIME_CURSOR,
  timeLabels,
} from "@/features/metrics/charts";
import { drawMarks, type Mark } from "@/features/metrics/marks";

interface ChartInput {
  labels: string[];
  /** Draw lowest, mean and highest (three rows) instead of a line per row. */
  summary: boolean;
  scheme: Scheme;
  width: number;
  height: number;
  marks: Mark[];
  max?: number;
  format: (value: number) => string;
  onCursor: (index: number | null) => void;
}

/** A job that has just begun has a sample or two: they stand at the end of some minutes. */
const MIN_SPAN_S = 300;

export function chartOptions(wish: ChartInput): uPlot.Options {
  const { scheme, summary, labels, format } = wish;
  const text = cssToken("--ink-3");
  const axis = { stroke: text, font: "11px Inter, sans-serif", ticks: { show: false } };
  const grid = { stroke: cssToken("--chart-grid"), width: 1 };
  return {
    width: wish.width,
    height: wish.height,
    legend: { show: false },
    cursor: { sync: { key: TIME_CURSOR }, points: { size: 6 }, drag: { x: true, y: false } },
    scales: {
      x: {
        time: true,
        range: ({ data: [times] }, from, to) =>
          // uPlot makes years of a single sample.
          times.length === 1 ? timeRange(times[0] ?? from, times[0] ?? to) : timeRange(from, to),
      },
      y: { range: (_plot, _low, high) => [0, wish.max ?? niceMaximum(high)] },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 28, space: 76, values: timeLabels },
      { ...axis, grid, size: 52, space: 32, values: (_plot, values) => values.map(format) },
    ],
    series: [{}, ...(summary ? band(scheme) : lines(labels, scheme))],
    bands: summary ? [{ series: [3, 1], fill: `${cssToken("--accent")}33` }] : undefined,
    hooks: {
      setCursor: [(plot) => wish.onCursor(plot.cursor.idx ?? null)],
      draw: [drawMarks(wish.marks)],
    },
  };
}

/** Points show only where there is no line to see. */
const LONE_POINTS: uPlot.Series.Points = {
  size: 5,
  show: (plot, series) => (plot.data[series]?.length ?? 0) < 3,
};

function lines(labels: string[], scheme: Scheme): uPlot.Series[] {
  return labels.map((label, index) => ({
    label,
    stroke: lineColor(index, scheme),
    width: 1.5,
    spanGaps: false,
    points: LONE_POINTS,
  }));
}

function band(scheme: Scheme): uPlot.Series[] {
  const edge = { stroke: "transparent", width: 0, points: { show: false } };
  const mean = { stroke: lineColor(0, scheme), width: 2, points: LONE_POINTS };
  return [
    { ...edge, label: "lowest" },
    { ...mean, label: "mean" },
    { ...edge, label: "highest" },
  ];
}

/** At least some minutes, which end at the last sample; also of one sample, or none. */
export function timeRange(from: number | null, to: number | null): [number, number] {
  const end = to ?? Date.now() / 1000;
  return [Math.min(from ?? end, end - MIN_SPAN_S), end];
}

function niceMaximum(high: number | null): number {
  return high && high > 0 ? high * 1.1 : 1;
}
