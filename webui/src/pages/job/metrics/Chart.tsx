import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";
import { chartText, lineColor } from "@/features/metrics/charts";
import type { Mark } from "@/features/metrics/marks";
import { pluralize } from "@/format/numbers";
import { chartOptions } from "./chartOptions";
import { align, MAX_LINES, type Series, summarize } from "./series";
import css from "./Chart.module.css";
import "uplot/dist/uPlot.min.css";

const HEIGHT = 190;
const SUMMARY = ["lowest", "mean", "highest"];

interface Props {
  title: string;
  lines: Series[];
  /** What a line stands for: "GPU". */
  each: string;
  step: number;
  max?: number;
  format: (value: number) => string;
  marks: Mark[];
}

/** Lines over time; drag to look closer, double-click to see all again. */
export function Chart({ title, lines, each, step, max, format, marks }: Props) {
  const scheme = useComputedColorScheme("light");
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [cursor, setCursor] = useState<number | null>(null);
  const summary = lines.length > MAX_LINES;
  const data = useMemo(() => {
    const aligned = align(lines, step);
    return summary ? summarize(aligned) : aligned;
  }, [lines, step, summary]);
  const names = lines.map((line) => line.label).join("\n");
  const labels = useMemo(() => (summary ? SUMMARY : names.split("\n")), [summary, names]);

  useEffect(() => {
    const parent = box.current;
    if (!parent) return undefined;
    const options = chartOptions({
      labels,
      summary,
      scheme,
      max,
      format,
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
  }, [labels, summary, scheme, max, format, marks]);

  useEffect(() => {
    plot.current?.setData([data.times, ...data.rows]);
  }, [data, labels, summary, scheme, max, format, marks]);

  const words = useMemo(
    () => chartText(title, labels, data.rows, format),
    [title, labels, data, format],
  );
  const at = cursor ?? data.times.length - 1;
  return (
    <figure className={css.chart}>
      <figcaption className={css.title}>
        {title}
        {summary ? (
          <span className="dim">Mean and range of {pluralize(lines.length, each)}</span>
        ) : null}
      </figcaption>
      <div ref={box} className={css.plot} role="img" aria-label={words} />
      <ul className={css.legend}>
        {labels.map((label, index) => {
          const value = data.rows[index]?.[at];
          return (
            <li key={label}>
              <i style={{ background: summary ? undefined : lineColor(index, scheme) }} />
              {label} <b className="num">{value == null ? "–" : format(value)}</b>
            </li>
          );
        })}
      </ul>
    </figure>
  );
}
