import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { chartText, lineColor } from "./charts";
import type { Mark } from "./marks";
import { formatValue, type PlotLine, plotRows, valueAt, type XAxis } from "./plotData";
import { plotOptions } from "./plotOptions";
import css from "./MetricPlot.module.css";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 190;

interface Props {
  title: string;
  lines: PlotLine[];
  x: XAxis;
  log: boolean;
  /** Of the x axis, where others share it. */
  range?: [number, number] | undefined;
  /** Of an axis of time. */
  marks?: Mark[];
}

const NO_MARKS: Mark[] = [];

/** One metric, with a line for each attempt or run; drag to look closer, double-click to see all
 * again. */
export function MetricPlot({ title, lines, x, log, range, marks = NO_MARKS }: Props) {
  const scheme = useComputedColorScheme("light");
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const data = useMemo(() => plotRows(lines, log), [lines, log]);
  const colors = lines.map((line) => line.color).join();
  const [from, to] = range ?? [];

  useEffect(() => {
    const parent = box.current;
    if (!parent) return undefined;
    const options = plotOptions({
      colors: colors.split(",").map(Number),
      x,
      log,
      scheme,
      range: from !== undefined && to !== undefined ? [from, to] : undefined,
      marks,
      width: parent.clientWidth,
      height: HEIGHT,
      onCursor: setCursor,
    });
    const made = new uPlot(options, undefined, parent);
    plot.current = made;
    const observer = new ResizeObserver(() =>
      made.setSize({ width: parent.clientWidth, height: HEIGHT }),
    );
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [colors, x, log, scheme, from, to, marks]);

  useEffect(() => {
    plot.current?.setData([data.x, ...data.rows]);
  }, [data, colors, x, log, scheme, from, to, marks]);

  const words = useMemo(
    () =>
      chartText(
        title,
        lines.map(({ label }) => label),
        data.rows,
        formatValue,
      ),
    [title, lines, data],
  );
  const at = cursor ?? data.x.length - 1;
  return (
    <figure className={css.plot}>
      <figcaption className={css.title}>{title}</figcaption>
      <div ref={box} className={css.canvas} role="img" aria-label={words} />
      <ul className={css.legend}>
        {lines.map((line, index) => {
          const value = valueAt(data.rows[index], at);
          return (
            <li key={line.label}>
              <i className={css.swatch} style={{ background: lineColor(line.color, scheme) }} />
              {line.label} <b className="num">{value === null ? "–" : formatValue(value)}</b>
            </li>
          );
        })}
      </ul>
    </figure>
  );
}
