import { useElementSize } from "@mantine/hooks";
import { type PointerEvent, useMemo, useState } from "react";
import type { Sums, UsageRow } from "@/api/usage";
import { formatHours } from "@/format/numbers";
import { Legend } from "@/ui/Legend";
import { dayName, daysOf, toHours } from "./days";
import css from "./UsageByDay.module.css";

const HEIGHT = 170;
const MARGIN = { left: 52, right: 12, top: 10, bottom: 24 };
const FALLBACK_WIDTH = 800;
const LABEL_SPACE = 64;
const LINES = 4;

export const PLOTS = ["use", "class"] as const;
/** Stacked by what was made of the time, or by whose GPUs it was on. */
export type Plot = (typeof PLOTS)[number];

interface Part {
  key: string;
  name: string;
  value: (sums: Sums) => number;
}

const PARTS: Record<Plot, Part[]> = {
  use: [
    { key: "used", name: "Used", value: (sums) => sums.used_s },
    { key: "idle", name: "Idle", value: (sums) => sums.idle_s },
    { key: "unknown", name: "Not measured", value: (sums) => sums.unknown_s },
  ],
  class: [
    { key: "guaranteed", name: "Guaranteed", value: (sums) => sums.guaranteed_s },
    { key: "borrowed", name: "Borrowed", value: (sums) => sums.borrowed_s },
  ],
};

interface Props {
  rows: UsageRow[];
  since: string;
  until: string;
  plot: Plot;
}

/** Allocated GPU-hours of each day, as a bar of its parts. */
export function UsageByDay({ rows, since, until, plot }: Props) {
  const { ref, width: measured } = useElementSize();
  const [cursor, setCursor] = useState<number | null>(null);
  const days = useMemo(() => daysOf(since, until), [since, until]);
  const byDay = useMemo(() => new Map(rows.map((row) => [row.day, row])), [rows]);
  const width = Math.max(0, (measured || FALLBACK_WIDTH) - MARGIN.left - MARGIN.right);
  const step = width / Math.max(days.length, 1);
  const top = roundUp(Math.max(0, ...rows.map((row) => toHours(row.allocated_s))));
  const y = (hours: number) => HEIGHT * (1 - hours / top);
  const every = Math.max(1, Math.ceil(LABEL_SPACE / Math.max(step, 1)));
  const shown = cursor === null ? undefined : days[cursor];

  function onPointerMove(event: PointerEvent<SVGSVGElement>) {
    const x = event.clientX - event.currentTarget.getBoundingClientRect().left - MARGIN.left;
    const at = Math.floor(x / step);
    setCursor(at >= 0 && at < days.length ? at : null);
  }

  return (
    <figure className={css.figure}>
      <figcaption className={css.head}>
        <span className={css.unit}>GPU-hours per day</span>
        <Legend className={css.key}>
          {PARTS[plot].map(({ key, name }) => (
            <li key={key}>
              <i data-part={key} /> {name}
            </li>
          ))}
        </Legend>
        <span className={css.numbers}>{shown ? dayText(shown, byDay.get(shown), plot) : null}</span>
      </figcaption>
      <div ref={ref} />
      <svg
        className={css.plot}
        width="100%"
        height={MARGIN.top + HEIGHT + MARGIN.bottom}
        role="img"
        aria-label={plotText(rows, since, until)}
        onPointerMove={onPointerMove}
        onPointerLeave={() => setCursor(null)}
      >
        <g transform={`translate(${MARGIN.left} ${MARGIN.top})`}>
          {Array.from({ length: LINES + 1 }, (_, line) => (top * line) / LINES).map((hours) => (
            <g key={hours}>
              <line className={css.grid} x1="0" x2={width} y1={y(hours)} y2={y(hours)} />
              <text className={css.hours} x="-8" y={y(hours)}>
                {formatHours(hours)}
              </text>
            </g>
          ))}
          {days.map((day, at) => (
            <g key={day} data-shown={at === cursor || undefined}>
              {at === cursor ? (
                <rect className={css.cursor} x={at * step} width={step} y="0" height={HEIGHT} />
              ) : null}
              <Bar sums={byDay.get(day)} plot={plot} x={at * step} width={step} y={y} />
              {at % every === 0 && at * step + LABEL_SPACE / 2 <= width ? (
                <text className={css.day} x={at * step + step / 2} y={HEIGHT + 16}>
                  {dayName(day)}
                </text>
              ) : null}
            </g>
          ))}
        </g>
      </svg>
    </figure>
  );
}

interface BarProps {
  sums: Sums | undefined;
  plot: Plot;
  x: number;
  width: number;
  y: (hours: number) => number;
}

function Bar({ sums, plot, x, width, y }: BarProps) {
  if (!sums) return null;
  let below = 0;
  return PARTS[plot].map(({ key, value }) => {
    const hours = toHours(value(sums));
    const from = below;
    below += hours;
    return (
      <rect
        key={key}
        className={css.part}
        data-part={key}
        x={x + width * 0.12}
        width={Math.max(width * 0.76, 1)}
        y={y(below)}
        height={Math.max(y(from) - y(below), 0)}
      />
    );
  });
}

function dayText(day: string, sums: Sums | undefined, plot: Plot): string {
  if (!sums) return `${dayName(day)}: nothing`;
  const parts = PARTS[plot].map(
    ({ name, value }) => `${name.toLowerCase()} ${formatHours(toHours(value(sums)))}`,
  );
  return `${dayName(day)}: ${formatHours(toHours(sums.allocated_s))} GPU-h (${parts.join(", ")})`;
}

/** The whole plot in a sentence. */
function plotText(rows: UsageRow[], since: string, until: string): string {
  const span = `from ${dayName(since)} to ${dayName(until)}`;
  const most = rows.reduce<UsageRow | null>(
    (best, row) => (best && best.allocated_s >= row.allocated_s ? best : row),
    null,
  );
  if (!most?.day) return `GPU-hours by day ${span}: none.`;
  const total = rows.reduce((sum, row) => sum + row.allocated_s, 0);
  return `GPU-hours by day ${span}: ${formatHours(toHours(total))} in all, most on ${dayName(most.day)} with ${formatHours(toHours(most.allocated_s))}.`;
}

/** The next round number: with a quarter of it at each line. */
function roundUp(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return (
    ([1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].find((each) => each * power >= value) ?? 10) * power
  );
}
