import uPlot from "uplot";
import { cssToken, lineColor, type Scheme, TIME_CURSOR, timeLabels } from "./charts";
import { drawMarks, type Mark } from "./marks";
import { formatElapsed, formatValue, type XAxis } from "./plotData";

interface PlotInput {
  colors: number[];
  x: XAxis;
  log: boolean;
  scheme: Scheme;
  range: [number, number] | undefined;
  width: number;
  height: number;
  marks: Mark[];
  onCursor: (index: number | null) => void;
}

const LOGARITHMIC = 3; // uPlot's number of that distribution

export function plotOptions(wish: PlotInput): uPlot.Options {
  const text = cssToken("--ink-3");
  const axis = { stroke: text, font: "11px Inter, sans-serif", ticks: { show: false } };
  const grid = { stroke: cssToken("--chart-grid"), width: 1 };
  return {
    width: wish.width,
    height: wish.height,
    legend: { show: false },
    // Charts over time point at the same moment, the others at the same step.
    cursor: {
      sync: { key: wish.x === "time" ? TIME_CURSOR : `metrics-${wish.x}` },
      points: { size: 6 },
      drag: { x: true, y: false },
    },
    scales: {
      x: {
        time: wish.x === "time",
        range: (plot, from, to) => xRange(plot.data[0], from, to, wish.range),
      },
      y: wish.log ? { distr: LOGARITHMIC } : { range: yRange },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 28,
        space: 76,
        values: labels(wish.x),
        ...(wish.x === "elapsed" && { incrs: ELAPSED_STEPS }),
      },
      {
        ...axis,
        grid,
        size: 60,
        space: 32,
        values: (_plot, values) => values.map((value) => (value == null ? "" : formatValue(value))),
      },
    ],
    series: [
      {},
      ...wish.colors.map((color) => ({
        stroke: lineColor(color, wish.scheme),
        width: 1.5,
        spanGaps: true,
        points: LONE_POINTS,
      })),
    ],
    hooks: {
      setCursor: [(plot) => wish.onCursor(plot.cursor.idx ?? null)],
      draw: wish.x === "time" ? [drawMarks(wish.marks)] : [],
    },
  };
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Round distances of the labels of an axis of seconds. */
const ELAPSED_STEPS = [
  ...[1, 2, 5, 10, 20, 30],
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 6, 12].map((hours) => hours * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500].map((days) => days * DAY),
];

/** Points show only where there is no line to see. */
const LONE_POINTS: uPlot.Series.Points = {
  size: 5,
  show: (plot, series) =>
    Array.from(plot.data[series] ?? []).filter((value) => value != null).length < 3,
};

/** The common range of several plots, unless the user drags to look closer. */
export function xRange(
  places: ArrayLike<number>,
  from: number | null,
  to: number | null,
  shared: [number, number] | undefined,
): [number, number] {
  const [first, last] = [places[0], places[places.length - 1]];
  if (from == null || to == null || first === undefined || last === undefined)
    return shared ?? [0, 1];
  // uPlot has no range for a single point but one that is far too wide.
  if (first === last) return shared ?? [first - 1, first + 1];
  return from === first && to === last ? (shared ?? [from, to]) : [from, to];
}

function yRange(_plot: uPlot, low: number | null, high: number | null): [number, number] {
  if (low == null || high == null) return [0, 1];
  const [from, to] = uPlot.rangeNum(low, high, 0.1, true);
  return [from ?? 0, to ?? 1];
}

function labels(x: XAxis): uPlot.Axis.Values {
  if (x === "time") return timeLabels;
  const format = x === "step" ? formatStep : formatElapsed;
  return (_plot, values) => values.map(format);
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 2 });

function formatStep(step: number): string {
  return Math.abs(step) < 10_000 ? formatValue(step) : compact.format(step);
}
