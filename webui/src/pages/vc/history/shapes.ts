/** Pure shapes of the chart of use: points as paths. Times are seconds since the epoch. */

/** GPUs of one model at one time. */
export interface UsageSample {
  at: number;
  owned: number;
  used: number;
  borrowed: number;
  lent: number;
  bad: number;
  waiting: number;
}

export function toUsage(points: number[][]): UsageSample[] {
  return points.map(
    ([at = 0, owned = 0, used = 0, borrowed = 0, lent = 0, bad = 0, waiting = 0]) => ({
      at,
      owned,
      used,
      borrowed,
      lent,
      bad,
      waiting,
    }),
  );
}

/** Runs of points without a hole: where nothing was counted, nothing is drawn. */
export function runs(points: UsageSample[], step: number): UsageSample[][] {
  const found: UsageSample[][] = [];
  let last: UsageSample | undefined;
  for (const point of points) {
    if (last && point.at - last.at <= 2.5 * step) found.at(-1)?.push(point);
    else found.push([point]);
    last = point;
  }
  return found;
}

type Height = (point: UsageSample) => number;

/** The area between two values, in steps: a value holds until the next one. `x` and `y` turn time
 * and GPUs into pixels. */
export function area(
  run: UsageSample[],
  step: number,
  from: Height,
  to: Height,
  x: (at: number) => number,
  y: (gpus: number) => number,
): string {
  if (run.every((point) => from(point) === to(point))) return "";
  const there = stairs(run, step, to, x, y);
  const back = stairs(run, step, from, x, y).reverse();
  return `M${[...there, ...back].join("L")}Z`;
}

export function line(
  run: UsageSample[],
  step: number,
  value: Height,
  x: (at: number) => number,
  y: (gpus: number) => number,
): string {
  return `M${stairs(run, step, value, x, y).join("L")}`;
}

function stairs(
  run: UsageSample[],
  step: number,
  value: Height,
  x: (at: number) => number,
  y: (gpus: number) => number,
): string[] {
  return run.flatMap((point, index) => {
    const height = y(value(point)).toFixed(1);
    const until = run[index + 1]?.at ?? point.at + step;
    return [`${x(point.at).toFixed(1)} ${height}`, `${x(until).toFixed(1)} ${height}`];
  });
}

/** A round number of GPUs at or above all values, and the lines to draw below it. */
export function gpuAxis(highest: number): { top: number; lines: number[] } {
  const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192].find(
    (each) => highest / each <= 4,
  );
  const by = step ?? Math.ceil(highest / 4);
  const top = Math.max(by, Math.ceil(highest / by) * by);
  return { top, lines: Array.from({ length: top / by + 1 }, (_, index) => index * by) };
}

/** The point whose step contains the time, if it was counted. */
export function pointAt(points: UsageSample[], at: number, step: number): UsageSample | null {
  const found = points.findLast((point) => point.at <= at);
  return found && at < found.at + 2.5 * step ? found : null;
}
