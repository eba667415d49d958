import { useElementSize } from "@mantine/hooks";
import { type PointerEvent, useMemo, useState } from "react";
import { shortModel } from "@/format/names";
import { useNow } from "@/format/useNow";
import { formatMoment, tickLabel, ticks, type TimeSpan, toX } from "../timeAxis";
import { area, gpuAxis, line, pointAt, runs, type UsageSample } from "./shapes";
import css from "./UsageChart.module.css";

const HEIGHT = 180;
const WAITING_HEIGHT = 52;
const MARGIN = { left: 40, right: 16, top: 10 };
const TICK_SPACE = 90;
const FALLBACK_WIDTH = 800;
/** The chart moves on by this, not with every second. */
const MOVE_MS = 30_000;

interface Props {
  model: string;
  points: UsageSample[];
  /** Seconds from one point to the next. */
  step: number;
  /** Seconds that the chart covers, up to now. */
  seconds: number;
}

/** Below the line of what is owned: used, and from the top down lent and bad; above it what was
 * borrowed. Under it in small what waited. */
export function UsageChart({ model, points, step, seconds }: Props) {
  const { ref, width: measured } = useElementSize();
  const now = Math.floor(useNow() / MOVE_MS) * MOVE_MS;
  const [cursor, setCursor] = useState<number | null>(null);
  const width = Math.max(0, (measured || FALLBACK_WIDTH) - MARGIN.left - MARGIN.right);
  const span = useMemo(() => ({ from: now - seconds * 1000, to: now }), [now, seconds]);
  const parts = useMemo(() => runs(points, step), [points, step]);
  const use = gpuAxis(maximum(points, (point) => point.owned + point.borrowed));
  const waiting = gpuAxis(maximum(points, (point) => point.waiting));
  const marks = ticks(span, Math.floor(width / TICK_SPACE));
  const scale = { parts, step, x: (at: number) => toX(at * 1000, span, width) };
  const shown = cursor === null ? points.at(-1) : pointAt(points, cursor, step);

  function onPointerMove(event: PointerEvent<SVGSVGElement>) {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - MARGIN.left;
    setCursor(x < 0 || x > width ? null : timeAt(x, span, width));
  }

  const below = MARGIN.top + HEIGHT + 48;
  const total = below + WAITING_HEIGHT + 12;
  return (
    <figure className={css.chart}>
      <figcaption className={css.head}>
        <h2 title={model}>{shortModel(model)}</h2>
        <Numbers use={shown ?? null} at={cursor} now={now} />
      </figcaption>
      <div ref={ref} />
      <svg
        className={css.plot}
        width="100%"
        height={total}
        role="img"
        aria-label={valueText(model, points)}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setCursor(null)}
      >
        <g transform={`translate(${MARGIN.left} ${MARGIN.top})`}>
          <Grid axis={use} height={HEIGHT} width={width} />
          {marks.map((time) => (
            <text key={time} className={css.time} x={toX(time, span, width)} y={HEIGHT + 16}>
              {tickLabel(time)}
            </text>
          ))}
          <UsageAreas {...scale} y={(gpus) => HEIGHT * (1 - gpus / use.top)} />
        </g>
        <g transform={`translate(${MARGIN.left} ${below})`}>
          <text className={css.name} x="0" y="-8">
            Waiting for GPUs
          </text>
          <Grid
            axis={{ top: waiting.top, lines: [0, waiting.top] }}
            height={WAITING_HEIGHT}
            width={width}
          />
          <WaitingArea {...scale} y={(gpus) => WAITING_HEIGHT * (1 - gpus / waiting.top)} />
        </g>
        {cursor === null ? null : (
          <line
            className={css.cursor}
            x1={MARGIN.left + toX(cursor * 1000, span, width)}
            x2={MARGIN.left + toX(cursor * 1000, span, width)}
            y1={MARGIN.top}
            y2={below + WAITING_HEIGHT}
          />
        )}
      </svg>
    </figure>
  );
}

interface GridProps {
  axis: { top: number; lines: number[] };
  height: number;
  width: number;
}

function Grid({ axis, height, width }: GridProps) {
  return axis.lines.map((gpus) => {
    const y = Math.round(height * (1 - gpus / axis.top)) + 0.5;
    return (
      <g key={gpus}>
        <line className={css.grid} x1="0" x2={width} y1={y} y2={y} />
        <text className={css.gpus} x="-8" y={y}>
          {gpus}
        </text>
      </g>
    );
  });
}

const NAMES = ["used", "owned", "borrowed", "lent", "bad", "waiting"] as const;

function Numbers({ use, at, now }: { use: UsageSample | null; at: number | null; now: number }) {
  return (
    <ul className={css.numbers}>
      <li className={css.at}>{at === null ? "latest" : formatMoment(at * 1000, now)}</li>
      {use ? (
        NAMES.map((name) => (
          <li key={name}>
            {name} <b className="num">{Number(use[name].toFixed(1))}</b>
          </li>
        ))
      ) : (
        <li>not recorded</li>
      )}
    </ul>
  );
}

/** The whole chart in a sentence. */
function valueText(model: string, points: UsageSample[]): string {
  const last = points.at(-1);
  if (!last) return `${model}: nothing recorded`;
  const peak = maximum(points, (point) => point.used + point.borrowed);
  return `${model}: ${last.used} of ${last.owned} owned GPUs used at the end, at most ${peak} used, ${last.waiting} waited for.`;
}

function maximum(points: UsageSample[], value: (point: UsageSample) => number): number {
  return points.reduce((highest, point) => Math.max(highest, value(point)), 0);
}

/** Seconds since the epoch at a place of the axis. */
function timeAt(x: number, { from, to }: TimeSpan, width: number): number {
  return (from + (x / width) * (to - from)) / 1000;
}

interface UseAreasProps {
  parts: UsageSample[][];
  step: number;
  x: (at: number) => number;
  y: (gpus: number) => number;
}

const usable = (use: UsageSample) => use.owned - use.bad;
const kept = (use: UsageSample) => Math.max(use.used, usable(use) - use.lent);

function UsageAreas({ parts, step, x, y }: UseAreasProps) {
  const between = (
    run: UsageSample[],
    from: (use: UsageSample) => number,
    to: (use: UsageSample) => number,
  ) => area(run, step, from, to, x, y);
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

function WaitingArea({ parts, step, x, y }: UseAreasProps) {
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
