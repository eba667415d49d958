import { type CSSProperties, memo, type ReactNode, useId } from "react";
import { taskName } from "@/format/names";
import { formatClock } from "@/format/time";
import { parseAnsi, type StyledSpan, type TextStyle } from "./ansi";
import type { Line } from "./assemble";
import { findRanges } from "./find";
import css from "./LogLine.module.css";

export interface LineProps {
  line: Line;
  text: string;
  needle: string;
  current: boolean;
  ranks: boolean;
  times: boolean;
  index: number;
  /** The link of this line is the one that the tab key reaches. */
  tabStop: boolean;
  onLink: (index: number) => void;
}

/** In a line that is there to be plotted. */
const METRIC_LINE = "::skep-metric ";

/** `text` is the line's own; a prop, since a line at the end of a log grows in place. */
export const LogLine = memo(function LogLine(props: LineProps) {
  const { line, text, needle, current, ranks, times, index, tabStop, onLink } = props;
  const id = useId();
  const { spans } = parseAnsi(text, line.look);
  const plain = spans.map((span) => span.text).join("");
  return (
    <div
      className={css.line}
      data-stream={line.chunk.stream}
      data-current={current || undefined}
      data-metric={plain.includes(METRIC_LINE) || undefined}
    >
      <button
        type="button"
        className={css.link}
        data-link={index}
        // One stop of the tab key for all lines; LogLines moves it by the arrow keys.
        tabIndex={tabStop ? 0 : -1}
        aria-label="Link to this line"
        aria-describedby={id}
        title="Link to this line"
        onClick={() => onLink(index)}
      />
      {times ? <span className={css.time}>{formatClock(line.at)}</span> : null}
      {ranks ? (
        <span
          className={css.rank}
          style={{ color: rankColour(line.chunk.rank) }}
          title={`rank ${line.chunk.rank}`}
        >
          {taskName(line.chunk)}
        </span>
      ) : null}
      <span id={id} className={css.text}>
        {highlight(spans, findRanges(plain, needle))}
      </span>
    </div>
  );
});

/** The spans as elements, with the found stretches marked across their borders. */
function highlight(spans: StyledSpan[], ranges: [number, number][]): ReactNode[] {
  const cuts = ranges.flat();
  const parts: ReactNode[] = [];
  let at = 0;
  for (const span of spans) {
    const end = at + span.text.length;
    const borders = [at, ...cuts.filter((cut) => cut > at && cut < end), end];
    for (let n = 0; n + 1 < borders.length; n += 1) {
      const [from, to] = [borders[n] ?? at, borders[n + 1] ?? end];
      const found = ranges.some(([start, stop]) => start <= from && to <= stop);
      const text = span.text.slice(from - at, to - at);
      const Tag = found ? "mark" : "span";
      parts.push(
        <Tag key={from} {...styleOf(span.look)}>
          {text}
        </Tag>,
      );
    }
    at = end;
  }
  return parts;
}

function styleOf(look: TextStyle): { className?: string; style?: CSSProperties } {
  if (Object.keys(look).length === 0) return {};
  const [fg, bg] = look.inverse ? [look.bg ?? "canvas", look.fg ?? "ink"] : [look.fg, look.bg];
  const decorations = [look.underline && "underline", look.strike && "line-through"];
  return {
    className: look.dim ? css.faint : undefined,
    style: {
      color: colour(fg),
      backgroundColor: colour(bg),
      fontWeight: look.bold ? 700 : undefined,
      fontStyle: look.italic ? "italic" : undefined,
      textDecoration: decorations.filter(Boolean).join(" ") || undefined,
    },
  };
}

function colour(name: string | undefined): string | undefined {
  if (!name || name.startsWith("#")) return name;
  if (name === "canvas") return "var(--log-bg)";
  if (name === "ink") return "var(--ink)";
  return `var(--ansi-${name})`;
}

/** A colour per rank, far from its neighbours' (the golden angle), readable on both backgrounds:
 * lightness comes from the scheme. */
export function rankColour(rank: number): string {
  const hue = Math.round((60 + rank * 137.508) % 360);
  return `oklch(var(--rank-l) var(--rank-c) ${hue})`;
}
