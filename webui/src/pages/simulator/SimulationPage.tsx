import { Button, Progress, useComputedColorScheme } from "@mantine/core";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { useMemo } from "react";
import {
  isActive,
  type SimulatedRun,
  type Simulation,
  simulation,
  stopSimulation,
} from "@/api/simulations";
import { lineColor } from "@/features/metrics/charts";
import { MetricPlot } from "@/features/metrics/MetricPlot";
import type { PlotLine } from "@/features/metrics/plotData";
import { shortModel } from "@/format/names";
import { formatPercent, pluralize } from "@/format/numbers";
import { formatDateTime, formatDuration } from "@/format/time";
import { Breadcrumb } from "@/ui/Breadcrumb";
import { EmptyState } from "@/ui/EmptyState";
import { LinkButton } from "@/ui/LinkButton";
import { notifyError } from "@/ui/notify";
import { PageHeader } from "@/ui/PageHeader";
import { QueryState } from "@/ui/QueryState";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { ForecastAnswer } from "@/features/simulations/ForecastAnswer";
import { percentDone } from "@/features/simulations/labels";
import { WhatIfAnswer } from "./WhatIfAnswer";
import { comparedTo, runLabel, scopeOf, stateLabel } from "./labels";
import css from "./simulator.module.css";

/** How wide the flank of a step is drawn. */
const STEP_S = 0.5;

/** One simulation: how far it is, and then its policies side by side. */
export function SimulationPage() {
  const { id } = useParams({ from: "/shell/simulator/$id" });
  const found = useQuery(simulation(id));
  return (
    <>
      <PageHeader
        title="Simulation"
        above={
          <Breadcrumb>
            <Link to="/simulator">Simulator</Link>
          </Breadcrumb>
        }
        note={found.data ? stateLabel(found.data.state) : null}
      >
        {found.data && isActive(found.data) ? <StopButton id={id} /> : null}
      </PageHeader>
      <div className={css.page}>
        <QueryState query={found} what="simulation" rows={6} height={64}>
          {(data) => (
            <>
              <Facts simulation={data} />
              <Content simulation={data} />
            </>
          )}
        </QueryState>
      </div>
    </>
  );
}

function StopButton({ id }: { id: string }) {
  const queries = useQueryClient();
  const stop = useMutation({
    mutationFn: () => stopSimulation(id),
    onSuccess: (data) => queries.setQueryData(simulation(id).queryKey, data),
    onError: (error) => notifyError(error, "The simulation was not stopped"),
  });
  return (
    <Button variant="default" loading={stop.isPending} onClick={() => stop.mutate()}>
      Stop
    </Button>
  );
}

function Facts({ simulation: { request, source, owner, ...found } }: { simulation: Simulation }) {
  const { since, until } = request;
  return (
    <div className={css.facts}>
      <span>
        Of <b>{scopeOf(found)}</b>
      </span>
      <span>
        {source === "live"
          ? "The present queue under another policy"
          : source === "now"
            ? "What waits and runs now"
            : source === "history" && since && until
              ? `Jobs submitted from ${formatDateTime(since)} to ${formatDateTime(until)}`
              : `${pluralize(request.jobs, "made-up job")} at ${formatPercent(100 * request.load)} load, seed ${request.seed}`}
      </span>
      {request.node_events ? <span>Nodes as they were</span> : null}
      {request.policy_of ? <span>Other policies of {request.policy_of}</span> : null}
      <span>{request.placement === "cells" ? "As the live scheduler" : "Fast, one pool"}</span>
      {request.changes.map((change) => (
        <span key={`${change.virtual_cluster} ${change.gpu_model}`}>
          What if: {change.gpus > 0 ? "+" : "−"}
          {Math.abs(change.gpus).toLocaleString("en")} {shortModel(change.gpu_model)}{" "}
          {change.virtual_cluster
            ? `for ${change.virtual_cluster}`
            : source === "now"
              ? "in the cluster"
              : ""}
        </span>
      ))}
      <span className="dim">by {owner}</span>
    </div>
  );
}

function Content({ simulation: found }: { simulation: Simulation }) {
  if (isActive(found)) return <Waiting simulation={found} />;
  if (found.forecast) return <ForecastAnswer forecast={found.forecast} />;
  if (found.runs.length > 0)
    return (
      <>
        {found.now ? <WhatIfAnswer now={found.now} runs={found.runs} /> : null}
        <Results runs={found.runs} since={found.now ? "now" : "the first one"} />
      </>
    );
  return (
    <EmptyState
      title={found.error ? "It has no result" : "It was stopped"}
      tone={found.error ? "bad" : "calm"}
      action={
        <LinkButton to="/simulator" variant="default">
          Simulate again
        </LinkButton>
      }
    >
      {found.error?.message}
    </EmptyState>
  );
}

function Waiting({ simulation: found }: { simulation: Simulation }) {
  const percent = percentDone(found);
  return (
    <div className={css.progress}>
      <Progress
        value={percent}
        aria-label="Progress"
        animated={found.state === "RUNNING"}
        size="lg"
      />
      <span role="status">
        {found.state === "QUEUED"
          ? "It begins as soon as no other simulation runs."
          : "The simulation runs."}{" "}
        You may leave the page; the result stays at this address.
      </span>
      {found.state === "QUEUED" ? null : (
        <span className="dim">
          {`${found.jobs_ended.toLocaleString("en")} of ${pluralize(found.jobs_total, "job")} have ended, over all runs.`}
        </span>
      )}
    </div>
  );
}

function Results({ runs, since }: { runs: SimulatedRun[]; since: string }) {
  const columns = useMemo(() => columnsOf(runs), [runs]);
  return (
    <>
      <div className={css.plots}>
        <Bars runs={runs} title="Mean completion time" value={(run) => run.figures.avg_jct_s} />
        <Bars runs={runs} title="Mean wait" value={(run) => run.figures.avg_wait_s} />
        <MetricPlot
          title={`Jobs that wait, by time since ${since}`}
          lines={linesOf(runs, 1)}
          x="elapsed"
          log={false}
        />
        <MetricPlot
          title={`GPUs in use, by time since ${since}`}
          lines={linesOf(runs, 2)}
          x="elapsed"
          log={false}
        />
      </div>
      <DataTable
        label="Figures of each policy"
        columns={columns}
        rows={runs}
        rowId={(run) => `${run.scenario} ${run.figures.policy}`}
        file={{ rows: "simulation" }}
        minWidth={960}
      />
      <Unfinished runs={runs} />
    </>
  );
}

/** Says so where a policy did not run the same jobs as the others. */
function Unfinished({ runs }: { runs: SimulatedRun[] }) {
  const left = runs.filter(({ figures }) => figures.finished < figures.jobs);
  if (left.length === 0) return null;
  return (
    <p className={css.facts}>
      Jobs that ask for more GPUs than there are never start, and are not counted:{" "}
      {left
        .map((run) => `${run.figures.jobs - run.figures.finished} under ${runLabel(run, runs)}`)
        .join("; ")}
      .
    </p>
  );
}

interface BarsProps {
  runs: SimulatedRun[];
  title: string;
  value: (run: SimulatedRun) => number;
}

function Bars({ runs, title, value }: BarsProps) {
  const scheme = useComputedColorScheme("light");
  const most = Math.max(...runs.map(value), 1e-9);
  const first = runs[0] ? value(runs[0]) : 0;
  return (
    <figure className={css.bars}>
      <figcaption>{title}</figcaption>
      <ul>
        {runs.map((run, index) => (
          <li key={runLabel(run, runs)}>
            <span>{runLabel(run, runs)}</span>
            <span className={css.bar}>
              <i
                aria-hidden="true"
                style={{
                  width: `${(62 * value(run)) / most}%`,
                  background: lineColor(index, scheme),
                }}
              />
              <b className="num">{formatDuration(value(run))}</b>
              <small className="num">{comparedTo(first, value(run))}</small>
            </span>
          </li>
        ))}
      </ul>
    </figure>
  );
}

/** Steps: what was counted holds until it is counted anew. */
function linesOf(runs: SimulatedRun[], column: 1 | 2): PlotLine[] {
  return runs.map((run, color) => ({
    label: runLabel(run, runs),
    color,
    points: run.series.flatMap((point, index): [number, number][] => {
      const at = point[0] ?? 0;
      const before = run.series[index - 1];
      const step: [number, number] = [at, point[column] ?? 0];
      if (!before || at - (before[0] ?? 0) <= STEP_S) return [step];
      return [[at - STEP_S, before[column] ?? 0], step];
    }),
  }));
}

type Figures = SimulatedRun["figures"];

function columnsOf(runs: SimulatedRun[]): Column<SimulatedRun>[] {
  const column = (
    id: string,
    header: string,
    value: (figures: Figures) => number,
    text: (value: number) => string = formatDuration,
  ): Column<SimulatedRun> => ({
    id,
    header,
    width: "minmax(86px, 1fr)",
    align: "end",
    cell: (run) => <span className="num">{text(value(run.figures))}</span>,
    sortValue: (run) => value(run.figures),
  });
  const whole = (value: number) => value.toLocaleString("en");
  return [
    {
      id: "policy",
      header: "Policy",
      width: "minmax(150px, 2fr)",
      cell: (run) => <b>{runLabel(run, runs)}</b>,
      sortValue: (run) => runLabel(run, runs),
    },
    column("finished", "Jobs", (figures) => figures.finished, whole),
    column("mean", "Mean JCT", (figures) => figures.avg_jct_s),
    column("median", "Median", (figures) => figures.p50_jct_s),
    column("p99", "99%", (figures) => figures.p99_jct_s),
    column("wait", "Mean wait", (figures) => figures.avg_wait_s),
    column(
      "longest",
      "Longest wait",
      (figures) => figures.wait_max_s ?? -1,
      (value) => (value < 0 ? "–" : formatDuration(value)),
    ),
    column(
      "starved",
      "Starved",
      (figures) => figures.starved ?? -1,
      (value) => (value < 0 ? "–" : whole(value)),
    ),
    column("makespan", "Makespan", (figures) => figures.makespan_s),
    column("used", "GPUs used", (figures) => 100 * figures.utilisation, formatPercent),
    column(
      "rho",
      "Worst ρ",
      (figures) => figures.rho_max,
      (value) => value.toFixed(2),
    ),
    column("preemptions", "Preemptions", (figures) => figures.preemptions, whole),
  ];
}
