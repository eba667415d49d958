import { Checkbox, SegmentedControl, Select, useComputedColorScheme } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { useMemo } from "react";
import type { TaskState } from "@/api/types";
import { comparison, type Run, type UserMetric } from "@/api/userMetrics";
import { JobsBreadcrumb } from "@/features/jobs/JobsBreadcrumb";
import { lineColor } from "@/features/metrics/charts";
import { MetricPlot } from "@/features/metrics/MetricPlot";
import { formatValue, type PlotLine, pointsOf, type XAxis } from "@/features/metrics/plotData";
import { pluralize } from "@/format/numbers";
import { EmptyState } from "@/ui/EmptyState";
import { FilterInput } from "@/ui/FilterInput";
import { LinkButton } from "@/ui/LinkButton";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { StateBadge } from "@/ui/StateBadge";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { type CompareSearch } from "./searchParams";
import css from "./ComparePage.module.css";

/** What several jobs measured, side by side: a plot for each metric with a line for each job. */
export function ComparePage() {
  const search: CompareSearch = useSearch({ from: "/shell/jobs/compare" });
  const { jobs = "", tag = "" } = search;
  const asked = jobs !== "" || tag !== "";
  const found = useQuery({ ...comparison(jobs, tag), enabled: asked });
  const count = asked ? found.data?.runs.length : undefined;
  return (
    <>
      <PageHeader
        title="Compare runs"
        above={<JobsBreadcrumb />}
        note={count === undefined ? null : pluralize(count, "job")}
      />
      <Bar search={search} />
      {asked ? (
        <QueryState query={found} what="comparison" rows={6} height={64}>
          {({ runs, more }) =>
            runs.some((run) => run.metrics.length > 0) ? (
              <Runs runs={runs} more={more} search={search} />
            ) : (
              <Nothing tag={jobs ? "" : tag} />
            )
          }
        </QueryState>
      ) : (
        <EmptyState
          title="Which jobs?"
          action={
            <LinkButton to="/jobs" variant="default">
              Go to the jobs
            </LinkButton>
          }
        >
          Select jobs in their list and press “Compare”, or give a tag of theirs above.
        </EmptyState>
      )}
    </>
  );
}

function Nothing({ tag }: { tag: string }) {
  return (
    <EmptyState title={tag ? `No job tagged ${tag} has metrics` : "These jobs have no metrics"}>
      A job has them when its file sets extras.skep.metrics and its log has numbers, such as
      ::skep-metric loss=0.1 step=5.
    </EmptyState>
  );
}

function Bar({ search }: { search: CompareSearch }) {
  const navigate = useNavigate({ from: "/jobs/compare" });
  const change = (part: CompareSearch) =>
    void navigate({ search: (old) => ({ ...old, ...part }), replace: true });
  return (
    <search className={css.bar} aria-label="What to compare, and how">
      <FilterInput
        label="Tags, all of which a job has"
        placeholder="Tags"
        icon="tag"
        value={search.jobs ? "" : (search.tag?.replaceAll(",", " ") ?? "")}
        onChange={(text) => {
          const tag =
            text
              .split(/[,\s]+/)
              .filter(Boolean)
              .join(",") || undefined;
          if (tag || !search.jobs) change({ tag, jobs: undefined });
        }}
        className={css.tags}
      />
      <SegmentedControl
        aria-label="Horizontal axis"
        value={search.x ?? "step"}
        onChange={(x) => change({ x: x === "step" ? undefined : "elapsed" })}
        data={[
          { value: "step", label: "Step" },
          { value: "elapsed", label: "Time since start" },
        ]}
      />
      <Checkbox
        label="Logarithmic"
        checked={search.log ?? false}
        onChange={(event) => change({ log: event.currentTarget.checked || undefined })}
      />
    </search>
  );
}

interface RunsProps {
  runs: Run[];
  more: boolean;
  search: CompareSearch;
}

function Runs({ runs, more, search }: RunsProps) {
  const navigate = useNavigate({ from: "/jobs/compare" });
  const x: XAxis = search.x ?? "step";
  const plots = useMemo(() => plotsOf(runs, x), [runs, x]);
  const names = plots.map(([name]) => name);
  const metric = names.find((name) => name === search.metric) ?? names[0] ?? "";
  const scheme = useComputedColorScheme("light");
  const columns = useMemo(() => columnsOf(runs, metric, scheme), [runs, metric, scheme]);
  return (
    <div className={css.page} tabIndex={0} role="group" aria-label="Plots and table">
      <div className={css.grid}>
        {plots.map(([name, lines]) => (
          <MetricPlot key={name} title={name} lines={lines} x={x} log={search.log ?? false} />
        ))}
      </div>
      <header className={css.head}>
        <h2>By run</h2>
        <Select
          aria-label="Metric of the table"
          data={names}
          value={metric}
          onChange={(value) =>
            void navigate({
              search: (old) => ({ ...old, metric: value ?? undefined }),
              replace: true,
            })
          }
          allowDeselect={false}
          w={180}
        />
      </header>
      <DataTable
        label={`${metric} by run`}
        columns={columns}
        rows={runs}
        rowId={(run) => run.id}
        file={{ rows: `runs-by-${metric}` }}
        minWidth={560 + 110 * (columns.length - 6)}
      />
      {more ? <p className={css.more}>More jobs have this tag: these are the newest.</p> : null}
    </div>
  );
}

function plotsOf(runs: Run[], x: XAxis): [string, PlotLine[]][] {
  const plots = new Map<string, PlotLine[]>();
  runs.forEach((run, color) => {
    const times = run.metrics.flatMap(({ points }) => points.map(([, time = 0]) => time));
    const start = times.reduce((a, b) => Math.min(a, b), Infinity);
    for (const { name, points } of run.metrics) {
      const line = { label: run.name, color, points: pointsOf(points, x, start) };
      plots.set(name, [...(plots.get(name) ?? []), line]);
    }
  });
  return [...plots].sort(([a], [b]) => a.localeCompare(b, "en"));
}

function columnsOf(runs: Run[], metric: string, scheme: "light" | "dark"): Column<Run>[] {
  const of = (run: Run) => run.metrics.find(({ name }) => name === metric);
  const differ = [...new Set(runs.flatMap((run) => Object.keys(run.parameters)))];
  const number = (
    id: string,
    header: string,
    value: (found: UserMetric) => number | null,
  ): Column<Run> => ({
    id,
    header,
    width: "88px",
    align: "end",
    cell: (run) => {
      const found = of(run);
      const shown = found ? value(found) : null;
      return <span className="num">{shown === null ? "–" : formatValue(shown)}</span>;
    },
    sortValue: (run) => {
      const found = of(run);
      return found ? value(found) : null;
    },
  });
  return [
    {
      id: "run",
      header: "Run",
      width: "minmax(160px, 1.5fr)",
      cell: (run) => (
        <span className={css.run}>
          <i
            className={css.swatch}
            style={{ background: lineColor(runs.indexOf(run), scheme) }}
            aria-hidden="true"
          />
          <Link to="/jobs/$id" params={{ id: run.id }} search={{ tab: "metrics" }} className="link">
            {run.name}
          </Link>
        </span>
      ),
      sortValue: (run) => run.name,
    },
    {
      id: "state",
      header: "State",
      width: "112px",
      optional: "phone",
      cell: (run) => <StateBadge state={run.state as TaskState} />,
      sortValue: (run) => run.state,
    },
    ...differ.map((name): Column<Run> => ({
      id: `parameter ${name}`,
      header: name,
      width: "minmax(88px, 1fr)",
      cell: (run) => run.parameters[name] ?? <span className="dim">–</span>,
      sortValue: (run) => run.parameters[name] ?? null,
    })),
    number("points", "Points", (found) => found.count),
    number("last", "Last", (found) => found.last),
    number("low", "Min", (found) => found.low),
    number("high", "Max", (found) => found.high),
  ];
}
