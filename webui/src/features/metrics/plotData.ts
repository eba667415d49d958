/** A line of a plot: [x, y] in the order of x. */
export interface PlotLine {
  label: string;
  color: number;
  points: [number, number][];
}

export type XAxis = "time" | "elapsed" | "step";

export interface PlotRows {
  x: number[];
  rows: (number | null)[][];
}

/** Points of the API as those of a line: [step, seconds since the epoch, value]. */
export function pointsOf(points: number[][], x: XAxis, start = 0): [number, number][] {
  const found = points.map(([step = 0, time = 0, value = 0]): [number, number] => [
    x === "step" ? step : x === "time" ? time : time - start,
    value,
  ]);
  return found.sort((a, b) => a[0] - b[0]);
}

/** Brings lines to common places; null where a line has no point. On a logarithmic scale numbers
 * that are not positive have no place. */
export function plotRows(lines: PlotLine[], log: boolean): PlotRows {
  const kept = lines.map(({ points }) => (log ? points.filter(([, y]) => y > 0) : points));
  const x = [...new Set(kept.flatMap((points) => points.map(([place]) => place)))].sort(
    (a, b) => a - b,
  );
  const index = new Map(x.map((place, at) => [place, at]));
  const rows = kept.map((points) => {
    const row = new Array<number | null>(x.length).fill(null);
    for (const [place, y] of points) row[index.get(place) ?? -1] = y;
    return row;
  });
  return { x, rows };
}

/** The value of a line at a place, or the one before it; null before its first. */
export function valueAt(row: (number | null)[] | undefined, at: number): number | null {
  for (let place = at; place >= 0; place -= 1) {
    const value = row?.[place];
    if (value != null) return value;
  }
  return null;
}

const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

/** "0.1235", "1,235", "1.2e-7": four figures that matter. */
export function formatValue(value: number): string {
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2).replace("e+", "e");
  return plain.format(value);
}

/** "45s", "12m", "3h 20m": the time since a run began. */
export function formatElapsed(seconds: number): string {
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole}s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes}m ${whole % 60}s` : `${minutes}m`;
  const rest = minutes % 60;
  return rest ? `${Math.floor(minutes / 60)}h ${rest}m` : `${Math.floor(minutes / 60)}h`;
}
