import { Checkbox, SegmentedControl } from "@mantine/core";
import { useMemo, useState } from "react";
import type { UserMetrics as Data } from "@/api/userMetrics";
import { MetricPlot } from "@/features/metrics/MetricPlot";
import type { Mark } from "@/features/metrics/marks";
import { formatValue, type PlotLine, pointsOf, type XAxis } from "@/features/metrics/plotData";
import { pluralize } from "@/format/numbers";
import { Icon } from "@/ui/Icon";
import css from "./UserMetrics.module.css";

const AXES = [
  { value: "time", label: "Time" },
  { value: "step", label: "Step" },
];

interface Props {
  data: Data;
  /** Of the other charts of the page, in seconds since the epoch. */
  times: [number, number] | undefined;
  marks: Mark[];
}

/** What the job measured itself: a plot for each metric, with a line for each attempt. */
export function UserMetrics({ data, times, marks }: Props) {
  const [x, setX] = useState<XAxis>("time");
  const [log, setLog] = useState(false);
  const plots = useMemo(() => plotsOf(data, x), [data, x]);
  const range = useMemo(() => (x === "time" ? spanOf(data, times) : undefined), [data, times, x]);
  if (plots.length === 0) return <Hint asked={data.asked} />;
  return (
    <section className={css.own} aria-label="Metrics of the job itself">
      <header className={css.head}>
        <h2>From its log</h2>
        <SegmentedControl
          aria-label="Horizontal axis"
          data={AXES}
          value={x}
          onChange={(value) => setX(value as XAxis)}
        />
        <Checkbox
          label="Logarithmic"
          checked={log}
          onChange={(event) => setLog(event.currentTarget.checked)}
        />
      </header>
      <Warnings data={data} />
      <div className={css.grid}>
        {plots.map(([name, lines]) => (
          <MetricPlot
            key={name}
            title={name}
            lines={lines}
            x={x}
            log={log}
            range={range}
            marks={marks}
          />
        ))}
      </div>
      <Dropped data={data} />
    </section>
  );
}

function Hint({ asked }: { asked: boolean }) {
  if (!asked) return null;
  return (
    <p className={css.hint}>
      No numbers in its log yet: a line such as <code>::skep-metric loss=0.1 step=5</code> is
      plotted here some seconds after it was written.
    </p>
  );
}

function plotsOf(data: Data, x: XAxis): [string, PlotLine[]][] {
  const plots = new Map<string, PlotLine[]>();
  const many = data.attempts.filter((one) => one.metrics.length > 0).length > 1;
  for (const { attempt, metrics } of data.attempts) {
    for (const { name, points } of metrics) {
      if (points.length === 0) continue;
      const lines = plots.get(name) ?? [];
      // A task that was tried again alone has the number of the same attempt.
      const times = lines.filter((line) => line.label.startsWith(`Attempt ${attempt}`)).length;
      const label = times > 0 ? `Attempt ${attempt} (${times + 1})` : `Attempt ${attempt}`;
      lines.push({ label: many ? label : name, color: lines.length, points: pointsOf(points, x) });
      plots.set(name, lines);
    }
  }
  return [...plots].sort(([a], [b]) => a.localeCompare(b, "en"));
}

/** From the first to the last time of all charts, so that they lie below each other. */
function spanOf(data: Data, times: [number, number] | undefined): [number, number] | undefined {
  const own = data.attempts
    .flatMap((one) => one.metrics.flatMap(({ points }) => points.map(([, time = 0]) => time)))
    .concat(times ?? []);
  if (own.length === 0) return undefined;
  const from = own.reduce((a, b) => Math.min(a, b));
  const to = own.reduce((a, b) => Math.max(a, b));
  return to > from ? [from, to] : [from - 1, to + 1];
}

function Warnings({ data }: { data: Data }) {
  const found = data.attempts.flatMap(({ attempt, metrics }) =>
    metrics
      .filter((metric) => metric.not_finite > 0)
      .map((metric) => ({ attempt, name: metric.name, step: metric.not_finite_step })),
  );
  return found.map(({ attempt, name, step }) => (
    <p key={`${attempt} ${name}`} className={css.warning} role="note">
      <Icon name="warning" size={15} />
      {name} is NaN or infinite
      {step === null ? "" : ` from step ${formatValue(step)} on`}
      {data.attempts.length > 1 ? `, in attempt ${attempt}` : ""}.
    </p>
  ));
}

function Dropped({ data }: { data: Data }) {
  const strides = data.attempts.flatMap((one) => one.metrics.map((metric) => metric.kept_each));
  const most = Math.max(1, ...strides);
  const messages = [...new Set(data.attempts.flatMap((one) => one.dropped.map((d) => d.message)))];
  if (most === 1 && messages.length === 0) return null;
  return (
    <p className={css.note}>
      {most > 1 ? `Of long series, 1 of ${pluralize(most, "point")} is drawn. ` : ""}
      {messages.join(" ")}
    </p>
  );
}
