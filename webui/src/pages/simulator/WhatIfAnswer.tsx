import { Link } from "@tanstack/react-router";
import { useMemo } from "react";
import type { MovedJob, SimulatedRun, WhatIf, WhatIfSide } from "@/api/simulations";
import { pluralize } from "@/format/numbers";
import { formatDateTime, formatDuration } from "@/format/time";
import { DataTable } from "@/ui/table/DataTable";
import type { Column } from "@/ui/table/columns";
import { comparedTo, runLabel } from "./labels";
import css from "./simulator.module.css";

interface Row extends WhatIfSide {
  label: string;
}

/** When the jobs of now start and end, as the cluster is and as it would be. */
export function WhatIfAnswer({ now, runs }: { now: WhatIf; runs: SimulatedRun[] }) {
  const rows = now.sides.flatMap((side, index): Row[] => {
    const run = runs[index];
    return run ? [{ ...side, label: runLabel(run, runs) }] : [];
  });
  const [first, ...others] = rows;
  return (
    <section className={css.section} aria-label="When jobs start and end">
      <h2 className={css.title}>When the waiting jobs start and end, from now on</h2>
      <DataTable
        label="Starts and ends of waiting jobs"
        columns={columnsOf(first)}
        rows={rows}
        rowId={(row) => row.label}
        file={{ rows: "waiting-jobs" }}
        minWidth={720}
      />
      <p className={css.facts}>{notesOf(now).join(" ")}</p>
      {others.map((side) => (
        <Moved key={side.label} side={side} at={now.at} alone={others.length === 1} />
      ))}
    </section>
  );
}

function columnsOf(first: Row | undefined): Column<Row>[] {
  const seconds = (id: string, header: string, value: (row: Row) => number): Column<Row> => ({
    id,
    header,
    width: "minmax(110px, 1fr)",
    align: "end",
    cell: (row) => (
      <span className="num">
        {formatDuration(value(row))}{" "}
        <small>{first && row !== first ? comparedTo(value(first), value(row)) : ""}</small>
      </span>
    ),
    sortValue: value,
  });
  const whole = (id: string, header: string, value: (row: Row) => number): Column<Row> => ({
    id,
    header,
    width: "minmax(80px, 1fr)",
    align: "end",
    cell: (row) => <span className="num">{value(row).toLocaleString("en")}</span>,
    sortValue: value,
  });
  return [
    {
      id: "policy",
      header: "Policy",
      width: "minmax(150px, 2fr)",
      cell: (row) => <b>{row.label}</b>,
      sortValue: (row) => row.label,
    },
    whole("starting", "Start", (row) => row.starting),
    seconds("start", "Mean start", (row) => row.avg_start_s),
    seconds("start95", "95% start", (row) => row.p95_start_s),
    seconds("end", "Mean end", (row) => row.avg_end_s),
    seconds("end95", "95% end", (row) => row.p95_end_s),
    whole("earlier", "End earlier", (row) => row.gaining),
    whole("later", "End later", (row) => row.losing),
    whole("never", "Never end", (row) => row.never_end),
  ];
}

function notesOf({ at, running, waiting, unknown_durations, opportunistic }: WhatIf): string[] {
  const found = [
    `From ${formatDateTime(isoOf(at))}: ${pluralize(running, "running job")} and ${pluralize(waiting, "waiting job")}. Times are from then on.`,
  ];
  if (unknown_durations > 0)
    found.push(
      `${pluralize(unknown_durations, "job")} without an estimate: taken to run as long as the median job.`,
    );
  if (opportunistic > 0) found.push(`${pluralize(opportunistic, "opportunistic job")} left out.`);
  return found;
}

/** The jobs that gain and lose most by one of the changes. */
function Moved({ side, at, alone }: { side: Row; at: number; alone: boolean }) {
  const { gains, losses, gaining, losing, hidden, label } = side;
  if (gaining + losing === 0)
    return <p className={css.facts}>No job ends at another time under {label}.</p>;
  const tables = (
    <>
      <JobTable title={`End earlier under ${label}`} count={gaining} jobs={gains} at={at} />
      <JobTable title={`End later under ${label}`} count={losing} jobs={losses} at={at} />
      {hidden > 0 ? (
        <p className={css.facts}>{pluralize(hidden, "job")} that you may not see not listed.</p>
      ) : null}
    </>
  );
  if (alone) return tables;
  return (
    <details className={css.moved}>
      <summary>
        {label}: {pluralize(gaining, "job")} earlier, {losing.toLocaleString("en")} later
      </summary>
      {tables}
    </details>
  );
}

interface JobTableProps {
  title: string;
  count: number;
  jobs: MovedJob[];
  at: number;
}

function JobTable({ title, count, jobs, at }: JobTableProps) {
  const columns = useMemo(() => jobColumns(at), [at]);
  if (jobs.length === 0) return null;
  const label = `${title}: ${pluralize(count, "job")}`;
  return (
    <>
      <h3 className={css.title}>{label}</h3>
      <DataTable
        label={label}
        columns={columns}
        rows={jobs}
        rowId={(job) => job.id}
        file={{ rows: "jobs" }}
        minWidth={560}
      />
    </>
  );
}

function jobColumns(at: number): Column<MovedJob>[] {
  const moment = (
    id: string,
    header: string,
    value: (job: MovedJob) => number | null,
  ): Column<MovedJob> => ({
    id,
    header,
    width: "minmax(92px, 1fr)",
    align: "end",
    cell: (job) => <span className="num">{fromNow(value(job), at)}</span>,
    sortValue: (job) => value(job) ?? Number.MAX_VALUE,
  });
  return [
    {
      id: "name",
      header: "Job",
      width: "minmax(120px, 2fr)",
      cell: (job) => (
        <Link to="/jobs/$id" params={{ id: job.id }} className="link">
          {job.name}
        </Link>
      ),
      sortValue: (job) => job.name,
    },
    {
      id: "owner",
      header: "Owner",
      width: "minmax(80px, 1fr)",
      cell: (job) => job.owner,
      sortValue: (job) => job.owner,
      optional: "phone",
    },
    moment("start", "Start, as it is", (job) => job.old_start_at),
    moment("start-then", "Start, then", (job) => job.new_start_at),
    moment("end", "End, as it is", (job) => job.old_end_at),
    moment("end-then", "End, then", (job) => job.new_end_at),
  ];
}

function fromNow(seconds: number | null, at: number): string {
  return seconds === null ? "never" : formatDuration(seconds - at);
}

function isoOf(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}
