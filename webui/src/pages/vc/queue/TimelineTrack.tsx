import { useNavigate } from "@tanstack/react-router";
import { useId } from "react";
import { toX, type TimeSpan } from "../timeAxis";
import { layOutBar, isLate, type Bar } from "./bars";
import { queuedJobName } from "./QueuedJobName";
import css from "./TimelineTrack.module.css";

const HEIGHT = 28;
const BAR = 14;
const TOP = (HEIGHT - BAR) / 2;
const ROUND = 4;

interface Props {
  bar: Bar;
  span: TimeSpan;
  width: number;
  marks: number[];
  now: number;
  onOver: (place: DOMRect | null) => void;
}

/** The bar of one job over the hours. Its row's link says the same to screen readers. */
export function TimelineTrack({ bar, span, width, marks, now, onOver }: Props) {
  const navigate = useNavigate();
  const fade = useId();
  const { id } = bar.job;
  const drawn = layOutBar(bar, span, width, now);
  const nowX = toX(now, span, width);
  // A bar without a known end fades out: from now on, or from its expected start.
  const solid = drawn?.after ? Math.max(0, (nowX - drawn.x) / drawn.width) : 1;
  return (
    <svg className={css.track} width={width} height={HEIGHT} aria-hidden="true">
      {marks.map((time) => (
        <line key={time} className={css.mark} {...vertical(toX(time, span, width))} />
      ))}
      {drawn ? (
        <g
          className={css.bar}
          data-bar={queuedJobName(bar.job)}
          data-certainty={bar.certainty}
          data-opportunistic={bar.opportunistic || undefined}
          onClick={id ? () => void navigate({ to: "/jobs/$id", params: { id } }) : undefined}
          onPointerEnter={(event) => onOver(event.currentTarget.getBoundingClientRect())}
          onPointerLeave={() => onOver(null)}
        >
          <linearGradient id={fade}>
            <stop offset={solid} className={css.solid} />
            <stop offset="1" className={css.gone} stopOpacity={drawn.after ? 0 : 1} />
          </linearGradient>
          <rect className={css.grip} x={drawn.x} width={drawn.width} y="0" height={HEIGHT} />
          <rect
            className={css.body}
            x={drawn.x + 0.75}
            width={Math.max(1, drawn.width - 1.5)}
            y={TOP}
            height={BAR}
            rx={ROUND}
            fill={bar.certainty === "running" ? `url(#${fade})` : undefined}
            stroke={bar.certainty === "running" ? undefined : `url(#${fade})`}
          />
          {isLate(bar, now) && bar.end !== null ? (
            <line className={css.due} {...vertical(toX(bar.end, span, width))} />
          ) : null}
        </g>
      ) : (
        <text className={css.unknown} x={nowX + 10} y={HEIGHT / 2}>
          start unknown
        </text>
      )}
      <line className={css.now} {...vertical(nowX)} />
    </svg>
  );
}

function vertical(x: number) {
  const sharp = Math.round(x) + 0.5;
  return { x1: sharp, x2: sharp, y1: 0, y2: HEIGHT };
}
