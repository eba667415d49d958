import { area, line, type Use } from "./shapes";
import css from "./UseAreas.module.css";

interface Props {
  parts: Use[][];
  step: number;
  x: (at: number) => number;
  y: (gpus: number) => number;
}

const usable = (use: Use) => use.owned - use.bad;
const kept = (use: Use) => Math.max(use.used, usable(use) - use.lent);

export function UseAreas({ parts, step, x, y }: Props) {
  const between = (run: Use[], from: (use: Use) => number, to: (use: Use) => number) =>
    area(run, step, from, to, x, y);
  return parts.map((run) => (
    <g key={run[0]?.at}>
      <path className={css.bad} d={between(run, usable, (use) => use.owned)} />
      <path className={css.lent} d={between(run, kept, usable)} />
      <path
        className={css.borrowed}
        d={between(
          run,
          (use) => use.owned,
          (use) => use.owned + use.borrowed,
        )}
      />
      <path
        className={css.used}
        d={between(
          run,
          () => 0,
          (use) => use.used,
        )}
      />
      <path className={css.owned} d={line(run, step, (use) => use.owned, x, y)} />
    </g>
  ));
}

export function WaitingArea({ parts, step, x, y }: Props) {
  return parts.map((run) => (
    <path
      key={run[0]?.at}
      className={css.waiting}
      d={area(
        run,
        step,
        () => 0,
        (use) => use.waiting,
        x,
        y,
      )}
    />
  ));
}
