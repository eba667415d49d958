import { Button, Select } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { jobAttempt, type JobAttemptDetail } from "@/api/ranks";
import type { Job } from "@/api/types";
import { isFinished } from "@/features/jobs/permissions";
import { capitalize, exitLabel } from "@/format/names";
import { formatHours, formatMegabytes, formatPercent, pluralize } from "@/format/numbers";
import { formatDateTime } from "@/format/time";
import { ErrorState } from "@/ui/EmptyState";
import { SkeletonRows } from "@/ui/Skeleton";
import { stateLabel } from "@/ui/StateBadge";
import { ElapsedTime } from "@/ui/Time";
import { diagnosisTitle } from "../failure/labels";
import css from "./CompareAttempts.module.css";

interface Props {
  job: Job;
  /** Numbers of the two attempts. */
  pair: [number, number];
}

/** Two placements of a job in two columns; rows in which they differ are marked. */
export function CompareAttempts({ job, pair }: Props) {
  const navigate = useNavigate({ from: "/jobs/$id" });
  const go = (compare: string | undefined) =>
    void navigate({ search: (old) => ({ ...old, compare }), replace: true });
  const [left, right] = useQueries({
    queries: pair.map((index) => ({
      ...jobAttempt(job.id, index),
      refetchInterval: index === job.attempt && !isFinished(job.state) ? 15_000 : (false as const),
    })),
  });
  const failed = [left, right].find((each) => each?.error && !each.data);
  const choices = Array.from({ length: Math.min(job.attempt, 500) }, (_, n) =>
    String(job.attempt - n),
  );
  const pick = (side: 0 | 1) => (
    <Select
      aria-label={side === 0 ? "First attempt" : "Second attempt"}
      data={choices.map((value) => ({ value, label: `Attempt ${value}` }))}
      value={String(pair[side])}
      onChange={(value) => {
        const chosen = Number(value);
        go(side === 0 ? `${chosen}-${pair[1]}` : `${pair[0]}-${chosen}`);
      }}
      allowDeselect={false}
      searchable={choices.length > 12}
      w={140}
    />
  );
  return (
    <section className={css.compare} aria-label="Attempts side by side">
      <div className={css.head}>
        <h2>Side by side</h2>
        <Button variant="subtle" color="gray" onClick={() => go(undefined)}>
          Close
        </Button>
      </div>
      {failed ? (
        <ErrorState
          error={failed.error}
          what="attempt"
          retry={() => void Promise.all([left?.refetch(), right?.refetch()])}
        />
      ) : null}
      {left?.data && right?.data ? (
        <div className={css.scroll} tabIndex={0} role="group" aria-label="Table of both attempts">
          <table>
            <thead>
              <tr>
                <td />
                <th scope="col">{pick(0)}</th>
                <th scope="col">{pick(1)}</th>
              </tr>
            </thead>
            <tbody>
              {rowsOf(job, left.data, right.data).map(({ name, cells, differ }) => (
                <tr key={name} data-differ={differ || undefined}>
                  <th scope="row">{name}</th>
                  <td>{cells[0]}</td>
                  <td>{cells[1]}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      ) : failed ? null : (
        <SkeletonRows rows={6} />
      )}
    </section>
  );
}

interface Row {
  name: string;
  cells: [ReactNode, ReactNode];
  differ: boolean;
}

type Show = (attempt: JobAttemptDetail) => ReactNode;

function rowsOf(job: Job, left: JobAttemptDetail, right: JobAttemptDetail): Row[] {
  const row = (name: string, show: Show, of = show): Row => ({
    name,
    cells: [show(left), show(right)],
    differ: of(left) !== of(right),
  });
  const number = (
    name: string,
    key: "gpu_utilization" | "gpu_memory_peak_mb" | "cpu_percent" | "memory_peak_mb" | "gpu_hours",
    format: (value: number) => string,
  ) => row(name, (attempt) => (attempt[key] === null ? "–" : format(attempt[key])));
  const gpus: Row[] =
    job.gpus > 0
      ? [
          number("Mean GPU utilisation", "gpu_utilization", formatPercent),
          number("Peak GPU memory", "gpu_memory_peak_mb", formatMegabytes),
          number("GPU-hours", "gpu_hours", (hours) => `${formatHours(hours)} h`),
        ]
      : [];
  return [
    row("Ended as", (attempt) =>
      attempt.outcome ? capitalize(attempt.outcome.toLowerCase()) : "Goes on",
    ),
    // Two are never placed at the same time.
    row(
      "Placed",
      (attempt) => formatDateTime(attempt.placed_at),
      () => null,
    ),
    row(
      "Ran for",
      ({ started_at, finished_at }) =>
        started_at ? <ElapsedTime start={started_at} end={finished_at} /> : "never ran",
      runTime,
    ),
    row("Nodes", nodesText),
    row("Ends of tasks", endsText),
    row("Diagnosis", ({ diagnosis }) => (diagnosis ? diagnosisTitle(diagnosis) : "–")),
    row("Failed first", ({ diagnosis }) =>
      diagnosis?.task ? `${diagnosis.task}${diagnosis.node ? ` on ${diagnosis.node}` : ""}` : "–",
    ),
    ...gpus,
    number("CPU of a task", "cpu_percent", formatPercent),
    number("Peak memory of a task", "memory_peak_mb", formatMegabytes),
  ];
}

function runTime({ started_at, finished_at }: JobAttemptDetail): string {
  return `${started_at && (Date.parse(finished_at ?? "") || 0) - Date.parse(started_at)}`;
}

function nodesText({ nodes, nodes_total }: JobAttemptDetail): string {
  const names = nodes.slice(0, 8).map(({ name }) => name);
  const more = nodes_total - names.length;
  return more > 0 ? `${names.join(", ")} and ${more} more` : names.join(", ");
}

function endsText({ ends }: JobAttemptDetail): string {
  return ends
    .map((end) => {
      const exit = exitLabel(end);
      const what = `${stateLabel(end.state).toLowerCase()}${exit ? ` (${exit})` : ""}`;
      return `${pluralize(end.tasks, "task")} ${what}`;
    })
    .join(", ");
}
