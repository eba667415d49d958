import { MultiSelect, SegmentedControl } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { jobAttempts, metrics } from "@/api/jobs";
import type { Job, Metrics } from "@/api/types";
import { userMetrics, type UserMetrics as OwnMetrics } from "@/api/userMetrics";
import type { Mark } from "@/features/metrics/marks";
import { isFinished } from "@/features/jobs/permissions";
import { taskName } from "@/format/names";
import { EmptyState, ErrorState } from "@/ui/EmptyState";
import { SkeletonRows } from "@/ui/Skeleton";
import { ReadNote } from "@/ui/ReadNote";
import { Chart } from "./Chart";
import { attemptMarks } from "./attemptMarks";
import { gpuSeries, inUnit, isMeasured, taskSeries } from "./series";
import { RankUses } from "./RankUses";
import { UserMetrics } from "./UserMetrics";
import css from "./MetricsTab.module.css";

const percent = (value: number) => `${Math.round(value)}%`;
const numberFormat = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const wholeFormat = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
/** Two figures that matter: an idle task uses thousandths of a core. */
const short = (value: number) => (value < 10 ? numberFormat : wholeFormat).format(value);
const UNITS = {
  MB: (value: number) => `${short(value)} MB`,
  GB: (value: number) => `${short(value)} GB`,
};

const watts = (value: number) => `${wholeFormat.format(value)} W`;
const perSecond = (value: number) => `${short(value)} MB/s`;
const HOUR_S = 3600;
const SPANS = [
  { value: "all", label: "All" },
  { value: "first", label: "First hour" },
  { value: "last", label: "Last hour" },
];

/** What to ask the server for. The last hour begins at a full minute, so that it is one question
 * for a minute. */
function spanToAsk(job: Job, span: string): { since?: string; until?: string } {
  const start = job.started_at ? Date.parse(job.started_at) / 1000 : 0;
  if (span === "first" && start) return { until: String(start + HOUR_S) };
  const end = job.finished_at ? Date.parse(job.finished_at) : Date.now();
  if (span === "last") return { since: String(Math.floor(end / 60_000) * 60 - HOUR_S) };
  return {};
}

/** Whether the job runs for so long that an hour of it is worth a look. */
function isLong(job: Job): boolean {
  if (!job.started_at) return false;
  const end = job.finished_at ? Date.parse(job.finished_at) : Date.now();
  return end - Date.parse(job.started_at) > HOUR_S * 1000;
}

const NO_MARKS: Mark[] = [];
const RATES = [
  ["Network received", "received"],
  ["Network sent", "sent"],
  ["Disk read", "read"],
  ["Disk written", "written"],
] as const;

export default function MetricsTab({ job }: { job: Job }) {
  const own = useQuery(userMetrics(job.id, !isFinished(job.state)));
  return (
    <>
      <ReadNote query={own} what="metrics in its log" wide />
      <Samples job={job} own={own.data} />
    </>
  );
}

function Samples({ job, own }: { job: Job; own: OwnMetrics | undefined }) {
  const [span, setSpan] = useState("all");
  const read = useQuery({
    ...metrics(job.id, spanToAsk(job, span)),
    refetchInterval: ({ state }) => {
      if (isFinished(job.state)) return false;
      return state.data?.tasks.some((task) => task.points.length > 0) ? 30_000 : 5000;
    },
  });
  const attempts = useQuery({ ...jobAttempts(job.id), enabled: job.attempt > 1 }).data;
  const marks = useMemo(() => (attempts ? attemptMarks(attempts) : NO_MARKS), [attempts]);
  if (read.isPending) return <SkeletonRows rows={6} />;
  if (!read.data) {
    return <ErrorState error={read.error} what="metrics" retry={() => void read.refetch()} />;
  }
  const sampled = read.data.tasks.some((task) => task.points.length > 0);
  if (!sampled && own?.attempts.some((one) => one.metrics.length > 0)) {
    return (
      <div className={css.page} tabIndex={0} role="group" aria-label="Charts">
        <UserMetrics data={own} times={undefined} marks={marks} />
      </div>
    );
  }
  if (!sampled) {
    if (isFinished(job.state)) {
      return (
        <EmptyState title="No samples">
          {job.started_at
            ? "It ended before the first sample was taken: nodes send one every few seconds."
            : "No task of it ever started."}
        </EmptyState>
      );
    }
    return (
      <EmptyState title="No samples yet">
        {job.started_at
          ? "The nodes send the first ones a few seconds after a task starts."
          : "They begin when the first task starts."}
      </EmptyState>
    );
  }
  return <Charts job={job} data={read.data} own={own} marks={marks} span={span} onSpan={setSpan} />;
}

/** From the first sample to the last one, in seconds since the epoch. */
function spanOf(data: Metrics): [number, number] {
  const times = [...data.gpus, ...data.tasks].flatMap(({ points }) => [
    points[0]?.[0] ?? Infinity,
    points.at(-1)?.[0] ?? -Infinity,
  ]);
  return [Math.min(...times), Math.max(...times)];
}

interface ChartsProps {
  job: Job;
  data: Metrics;
  own: OwnMetrics | undefined;
  marks: Mark[];
  span: string;
  onSpan: (span: string) => void;
}

function Charts({ job, data, own, marks, span, onSpan }: ChartsProps) {
  const [picked, setPicked] = useState<string[]>([]);
  const names = useMemo(() => [...new Set(data.tasks.map(taskName))], [data]);
  const shown = useMemo(() => {
    const wanted = new Set(picked);
    const keep = (each: { role: string; index: number }) =>
      wanted.size === 0 || wanted.has(taskName(each));
    return { gpus: data.gpus.filter(keep), tasks: data.tasks.filter(keep) };
  }, [data, picked]);
  const lines = useMemo(
    () => ({
      utilization: gpuSeries(shown.gpus, "utilization"),
      gpuMemory: inUnit(gpuSeries(shown.gpus, "memory")),
      cpu: taskSeries(shown.tasks, "cpu"),
      memory: inUnit(taskSeries(shown.tasks, "memory")),
      power: gpuSeries(shown.gpus, "power"),
      received: taskSeries(shown.tasks, "received"),
      sent: taskSeries(shown.tasks, "sent"),
      read: taskSeries(shown.tasks, "read"),
      written: taskSeries(shown.tasks, "written"),
    }),
    [shown],
  );

  const times = useMemo(() => spanOf(data), [data]);

  return (
    <div className={css.page} tabIndex={0} role="group" aria-label="Charts">
      {own ? <UserMetrics data={own} times={times} marks={marks} /> : null}
      {isLong(job) ? (
        <SegmentedControl
          aria-label="Time shown"
          data={SPANS}
          value={span}
          onChange={onSpan}
          className={css.span}
        />
      ) : null}
      {names.length > 1 ? (
        <MultiSelect
          aria-label="Tasks to draw"
          placeholder={picked.length === 0 ? "All tasks" : ""}
          data={names}
          value={picked}
          onChange={setPicked}
          searchable
          clearable
          limit={100}
          className={css.pick}
        />
      ) : null}
      <div className={css.grid}>
        {lines.utilization.length > 0 ? (
          <>
            <Chart
              title="GPU utilisation"
              lines={lines.utilization}
              each="GPU"
              step={data.step_s}
              marks={marks}
              max={100}
              format={percent}
            />
            <Chart
              title="GPU memory"
              lines={lines.gpuMemory.lines}
              each="GPU"
              step={data.step_s}
              marks={marks}
              format={UNITS[lines.gpuMemory.unit]}
            />
          </>
        ) : null}
        <Chart
          title="CPU (cores)"
          lines={lines.cpu}
          each="task"
          step={data.step_s}
          marks={marks}
          format={short}
        />
        <Chart
          title="Memory"
          lines={lines.memory.lines}
          each="task"
          step={data.step_s}
          marks={marks}
          format={UNITS[lines.memory.unit]}
        />
        {isMeasured(lines.power) ? (
          <Chart
            title="GPU power"
            lines={lines.power}
            each="GPU"
            step={data.step_s}
            marks={marks}
            format={watts}
          />
        ) : null}
        {RATES.map(([title, rate]) =>
          isMeasured(lines[rate]) ? (
            <Chart
              key={rate}
              title={title}
              lines={lines[rate]}
              each="task"
              step={data.step_s}
              marks={marks}
              format={perSecond}
            />
          ) : null,
        )}
      </div>
      {job.tasks > 1 ? <RankUses job={job} /> : null}
    </div>
  );
}
