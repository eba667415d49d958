import { memo, type CSSProperties, type ReactNode } from "react";
import { clock } from "@/format/time";
import { taskName } from "@/format/names";
import { parseAnsi, type Look, type Span } from "./ansi";
import type { Line } from "./assemble";
import { findRanges } from "./find";
import { rankColour } from "./ranks";
import css from "./LogLine.module.css";

export interface LineProps {
  line: Line;
  text: string;
  needle: string;
  current: boolean;
  ranks: boolean;
  times: boolean;
}

/** `text` is the line's own; a prop, since a line at the end of a log grows in place. */
export const LogLine = memo(function LogLine(props: LineProps) {
  const { line, text, needle, current, ranks, times } = props;
  const { spans } = parseAnsi(text, line.look);
  const plain = spans.map((span) => span.text).join("");
  return (
    <div className={css.line} data-stream={line.chunk.stream} data-current={current || undefined}>
      {times ? <span className={css.time}>{clock(line.chunk.at)}</span> : null}
      {ranks ? (
        <span
          className={css.rank}
          style={{ color: rankColour(line.chunk.rank) }}
          title={`rank ${line.chunk.rank}`}
        >
          {taskName(line.chunk)}
        </span>
      ) : null}
      <span className={css.text}>{mark(spans, findRanges(plain, needle))}</span>
    </div>
  );
});

/** The spans as elements, with the found stretches marked across their borders. */
function mark(spans: Span[], ranges: [number, number][]): ReactNode[] {
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
        <Tag key={from} {...looks(span.look)}>
          {text}
        </Tag>,
      );
    }
    at = end;
  }
  return parts;
}

function looks(look: Look): { className?: string; style?: CSSProperties } {
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
